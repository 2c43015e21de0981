//! JSON schemas before llguidance compiles them. What it would take wrong, or take too long for, is refused here, with the place
//! in the schema. That is: keywords that it does not have, numbers that it would round, and schemas that grow when compiled.

use std::collections::HashMap;

use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::{Map, Number, Value, json};

use super::{ConstraintError, check_size, shortened};

/// Bytes of a schema's text.
const MAX_BYTES: usize = 128 << 10;
/// Schemas within a schema.
const MAX_SCHEMAS: usize = 5_000;
/// Schemas within each other, references included.
const MAX_DEPTH: usize = 150;
/// Properties of an object, and names that it requires: each is a row of the parser, and is compared with all others.
const MAX_PROPERTIES: usize = 500;
/// Patterns of names of an object: each is compared with all others.
const MAX_PATTERNS: usize = 16;
/// Schemas after alternatives are combined with each other. Each takes hundreds of bytes.
const MAX_COMBINED: u64 = 200_000;
/// Integers beyond are rounded.
const MAX_INTEGER: u64 = 1 << 53;
/// Digits of a bound that is no integer.
const MAX_DIGITS: usize = 20;
/// Decimals of `multipleOf`.
const MAX_DECIMALS: usize = 6;
/// The sum of all values of `multipleOf`, and the product of those that hold at once, without their decimal points: a lexer has
/// as many states.
const MAX_MULTIPLES: u64 = 100_000;

/// Bounds, and those that exclude their value.
const BOUNDS: [[&str; 2]; 2] = [["minimum", "exclusiveMinimum"], ["maximum", "exclusiveMaximum"]];
/// The distance of the next number from an exclusive bound that is an integer.
const NEXT: f64 = 1e-6;
/// Exclusive bounds of numbers beyond have too few digits for that.
const MAX_EXCLUSIVE: f64 = 1e9;

/// Keywords that change what is valid, and that llguidance does not have.
const REFUSED: &[&str] = &[
    "not",
    "if",
    "then",
    "else",
    "contains",
    "minContains",
    "maxContains",
    "propertyNames",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedItems",
    "unevaluatedProperties",
    "$dynamicRef",
    "$recursiveRef",
    "x-guidance",
];

/// A schema, checked, in the form in which llguidance compiles it.
pub(super) fn prepare(text: &str) -> Result<Value, ConstraintError> {
    check_size(text, MAX_BYTES)?;
    let mut root: Value =
        serde_json::from_str(text).map_err(|error| ConstraintError::Json { what: error.to_string() })?;
    if root == Value::Bool(true) {
        root = json!({});
    }
    let mut check = Check { root: &root, references: HashMap::new(), schemas: 0, multiples: 0 };
    check.schema(&root, "#", 0)?;
    let mut budget = MAX_SCHEMAS - check.schemas;
    rewrite(&mut root, &mut |keywords| {
        BOUNDS.iter().for_each(|[bound, exclusive]| shift_exclusive(keywords, bound, exclusive));
        // Says nothing, and would be refused.
        if keywords.get("uniqueItems") == Some(&Value::Bool(false)) {
            keywords.shift_remove("uniqueItems");
        }
    });
    let mut schema = root.clone();
    rewrite(&mut schema, &mut |keywords| inline_one_of(keywords, &root, &mut budget));
    if let Value::Object(keywords) = &mut schema {
        // JSON on one line: a model cannot go on with white space for ever, and much of the text needs no choice.
        let options = json!({ "whitespace_flexible": false, "item_separator": ", ", "key_separator": ": " });
        keywords.insert("x-guidance".into(), options);
    }
    Ok(schema)
}

/// What becomes of a schema when it is compiled.
#[derive(Clone, Copy)]
struct Cost {
    /// Schemas in it.
    size: u64,
    /// Alternatives in it, with each of which another schema is combined.
    options: u64,
    /// The product of values of `multipleOf` that may hold at once.
    multiples: u64,
}

impl Cost {
    const NONE: Cost = Cost { size: 0, options: 0, multiples: 1 };
    const ONE: Cost = Cost { size: 1, options: 1, multiples: 1 };

    /// Of one or the other.
    fn or(self, other: Cost) -> Cost {
        Cost {
            size: self.size.saturating_add(other.size),
            options: self.options.saturating_add(other.options),
            multiples: self.multiples.max(other.multiples),
        }
    }

    /// Of both at once.
    fn and(self, other: Cost) -> Cost {
        let times = u64::saturating_mul;
        Cost {
            size: times(self.size, other.options).saturating_add(times(other.size, self.options)),
            options: times(self.options, other.options),
            multiples: times(self.multiples, other.multiples),
        }
    }
}

struct Check<'a> {
    root: &'a Value,
    /// The cost of what references name; while that is looked at, one.
    references: HashMap<&'a str, Cost>,
    schemas: usize,
    /// The sum of values of `multipleOf`.
    multiples: u64,
}

impl<'a> Check<'a> {
    /// Checks a schema that stands at `at`, within `depth` others.
    fn schema(&mut self, schema: &'a Value, at: &str, depth: usize) -> Result<Cost, ConstraintError> {
        let refuse = |what: &str| ConstraintError::Schema { at: shortened(at), what: what.to_owned() };
        self.schemas += 1;
        if self.schemas > MAX_SCHEMAS || depth > MAX_DEPTH {
            let what =
                format!("it has more than {MAX_SCHEMAS} schemas, or more than {MAX_DEPTH} within each other");
            return Err(ConstraintError::TooComplex { what });
        }
        let keywords = match schema {
            Value::Bool(_) => return Ok(Cost::ONE),
            Value::Object(keywords) => keywords,
            _ => return Err(refuse("a schema is an object, true or false")),
        };
        if let Some(keyword) = REFUSED.iter().find(|keyword| keywords.contains_key(**keyword)) {
            return Err(refuse(&format!("the keyword {keyword:?} is not supported")));
        }
        if keywords.get("uniqueItems").is_some_and(|unique| *unique != Value::Bool(false)) {
            return Err(refuse("the keyword \"uniqueItems\" is not supported"));
        }
        self.names(keywords)?;
        let multiple = self.numbers(keywords).map_err(|what| refuse(&what))?;
        let of_names = keywords.get("patternProperties").and_then(Value::as_object);
        let of_names = of_names.into_iter().flat_map(Map::keys).map(String::as_str);
        let patterns = keywords.get("pattern").and_then(Value::as_str).into_iter().chain(of_names);
        if patterns.into_iter().any(has_unquoted_class) {
            return Err(refuse(
                "a pattern has a class of characters with all control characters, but without quotation marks or backslashes; \
                 leave out control characters too, as in [^\"\\x00-\\x1f]",
            ));
        }
        // All of its parts hold at once; those that stand beside each other are added.
        let mut own = Cost { size: 1, options: 0, multiples: multiple };
        let mut all = Cost::ONE;
        for (keyword, value) in keywords {
            let at = format!("{at}/{keyword}");
            match (keyword.as_str(), value) {
                ("items" | "additionalItems" | "additionalProperties", Value::Bool(_) | Value::Object(_)) => {
                    own = own.or(self.part(value, &at, depth)?);
                }
                ("items" | "prefixItems", Value::Array(items)) => {
                    for item in items {
                        own = own.or(self.part(item, &at, depth)?);
                    }
                }
                ("properties" | "patternProperties", Value::Object(properties)) => {
                    for (name, property) in properties {
                        own = own.or(self.part(property, &format!("{at}/{name}"), depth)?);
                    }
                }
                ("anyOf" | "oneOf", Value::Array(options)) => {
                    let mut any = Cost::NONE;
                    for option in options {
                        any = any.or(self.schema(option, &at, depth + 1)?);
                    }
                    all = all.and(any);
                }
                ("allOf", Value::Array(parts)) => {
                    for part in parts {
                        all = all.and(self.schema(part, &at, depth + 1)?);
                    }
                }
                ("$ref", Value::String(reference)) => {
                    all = all.and(self.reference(reference, &at, depth)?);
                }
                _ => {}
            }
        }
        own.options = own.options.max(1);
        let cost = all.and(own);
        if cost.multiples > MAX_MULTIPLES {
            return Err(refuse("the values of multipleOf that hold at once take too many states"));
        }
        if cost.size > MAX_COMBINED {
            return Err(ConstraintError::TooComplex {
                what: format!("too many alternatives are combined at {}", shortened(at)),
            });
        }
        Ok(cost)
    }

    /// A schema of an item or a property. Where it has no alternatives, it adds none.
    fn part(&mut self, schema: &'a Value, at: &str, depth: usize) -> Result<Cost, ConstraintError> {
        let cost = self.schema(schema, at, depth + 1)?;
        Ok(match only_reference(schema) {
            Some(_) => Cost { size: 1, options: 0, ..cost },
            None => Cost { options: if cost.options > 1 { cost.options } else { 0 }, ..cost },
        })
    }

    fn reference(&mut self, reference: &'a str, at: &str, depth: usize) -> Result<Cost, ConstraintError> {
        if let Some(cost) = self.references.get(reference) {
            return Ok(*cost);
        }
        let target = target(self.root, reference).ok_or_else(|| ConstraintError::Schema {
            at: shortened(at),
            what: format!(
                "there is no {:?} in the schema; references begin with \"#/\"",
                shortened(reference)
            ),
        })?;
        self.references.insert(reference, Cost::ONE);
        let cost = self.schema(target, reference, depth + 1)?;
        self.references.insert(reference, cost);
        Ok(cost)
    }

    /// Checks how many names an object has.
    fn names(&self, keywords: &Map<String, Value>) -> Result<(), ConstraintError> {
        let members = |keyword: &str| keywords.get(keyword).and_then(Value::as_object).map_or(0, Map::len);
        let required = keywords.get("required").and_then(Value::as_array).map_or(0, Vec::len);
        let data = ["const", "enum"].into_iter().filter_map(|keyword| keywords.get(keyword));
        let named = members("properties").max(required).max(data.map(most_members).max().unwrap_or(0));
        let patterns = members("patternProperties");
        if named > MAX_PROPERTIES || patterns > MAX_PATTERNS {
            let what = format!(
                "an object has {named} properties and {patterns} patterns of properties; up to {MAX_PROPERTIES} and \
                 {MAX_PATTERNS} are compiled"
            );
            return Err(ConstraintError::TooComplex { what });
        }
        Ok(())
    }

    /// Checks that numbers mean what they say. Returns the value of `multipleOf` without its decimal point, or 1.
    fn numbers(&mut self, keywords: &Map<String, Value>) -> Result<u64, String> {
        let is_integer = keywords.get("type").is_some_and(|kind| kind == "integer");
        for [bound, exclusive] in BOUNDS {
            let excluded = match keywords.get(exclusive) {
                Some(Value::Bool(true)) => keywords.get(bound),
                excluded => excluded,
            };
            if let Some(value) = excluded.and_then(Value::as_f64)
                && value.abs() > MAX_EXCLUSIVE
                && !is_integer
            {
                return Err(format!(
                    "{exclusive} is {value}; of numbers it is supported up to {MAX_EXCLUSIVE}"
                ));
            }
        }
        for keyword in BOUNDS.into_iter().flatten() {
            match keywords.get(keyword) {
                Some(Value::Number(number)) if !is_exact(number) => {
                    return Err(format!(
                        "{keyword} is {number}; only numbers up to 2^53 with up to {MAX_DIGITS} digits are exact"
                    ));
                }
                _ => {}
            }
        }
        for keyword in ["const", "enum"] {
            if let Some(number) = keywords.get(keyword).and_then(inexact_number) {
                return Err(format!(
                    "{keyword} has the number {number}; only numbers up to 2^53 with up to {MAX_DIGITS} digits are exact"
                ));
            }
        }
        if let Some(multiple) = keywords.get("multipleOf") {
            let digits = multiple.as_f64().and_then(digits).ok_or_else(|| {
                format!(
                    "multipleOf is {multiple}; it must be a number above 0 with up to {MAX_DECIMALS} decimals"
                )
            })?;
            self.multiples += digits;
            if self.multiples > MAX_MULTIPLES {
                return Err(format!("multipleOf: {multiple} takes too many states"));
            }
            return Ok(digits);
        }
        Ok(1)
    }
}

/// Whether a pattern has a class that llguidance takes wrong in JSON: one with all control characters (with or without line
/// ends), but without quotation marks or backslashes. It would let these in, escaped.
fn has_unquoted_class(pattern: &str) -> bool {
    fn has(pattern: &Hir) -> bool {
        let lets_in = |from: char, to: char| match pattern.kind() {
            HirKind::Class(Class::Unicode(class)) => {
                class.ranges().iter().any(|range| range.start() <= from && to <= range.end())
            }
            _ => false,
        };
        let controls = lets_in('\0', '\t') && lets_in('\x0b', '\x1f');
        let is_wrong = controls && !(lets_in('"', '"') && lets_in('\\', '\\'));
        is_wrong || pattern.kind().subs().iter().any(has)
    }
    regex_syntax::parse(pattern).is_ok_and(|pattern| has(&pattern))
}

/// Whether llguidance takes a number for what it is. It computes with `f64`.
fn is_exact(number: &Number) -> bool {
    match (number.as_i64(), number.as_f64()) {
        (Some(integer), _) => integer.unsigned_abs() <= MAX_INTEGER,
        (None, Some(value)) if value.fract() == 0.0 => value.abs() <= MAX_INTEGER as f64,
        (None, Some(value)) => value.to_string().len() <= MAX_DIGITS,
        (None, None) => false,
    }
}

/// A number in a value that is not exact.
fn inexact_number(value: &Value) -> Option<&Number> {
    match value {
        Value::Number(number) => (!is_exact(number)).then_some(number),
        Value::Array(items) => items.iter().find_map(inexact_number),
        Value::Object(members) => members.values().find_map(inexact_number),
        _ => None,
    }
}

/// The most members that an object in a value has.
fn most_members(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(most_members).max().unwrap_or(0),
        Value::Object(members) => members.values().map(most_members).max().unwrap_or(0).max(members.len()),
        _ => 0,
    }
}

/// The digits of a number above 0 without its decimal point: 25 for 0.25.
fn digits(number: f64) -> Option<u64> {
    let mut scaled = number;
    for _ in 0..=MAX_DECIMALS {
        if scaled.fract() == 0.0 {
            return (1.0..=MAX_MULTIPLES as f64).contains(&scaled).then_some(scaled as u64);
        }
        scaled *= 10.0;
    }
    None
}

/// What a schema refers to, if that is all it does.
fn only_reference(schema: &Value) -> Option<&str> {
    match schema.as_object()?.iter().next()? {
        (keyword, Value::String(reference)) if keyword == "$ref" && schema.as_object()?.len() == 1 => {
            Some(reference)
        }
        _ => None,
    }
}

/// What a reference names.
fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    match reference.strip_prefix('#')? {
        "" | "/" => Some(root),
        pointer => root.pointer(pointer).filter(|_| !pointer.contains('~')),
    }
}

/// Changes a schema and all schemas in it, the inner ones first.
fn rewrite(schema: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(|item| rewrite(item, change)),
        Value::Object(keywords) => {
            for (keyword, value) in keywords.iter_mut() {
                match (keyword.as_str(), value) {
                    // Data, whatever it looks like.
                    ("const" | "enum" | "default" | "examples", _) => {}
                    ("properties" | "patternProperties" | "$defs" | "definitions", Value::Object(named)) => {
                        named.values_mut().for_each(|schema| rewrite(schema, change));
                    }
                    (_, value) => rewrite(value, change),
                }
            }
            change(keywords);
        }
        _ => {}
    }
}

/// Puts what they name in the place of references among the alternatives of `oneOf`. llguidance takes `oneOf` only where it
/// sees that no two alternatives can be valid at once, and it does not look behind references. `budget`: values that may be
/// added.
fn inline_one_of(keywords: &mut Map<String, Value>, root: &Value, budget: &mut usize) {
    let Some(Value::Array(options)) = keywords.get_mut("oneOf") else { return };
    for option in options {
        let Some(found) = only_reference(option).and_then(|reference| target(root, reference)) else {
            continue;
        };
        let values = count(found);
        if values <= *budget {
            *budget -= values;
            *option = found.clone();
        }
    }
}

/// Makes an exclusive bound that is an integer an inclusive one, a millionth farther in. llguidance takes the bound itself for
/// valid where another bound is less than 1 away.
fn shift_exclusive(keywords: &mut Map<String, Value>, bound: &str, exclusive: &str) {
    let number = |keyword: &str| keywords.get(keyword).and_then(Value::as_f64);
    let excluded = match keywords.get(exclusive) {
        // As in draft 4.
        Some(Value::Bool(true)) => number(bound),
        Some(Value::Number(_)) => number(exclusive),
        _ => None,
    };
    let Some(excluded) = excluded.filter(|value| value.fract() == 0.0) else { return };
    let inwards = if bound == "minimum" { 1.0 } else { -1.0 };
    let is_integer = keywords.get("type").is_some_and(|kind| kind == "integer");
    let shifted = excluded + inwards * if is_integer { 1.0 } else { NEXT };
    let inclusive = match number(bound).filter(|_| !keywords[exclusive].is_boolean()) {
        Some(other) if (other - shifted) * inwards > 0.0 => other,
        _ => shifted,
    };
    keywords.shift_remove(exclusive);
    let inclusive =
        if is_integer && inclusive.fract() == 0.0 { json!(inclusive as i64) } else { json!(inclusive) };
    keywords.insert(bound.to_owned(), inclusive);
}

/// Values in a value.
fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(count).sum::<usize>(),
        _ => 1,
    }
}
