//! The Jinja dialect of chat templates, as Hugging Face's library runs it.
//!
//! Instructions, recursion, template length and output length are limited here, which gives the best error
//! messages. These limits can be got around: one instruction can take any time and memory. What cannot be got
//! around is the process that [`worker`](super::worker) compiles and renders in.

use std::fmt::Write as _;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use chrono::format::{Item, StrftimeItems};
use chrono::{DateTime, FixedOffset};
use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value};
use regex::Regex;

use super::form::Form;
use super::{python, wire};
use crate::chat::prompt::other_thinking;
use crate::chat::{ChatError, Message, ToolCall, without_header};

/// Maximum length of a template. The longest in use have about 20 KB.
const MAX_TEMPLATE_BYTES: usize = 256 << 10;
/// Maximum number of instructions of a rendering: this many, and in addition some per message. Real templates
/// take a few dozen instructions per message, and a few per byte of the definitions of tools.
const FUEL: u64 = 200_000;
const FUEL_PER_MESSAGE: u64 = 5_000;
const FUEL_PER_BYTE_OF_TOOLS: u64 = 50;
/// Maximum nesting of macros and loops.
const MAX_RECURSION: usize = 100;
/// Maximum output, in bytes in addition to four times the messages.
const MAX_OUTPUT_BYTES: usize = 1 << 20;
/// What is too long then, in words.
pub(in crate::chat) const RENDERED: &str = "the rendered conversation";
/// Maximum nesting of values that `tojson` writes.
const MAX_JSON_DEPTH: usize = 64;
/// Stack that compiling and rendering need: the template engine recurses over values and expressions, which a
/// template can nest deeply. Memory pages are only used if it does.
pub(in crate::chat) const STACK_BYTES: usize = 256 << 20;

/// A compiled template.
#[derive(Debug)]
pub(in crate::chat) struct Compiled {
    environment: Environment<'static>,
}

/// The message of a template's `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

/// The template with one kind of line ends and without `generation` tags; an error if it is too long.
pub(in crate::chat) fn prepare(source: &str) -> Result<String, ChatError> {
    if source.len() > MAX_TEMPLATE_BYTES {
        return Err(ChatError::TooLong { what: "the template", limit: MAX_TEMPLATE_BYTES });
    }
    Ok(without_generation_tags(&source.replace("\r\n", "\n").replace('\r', "\n")))
}

/// The maximum length of a rendered conversation whose messages have `content_bytes`.
pub(in crate::chat) fn max_output_bytes(content_bytes: usize) -> usize {
    MAX_OUTPUT_BYTES.saturating_add(content_bytes.saturating_mul(4))
}

impl Compiled {
    /// Compiles a template that [`prepare`] returned. `now` is the time of `strftime_now`; it is the same for
    /// a whole conversation, so that the beginning of the prompt never changes.
    pub(in crate::chat) fn new(source: String, now: DateTime<FixedOffset>) -> Result<Compiled, ChatError> {
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_recursion_limit(MAX_RECURSION);
        python::add_to(&mut environment);
        environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(Raised(message)))
        });
        environment.add_function("strftime_now", move |format: &str| strftime(&now, format));
        environment.add_filter("tojson", to_json);
        environment.add_template_owned("chat", source).map_err(|e| describe(&e))?;
        Ok(Compiled { environment })
    }

    /// Renders the template with these variables and messages.
    pub(in crate::chat) fn render(
        &self,
        variables: impl IntoIterator<Item = (impl Into<Value>, Variable)>,
        messages: Vec<(Message, Form)>,
    ) -> Result<String, ChatError> {
        let mut environment = self.environment.clone();
        let variables: Vec<(Value, Variable)> =
            variables.into_iter().map(|(name, value)| (name.into(), value)).collect();
        let tools: usize = variables.iter().map(|(_, variable)| variable.bytes()).sum();
        let (messages, forms): (Vec<Message>, Vec<Form>) = messages.into_iter().unzip();
        let calls: usize = messages.iter().map(|message| message.tool_calls.len()).sum();
        let fuel = FUEL_PER_MESSAGE * (messages.len() + calls) as u64 + FUEL_PER_BYTE_OF_TOOLS * tools as u64;
        environment.set_fuel(Some(FUEL + fuel));
        let limit = max_output_bytes(wire::content_bytes(&messages) + tools);
        let are_written = Arc::new(AtomicBool::new(false));
        let messages = messages.into_iter().zip(forms);
        let messages: Value = messages.map(|(each, form)| message(each, form, &are_written)).collect();
        let variables = variables.into_iter().map(|(name, value)| (name, value.into()));
        let context: Value = variables.chain([("messages".into(), messages)]).collect();

        let template = environment.get_template("chat").map_err(|e| describe(&e))?;
        let mut out = Bounded { bytes: Vec::new(), limit };
        let done = template.render_captured_to(context, &mut out).map(|_| ());
        if out.bytes.len() >= out.limit {
            return Err(ChatError::TooLong { what: RENDERED, limit });
        }
        done.map_err(|e| describe(&e))?;
        if are_written.load(Ordering::Relaxed) {
            return Err(ChatError::Failed {
                why: "it writes the arguments of a call otherwise than as JSON".into(),
            });
        }
        String::from_utf8(out.bytes).map_err(|_| ChatError::Failed { why: "the output is not UTF-8".into() })
    }
}

/// A message as templates get it. Those of some families want the thinking apart from the answer, under one of
/// three names. Between `<think>` and `</think>` they find it themselves. `are_written` is set when a template writes the
/// arguments of a call without `tojson`.
fn message(message: Message, form: Form, are_written: &Arc<AtomicBool>) -> Value {
    let parts = other_thinking(&message);
    let content = match parts {
        Some(parts) => parts.answer,
        None if message.role == "assistant" => without_header(&message.content),
        None => &message.content,
    };
    let content = match form {
        Form { has_no_content: true, .. } if content.is_empty() && !message.tool_calls.is_empty() => {
            Value::from(())
        }
        Form { has_parts: true, .. } => {
            Value::from(vec![Value::from_iter([("type", "text"), ("text", content)])])
        }
        _ => Value::from(content),
    };
    // Templates that write a whole message as JSON keep this order.
    let mut fields = vec![("role", Value::from(message.role.as_str())), ("content", content)];
    if let Some(parts) = parts {
        let thinking = parts.thinking.trim();
        fields
            .extend(["thinking", "reasoning", "reasoning_content"].map(|name| (name, Value::from(thinking))));
    }
    if !message.tool_calls.is_empty() {
        let calls = message.tool_calls.iter().map(|call| tool_call(call, form, are_written));
        fields.push(("tool_calls", calls.collect()));
    }
    for (name, text) in [("tool_call_id", &message.tool_call_id), ("name", &message.name)] {
        fields.extend(text.as_ref().map(|text| (name, Value::from(text.as_str()))));
    }
    Value::from_iter(fields)
}

/// A call as templates get it.
fn tool_call(call: &ToolCall, form: Form, are_written: &Arc<AtomicBool>) -> Value {
    let arguments = Value::from_serialize(call.object());
    let arguments = match form.has_text_arguments {
        true => Value::from(Json::plain().written(&arguments).unwrap_or_default()),
        false => Value::from_object(Arguments { arguments, are_written: are_written.clone() }),
    };
    let function = Value::from_iter([("name", Value::from(call.name.as_str())), ("arguments", arguments)]);
    let id = ("id", Value::from(call.id.as_str()));
    Value::from_iter([id, ("type", Value::from("function")), ("function", function)])
}

/// The arguments of a call, as a map. Templates that expect a text write it as it is, and not as JSON.
#[derive(Debug)]
struct Arguments {
    arguments: Value,
    are_written: Arc<AtomicBool>,
}

impl Object for Arguments {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.arguments.get_item(key).ok().filter(|value| !value.is_undefined())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.arguments.try_iter().into_iter().flatten().collect())
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.are_written.store(true, Ordering::Relaxed);
        f.write_str("{}")
    }
}

/// A variable of a template.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::chat) enum Variable {
    None,
    Flag(bool),
    Number(i64),
    Text(String),
    /// A value as JSON.
    Json(String),
}

impl Variable {
    /// Bytes of what is larger than a few words.
    pub(in crate::chat) fn bytes(&self) -> usize {
        match self {
            Variable::Json(text) => text.len(),
            _ => 0,
        }
    }
}

impl From<Variable> for Value {
    fn from(variable: Variable) -> Value {
        match variable {
            Variable::None => Value::from(()),
            Variable::Flag(flag) => Value::from(flag),
            Variable::Number(number) => Value::from(number),
            Variable::Text(text) => Value::from(text),
            Variable::Json(text) => {
                Value::from_serialize(serde_json::from_str(&text).unwrap_or(serde_json::Value::Null))
            }
        }
    }
}

/// A writer that fails after `limit` bytes.
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.limit - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..taken]);
        if taken < bytes.len() {
            return Err(io::Error::other("too long"));
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn describe(error: &Error) -> ChatError {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = source {
        if let Some(Raised(message)) = inner.downcast_ref() {
            return ChatError::Refused { message: message.clone() };
        }
        source = inner.source();
    }
    match error.kind() {
        ErrorKind::OutOfFuel => ChatError::Failed { why: "it runs too long".into() },
        _ => ChatError::Failed { why: error.to_string() },
    }
}

/// Replaces `{% generation %}`, which marks the text of the assistant for training, by `{% if true %}`, which
/// has the same effect and keeps the white space control.
fn without_generation_tags(source: &str) -> String {
    static TAG: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\{%([-+]?)\s*(end)?generation\s*([-+]?)%\}").ok());
    let Some(tag) = TAG.as_ref() else { return source.to_owned() };
    let replaced = tag.replace_all(source, |found: &regex::Captures| {
        let statement = if found.get(2).is_some() { "endif" } else { "if true" };
        format!("{{%{} {statement} {}%}}", &found[1], &found[3])
    });
    replaced.into_owned()
}

/// `now` in Python's format language.
fn strftime(now: &DateTime<FixedOffset>, format: &str) -> Result<String, Error> {
    let items: Vec<Item> = StrftimeItems::new(format).collect();
    let mut out = String::new();
    // `to_string` would panic: some items can be parsed and not be formatted.
    if items.contains(&Item::Error) || write!(out, "{}", now.format_with_items(items.iter())).is_err() {
        let why = format!("strftime_now does not know the format \"{format}\"");
        return Err(Error::new(ErrorKind::InvalidOperation, why));
    }
    Ok(out)
}

/// A text as `tojson` writes it.
pub(in crate::chat) fn json_text(text: &str) -> String {
    let mut json = Json::plain();
    json.string(text);
    json.out
}

/// JSON as Python's `json.dumps(value, ensure_ascii=False)` writes it; `indent`, `separators` and `sort_keys`
/// as there.
fn to_json(value: &Value, indent: Option<usize>, options: Kwargs) -> Result<String, Error> {
    let indent = match options.get::<Option<usize>>("indent")? {
        Some(indent) => Some(indent),
        None => indent,
    };
    let _ascii: Option<bool> = options.get("ensure_ascii")?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    let (item, key) = match separators.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        Some(_) => return Err(Error::new(ErrorKind::InvalidOperation, "tojson takes two separators")),
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
    };
    let sort_keys = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    options.assert_all_used()?;
    Json { out: String::new(), indent: indent.map(|n| n.min(16)), item, key, sort_keys }.written(value)
}

/// Appends a character of a text as it stands in JSON.
pub(in crate::chat) fn push_json(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        c => out.push(c),
    }
}

struct Json {
    out: String,
    indent: Option<usize>,
    item: String,
    key: String,
    sort_keys: bool,
}

impl Json {
    /// As Python writes it without options.
    fn plain() -> Json {
        let (item, key) = (", ".to_owned(), ": ".to_owned());
        Json { out: String::new(), indent: None, item, key, sort_keys: false }
    }

    /// The text of a value.
    fn written(mut self, value: &Value) -> Result<String, Error> {
        self.value(value, 0)?;
        Ok(self.out)
    }

    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_JSON_DEPTH {
            return Err(Error::new(ErrorKind::InvalidOperation, "tojson: the value is nested too deep"));
        }
        match value.kind() {
            ValueKind::Undefined | ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.out.push_str(&value.to_string()),
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort_keys {
                    keys.sort();
                }
                self.out.push('{');
                let empty = keys.is_empty();
                for (i, key) in keys.iter().enumerate() {
                    self.next(i, depth + 1);
                    self.string(&key.to_string());
                    self.out.push_str(&self.key);
                    self.value(&value.get_item(key)?, depth + 1)?;
                }
                self.close('}', empty, depth);
            }
            ValueKind::Seq | ValueKind::Iterable => {
                self.out.push('[');
                let mut empty = true;
                for (i, element) in value.try_iter()?.enumerate() {
                    empty = false;
                    self.next(i, depth + 1);
                    self.value(&element, depth + 1)?;
                }
                self.close(']', empty, depth);
            }
            _ => self.string(&value.to_string()),
        }
        Ok(())
    }

    fn next(&mut self, i: usize, depth: usize) {
        if i > 0 {
            self.out.push_str(&self.item);
        }
        self.line(depth);
    }

    fn close(&mut self, bracket: char, empty: bool, depth: usize) {
        if !empty {
            self.line(depth);
        }
        self.out.push(bracket);
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = self.indent {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        text.chars().for_each(|c| push_json(&mut self.out, c));
        self.out.push('"');
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{Forms, Template};
    use super::*;

    fn now() -> DateTime<FixedOffset> {
        DateTime::parse_from_rfc3339("2024-07-06T08:09:10+02:00").expect("a date")
    }

    fn render(source: &str) -> Result<String, ChatError> {
        let variables = BTreeMap::from([
            ("tools".to_owned(), Variable::None),
            ("flag".to_owned(), Variable::Flag(true)),
            ("text".to_owned(), Variable::Text("  a<b>&\"é\"\\ ".to_owned())),
        ]);
        let messages = [Message::user("x"), Message::assistant("y")];
        Template::compile(source, now())?.render(&variables, &messages, Forms::TEXT)
    }

    fn good(source: &str) -> String {
        render(source).unwrap_or_else(|e| panic!("{source}: {e}"))
    }

    #[test]
    fn features_that_templates_use_work_as_in_python() {
        let cases = [
            // strings
            ("{{ text.strip() }}|{{ 'xxaxx'.lstrip('x') }}|{{ 'a,b'.split(',')[-1] }}", "a<b>&\"é\"\\|axx|b"),
            ("{{ 'ab'.startswith('a') }} {{ 'ab'.endswith('a') }} {{ 'ab' in 'cab' }}", "True False True"),
            ("{{ 'ab'[::-1] }}{{ 'abc'[1:] }}{{ 'abc'[-1] }}{{ 'a' ~ 1 }}", "babcca1"),
            // messages
            ("{{ messages[0]['role'] }}{{ messages[-1].content }}{{ messages[1:]|length }}", "usery1"),
            (
                "{% for m in messages[::-1] %}{{ m.role }}{{ loop.index0 }}{{ loop.last }} {% endfor %}",
                "assistant0False user1True ",
            ),
            (
                "{{ messages|selectattr('role', 'equalto', 'user')|list|length }}{{ messages|map(attribute='content')|join('+') }}",
                "1x+y",
            ),
            (
                "{% for m in messages %}{{ loop.previtem.role if loop.previtem else '-' }}{{ loop.nextitem is defined }} {% endfor %}",
                "-True userFalse ",
            ),
            // tests
            (
                "{{ tools is none }}{{ tools is defined }}{{ nothing is defined }}{{ flag is true }}",
                "TrueTrueFalseTrue",
            ),
            (
                "{{ tools is iterable }}{{ 'a' is iterable }}{{ 'a' is string }}{{ {} is mapping }}{{ [] is sequence }}",
                "FalseTrueTrueTrueTrue",
            ),
            ("{{ nothing }}{% if nothing %}x{% endif %}{{ nothing|default('d') }}", "d"),
            // control flow
            (
                "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
                "013",
            ),
            (
                "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
                "2",
            ),
            ("{% macro f(a, b='!') %}{{ a }}{{ b }}{% endmacro %}{{ f('x') }}", "x!"),
            ("{% set x %}a{% endset %}{{ x }}{# comment #}", "a"),
            ("a\n  {% if true %}\nb\n  {%- endif %}\nc\n", "a\nbc"),
            ("{% generation %}\nx{%- endgeneration -%}\n y", "xy"),
            ("a\r\nb{{ 'c\r\nd' }}\re\r\n", "a\nbc\nd\ne"),
            // functions
            ("{{ strftime_now('%d %b %Y %H:%M') }}", "06 Jul 2024 08:09"),
            (
                "{{ {'b': 1, 'a': [true, none, 1.5, 'é\"<']}|tojson }}",
                r#"{"b": 1, "a": [true, null, 1.5, "é\"<"]}"#,
            ),
            (
                "{{ {'a': [1, {}], 'b': []}|tojson(indent=2) }}",
                "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}",
            ),
            (
                "{{ [1, 2]|tojson(separators=(',', ':')) }}{{ {'b': 1, 'a': 2}|tojson(sort_keys=true) }}",
                r#"[1,2]{"a": 2, "b": 1}"#,
            ),
            ("{{ 'a\n\t'|tojson }}", r#""a\n\t""#),
            ("{{ messages[0]|tojson }}", r#"{"role": "user", "content": "x"}"#),
        ];
        for (source, want) in cases {
            assert_eq!(good(source), want, "{source}");
        }
    }

    #[test]
    fn invalid_templates_are_errors() {
        assert_eq!(render("{{ raise_exception('No!') }}"), Err(ChatError::Refused { message: "No!".into() }));
        for source in [
            "{% if %}",
            "{{ nothing.more }}",
            "{{ unknown() }}",
            "{{ 'a'.unknown() }}",
            "{{ strftime_now('%Q') }}",
            "{% include 'other' %}",
            "{{ text|tojson(nonsense=1) }}",
            "{{ [1]|tojson(separators=('a',)) }}",
        ] {
            assert!(
                matches!(render(source), Err(ChatError::Failed { .. })),
                "{source}: {:?}",
                render(source)
            );
        }
        // chrono parses this one and cannot write it.
        let error = render("{{ strftime_now('%#z') }}").expect_err("is refused");
        assert!(error.to_string().contains("does not know the format"), "{error}");
    }

    #[test]
    fn hostile_templates_are_errors() {
        let failed = |source: &str| matches!(render(source), Err(ChatError::Failed { .. }));
        let too_long = |source: &str| matches!(render(source), Err(ChatError::TooLong { .. }));
        let thousand = "range(1000)";
        assert!(failed(&format!(
            "{{% for a in {thousand} %}}{{% for b in {thousand} %}}{{% for c in {thousand} %}}{{% endfor %}}{{% endfor %}}{{% endfor %}}"
        )));
        assert!(failed("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"));
        assert!(failed(&format!("{{{{ {}1 }}}}", "(".repeat(100_000))));
        assert!(failed(&format!("{{{{ {}1 }}}}", "[".repeat(50_000))));
        assert!(too_long("{% for a in range(5000) %}{{ 'x' * 100000 }}{% endfor %}"));
        assert!(too_long(&"x".repeat(MAX_TEMPLATE_BYTES + 1)));
        assert!(failed("{{ 'x' * 1000000000 }}"));
        assert!(failed("{{ range(1000000000)|list }}"));
    }

    #[test]
    fn deep_nesting_does_not_overflow_the_stack() {
        // A chain of additions is not nested for the parser, but the syntax tree is deep.
        let chain = vec!["1"; MAX_TEMPLATE_BYTES / 2 - 10].join("+");
        let _ = render(&format!("{{{{ {chain} }}}}"));
        let nest = "{% set ns = namespace(x=[]) %}{% for a in range(300) %}{% for b in range(300) %}{% set ns.x = [ns.x] %}{% endfor %}{% endfor %}";
        let _ = render(nest);
        let _ = render(&format!("{nest}{{{{ ns.x }}}}"));
        assert!(render(&format!("{}{{{{ ns.x|tojson }}}}", nest.replace("300", "20"))).is_err());
    }
}
