//! Reads one call, or one list of calls, behind the mark that it begins with. The text may not be complete yet. What is found
//! does not depend on how much more text follows.

use serde_json::{Map, Number, Value};

use super::definitions::Tools;
use super::syntax::{Body, CALL_ID, OBJECT, QUOTE, SOLAR_NAME};

/// Most nested lists and objects of Gemma's notation.
const MAX_DEPTH: usize = 64;
/// Most bytes of a header or a function's name.
const MAX_HEADER_BYTES: usize = 256;

/// A call as a model has written it.
#[derive(Debug, PartialEq)]
pub(super) struct Written {
    pub(super) name: String,
    /// A JSON object.
    pub(super) arguments: String,
    /// The number that the model gave it.
    pub(super) id: Option<String>,
}

/// What stands behind the beginning of a call.
#[derive(Debug, PartialEq)]
pub(super) enum Read {
    /// Calls, and how many bytes they take.
    Calls(Vec<Written>, usize),
    /// Nothing of a call: the header of another message, and its bytes.
    Header(usize),
}

/// Why there is no call.
#[derive(Debug, PartialEq)]
pub(super) enum Stop {
    /// The text ends too early.
    Incomplete,
    /// The first so many bytes are no call.
    Malformed(usize, &'static str),
}

/// Reads what follows the mark `begin`.
pub(super) fn parse(body: Body, begin: &str, text: &str, tools: &Tools) -> Result<Read, Stop> {
    let mut cursor = Cursor { text, at: 0 };
    let calls = match body {
        Body::Json => cursor.objects()?,
        Body::Named(separators) => {
            cursor.skip_space();
            match cursor.rest().chars().next() {
                Some('[' | '{') => cursor.objects()?,
                _ => vec![cursor.named(separators)?],
            }
        }
        Body::Harmony => {
            let (header, _) = cursor.until(&["<|message|>"], MAX_HEADER_BYTES)?;
            let header = [begin, header].concat();
            let Some((_, name)) = header.split_once("to=functions.") else {
                return Ok(Read::Header(cursor.at));
            };
            let end = name.find(|c: char| c.is_whitespace() || c == '<').unwrap_or(name.len());
            let (name, arguments) = (name[..end].to_owned(), cursor.json()?.to_owned());
            vec![Written { name, arguments, id: None }]
        }
        Body::Elements { parameter, parameter_end, end } => {
            vec![cursor.elements(parameter, parameter_end, end, tools)?]
        }
        Body::Pairs => vec![cursor.pairs(tools)?],
        Body::Gemma => {
            let (name, _) = cursor.until(&[OBJECT], MAX_HEADER_BYTES)?;
            let arguments = Value::Object(cursor.gemma_object(0)?).to_string();
            vec![Written { name: name.trim().to_owned(), arguments, id: None }]
        }
    };
    Ok(Read::Calls(calls, cursor.at))
}

/// A place in a text.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn malformed(&self, why: &'static str) -> Stop {
        Stop::Malformed(self.at, why)
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Which of these marks follows. It is skipped.
    fn mark(&mut self, marks: &[&str], why: &'static str) -> Result<usize, Stop> {
        let rest = self.rest();
        if let Some(index) = marks.iter().position(|mark| rest.starts_with(mark)) {
            self.at += marks[index].len();
            return Ok(index);
        }
        let is_begun = marks.iter().any(|mark| mark.starts_with(rest));
        Err(if is_begun { Stop::Incomplete } else { self.malformed(why) })
    }

    /// The text up to the first of these marks, which is skipped too, and which it is. The text has at most so many bytes.
    fn until(&mut self, marks: &[&str], most: usize) -> Result<(&'a str, usize), Stop> {
        let rest = self.rest();
        let found = marks.iter().enumerate().filter_map(|(index, mark)| Some((rest.find(mark)?, index)));
        match found.min() {
            Some((at, index)) if at <= most => {
                self.at += at + marks[index].len();
                Ok((&rest[..at], index))
            }
            Some(_) => Err(self.malformed("its name is too long")),
            None if rest.len()
                > most.saturating_add(marks.iter().map(|mark| mark.len()).max().unwrap_or(0)) =>
            {
                Err(self.malformed("its name is too long"))
            }
            None => Err(Stop::Incomplete),
        }
    }

    /// A JSON object or list.
    fn json(&mut self) -> Result<&'a str, Stop> {
        self.skip_space();
        let (mut depth, mut in_text, mut is_escaped) = (0usize, false, false);
        let rest = self.rest();
        for (at, byte) in rest.bytes().enumerate() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if in_text => is_escaped = true,
                b'"' => in_text = !in_text,
                _ if in_text => {}
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                if at == 0 {
                    return Err(self.malformed("its arguments are no JSON object"));
                }
                self.at += at + 1;
                return Ok(&rest[..=at]);
            }
        }
        Err(Stop::Incomplete)
    }

    /// Objects with a name and arguments.
    fn objects(&mut self) -> Result<Vec<Written>, Stop> {
        let json = self.json()?;
        let value: Value = serde_json::from_str(json).map_err(|_| self.malformed("it is no JSON"))?;
        let list = match value {
            Value::Array(list) => list,
            value => vec![value],
        };
        let calls = list.iter().map(|call| {
            let text = |names: [&str; 2]| names.into_iter().find_map(|name| call[name].as_str());
            let arguments = match ["arguments", "parameters"].into_iter().find_map(|name| call.get(name)) {
                Some(Value::String(text)) => text.clone(),
                None | Some(Value::Null) => OBJECT.to_owned() + "}",
                Some(value) => value.to_string(),
            };
            let id = text(["id", "tool_call_id"]).map(str::to_owned);
            Some(Written { name: text(["name", "tool_name"])?.to_owned(), arguments, id })
        });
        let calls = calls.collect::<Option<Vec<_>>>().filter(|calls| !calls.is_empty());
        calls.ok_or_else(|| self.malformed("it has no name"))
    }

    /// A name, a separator and arguments.
    fn named(&mut self, separators: &[&str]) -> Result<Written, Stop> {
        let (header, _) = self.until(separators, MAX_HEADER_BYTES)?;
        let (header, mut id) = match header.split_once(CALL_ID) {
            Some((name, id)) => (name, Some(id)),
            None => (header, None),
        };
        let mut name = header.trim();
        // Solar Open.
        if let Some((number, function)) = name.split_once(SOLAR_NAME) {
            (id, name) = (Some(number), function);
        }
        // Kimi.
        if let Some((function, number)) = name.rsplit_once(':')
            && let Some(function) = function.strip_prefix("functions.")
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            (id, name) = (Some(name), function);
        }
        let (name, id) = (name.to_owned(), id.map(str::to_owned));
        Ok(Written { name, arguments: self.json()?.to_owned(), id })
    }

    fn elements(
        &mut self,
        parameter: &str,
        parameter_end: &str,
        end: &str,
        tools: &Tools,
    ) -> Result<Written, Stop> {
        let unquoted = |text: &'a str| text.trim().trim_matches('"');
        let name = unquoted(self.until(&[">"], MAX_HEADER_BYTES)?.0);
        let mut arguments = Map::new();
        loop {
            self.skip_space();
            if self.mark(&[end, parameter], "a parameter is missing or has no end")? == 0 {
                break;
            }
            let (key, _) = self.until(&[">"], MAX_HEADER_BYTES)?;
            // DeepSeek says whether it is a text.
            let (key, is_text) = match key.split_once("\" string=\"") {
                Some((key, is_text)) => (key, Some(is_text.starts_with("true"))),
                None => (key, None),
            };
            let (text, _) = self.until(&[parameter_end], usize::MAX)?;
            let lines = text.strip_prefix('\n').and_then(|text| text.strip_suffix('\n'));
            let (key, text) = (unquoted(key), lines.unwrap_or(text));
            let value = match is_text {
                Some(true) => Value::from(text),
                Some(false) => {
                    serde_json::from_str(text).map_err(|_| self.malformed("an argument is no JSON"))?
                }
                None => typed(text, tools.parameter(name, key)),
            };
            arguments.insert(key.to_owned(), value);
        }
        Ok(Written { name: name.to_owned(), arguments: Value::Object(arguments).to_string(), id: None })
    }

    fn pairs(&mut self, tools: &Tools) -> Result<Written, Stop> {
        const MARKS: [&str; 3] = ["<arg_key>", "</tool_call>", "\n"];
        self.skip_space();
        let (name, mut found) = self.until(&MARKS, MAX_HEADER_BYTES)?;
        let name = name.trim();
        let mut arguments = Map::new();
        loop {
            if found == 2 {
                self.skip_space();
                found = self.mark(&MARKS[..2], "an argument is missing or has no end")?;
            }
            if found == 1 {
                break;
            }
            let (key, _) = self.until(&["</arg_key>"], MAX_HEADER_BYTES)?;
            self.skip_space();
            self.mark(&["<arg_value>"], "an argument has no value")?;
            let (text, _) = self.until(&["</arg_value>"], usize::MAX)?;
            arguments.insert(key.trim().to_owned(), typed(text, tools.parameter(name, key.trim())));
            found = 2;
        }
        Ok(Written { name: name.to_owned(), arguments: Value::Object(arguments).to_string(), id: None })
    }

    /// What follows the brace of an object.
    fn gemma_object(&mut self, depth: usize) -> Result<Map<String, Value>, Stop> {
        let mut map = Map::new();
        loop {
            self.skip_space();
            if self.rest().is_empty() {
                return Err(Stop::Incomplete);
            }
            if self.rest().starts_with('}') {
                self.at += 1;
                return Ok(map);
            }
            let key = match self.rest().starts_with(['<', '"']) {
                true => {
                    let key = self.gemma_text()?;
                    self.mark(&[":"], "an argument has no value")?;
                    key
                }
                false => self.until(&[":"], MAX_HEADER_BYTES)?.0.trim().to_owned(),
            };
            let value = self.gemma_value(depth)?;
            map.insert(key, value);
            self.skip_space();
            if self.mark(&[",", "}"], "an argument has no end")? == 1 {
                return Ok(map);
            }
        }
    }

    /// A text between its own marks, or as in JSON.
    fn gemma_text(&mut self) -> Result<String, Stop> {
        let rest = self.rest();
        if rest.starts_with('"') {
            let mut ends = rest.match_indices('"').skip(1).map(|(at, _)| &rest[..=at]);
            let is_whole = |text: &&str| {
                let before = &text[..text.len() - 1];
                (before.len() - before.trim_end_matches('\\').len()).is_multiple_of(2)
            };
            let text = ends.find(is_whole).ok_or(Stop::Incomplete)?;
            let value = serde_json::from_str(text).map_err(|_| self.malformed("an argument is no text"))?;
            self.at += text.len();
            return Ok(value);
        }
        self.mark(&[QUOTE], "an argument is no text")?;
        Ok(self.until(&[QUOTE], usize::MAX)?.0.to_owned())
    }

    fn gemma_value(&mut self, depth: usize) -> Result<Value, Stop> {
        self.skip_space();
        if depth > MAX_DEPTH {
            return Err(self.malformed("its arguments are nested too deeply"));
        }
        match self.rest().chars().next() {
            None => Err(Stop::Incomplete),
            Some('<' | '"') => self.gemma_text().map(Value::from),
            Some('{') => {
                self.at += 1;
                self.gemma_object(depth + 1).map(Value::Object)
            }
            Some('[') => {
                self.at += 1;
                let mut list = Vec::new();
                loop {
                    self.skip_space();
                    if self.rest().starts_with(']') {
                        self.at += 1;
                        return Ok(Value::Array(list));
                    }
                    list.push(self.gemma_value(depth + 1)?);
                    self.skip_space();
                    if self.mark(&[",", "]"], "a list has no end")? == 1 {
                        return Ok(Value::Array(list));
                    }
                }
            }
            Some(_) => {
                let rest = self.rest();
                let end = rest.find([',', '}', ']']).ok_or(Stop::Incomplete)?;
                let value = serde_json::from_str(rest[..end].trim());
                let value = value.map_err(|_| self.malformed("an argument is no value"))?;
                self.at += end;
                Ok(value)
            }
        }
    }
}

/// The value that a text stands for, by the schema of its parameter. What fits no type is a text.
fn typed(text: &str, schema: &Value) -> Value {
    let mut types = Vec::new();
    types_of(schema, &mut types);
    let value = match text.trim() {
        // As templates write them that print what Python prints.
        "True" => Ok(Value::Bool(true)),
        "False" => Ok(Value::Bool(false)),
        "None" => Ok(Value::Null),
        text => serde_json::from_str(text),
    };
    let fits = |value: &Value| {
        types.iter().any(|name| match value {
            Value::Null => *name == "null",
            Value::Bool(_) => *name == "boolean",
            Value::Number(number) => *name == "number" || *name == "integer" && is_integer(number),
            Value::Array(_) => *name == "array",
            Value::Object(_) => *name == "object",
            Value::String(_) => false,
        })
    };
    match value {
        Ok(value) if fits(&value) => value,
        _ => Value::from(text),
    }
}

fn is_integer(number: &Number) -> bool {
    number.is_i64() || number.is_u64()
}

/// The types that a schema allows.
fn types_of<'a>(schema: &'a Value, types: &mut Vec<&'a str>) {
    match &schema["type"] {
        Value::String(name) => types.push(name),
        Value::Array(names) => types.extend(names.iter().filter_map(Value::as_str)),
        _ => {}
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        schema[key].as_array().into_iter().flatten().for_each(|schema| types_of(schema, types));
    }
}
