//! Methods of Python's strings, and filters of Jinja, that the template engine lacks or that differ there.

use minijinja::filters;
use minijinja::value::{Kwargs, ValueKind, from_args};
use minijinja::{Environment, Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

/// Adds them to an environment.
pub(in crate::chat) fn add_to(environment: &mut Environment<'static>) {
    environment.set_unknown_method_callback(method);
    for name in ["length", "count"] {
        environment.add_filter(name, length);
    }
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    environment.add_filter("replace", replace);
    // None is not iterable. Strings, maps, parts of lists and what is undefined are sequences.
    let iterable = |kind| {
        use ValueKind::{Iterable, Map, Seq, String, Undefined};
        matches!(kind, Seq | Iterable | Map | String | Undefined)
    };
    for name in ["iterable", "sequence"] {
        environment.add_test(name, move |value: &Value| iterable(value.kind()));
    }
}

/// Calls a method that a value has in Python.
fn method(state: &State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if let Some(text) = value.as_str()
        && let Some(result) = string_method(text, name, args)?
    {
        return Ok(result);
    }
    if name == "split" {
        let (separator, limit) = split_arguments(args)?;
        return pycompat::unknown_method_callback(state, value, name, &[separator, limit.into()]);
    }
    pycompat::unknown_method_callback(state, value, name, args)
}

/// The result of a string's method; `None` for methods that `pycompat` has. Positions count characters.
fn string_method(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let argument = || from_args(args).map(|(argument,): (&str,)| argument);
    let position = |at: Option<usize>| at.map(|at| text[..at].chars().count());
    Ok(Some(match name {
        "find" => position(text.find(argument()?)).map_or(Value::from(-1), Value::from),
        "rfind" => position(text.rfind(argument()?)).map_or(Value::from(-1), Value::from),
        "index" => position(text.find(argument()?)).map(Value::from).ok_or_else(|| {
            Error::new(ErrorKind::InvalidOperation, "the text does not contain the argument of index")
        })?,
        "removeprefix" => Value::from(text.strip_prefix(argument()?).unwrap_or(text)),
        "removesuffix" => Value::from(text.strip_suffix(argument()?).unwrap_or(text)),
        "partition" => {
            let separator = argument()?;
            let parts = text.split_once(separator).map(|(head, tail)| [head, separator, tail]);
            Value::from_iter(parts.unwrap_or([text, "", ""]))
        }
        "rpartition" => {
            let separator = argument()?;
            let parts = text.rsplit_once(separator).map(|(head, tail)| [head, separator, tail]);
            Value::from_iter(parts.unwrap_or(["", "", text]))
        }
        "rsplit" => {
            let (separator, limit) = split_arguments(args)?;
            let separator = separator.as_str().ok_or_else(|| {
                Error::new(ErrorKind::InvalidOperation, "rsplit is only supported with a separator")
            })?;
            let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
            let parts: Vec<&str> = text.rsplitn(limit.saturating_add(1), separator).collect();
            Value::from_iter(parts.into_iter().rev())
        }
        _ => return Ok(None),
    }))
}

/// The separator and `maxsplit`.
fn split_arguments(args: &[Value]) -> Result<(Value, Option<i64>), Error> {
    let (separator, limit, options): (Option<Value>, Option<i64>, Kwargs) = from_args(args)?;
    let limit = limit.or(options.get("maxsplit")?);
    options.assert_all_used()?;
    Ok((separator.unwrap_or_default(), limit))
}

/// The length of what is undefined is 0.
fn length(value: &Value) -> Result<usize, Error> {
    if value.is_undefined() { Ok(0) } else { filters::length(value) }
}

fn int(state: &State, value: &Value, default: Option<Value>) -> Value {
    number(filters::int(state, value), value, default, Value::from(0))
}

fn float(state: &State, value: &Value, default: Option<Value>) -> Value {
    number(filters::float(state, value), value, default, Value::from(0.0))
}

/// A converted value, or the default if it is none or does not look like a number.
fn number(converted: Result<Value, Error>, value: &Value, default: Option<Value>, zero: Value) -> Value {
    converted.ok().filter(|_| !value.is_none()).or(default).unwrap_or(zero)
}

/// Replaces at most `count` times.
fn replace(text: String, from: String, to: String, count: Option<usize>) -> String {
    match count {
        Some(count) => text.replacen(&from, &to, count),
        None => text.replace(&from, &to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_and_filters_work_as_in_python() {
        let mut environment = Environment::new();
        add_to(&mut environment);
        for (source, want) in [
            (
                "{{ 'éaba'.find('a') }}{{ 'éaba'.rfind('a') }}{{ 'éaba'.index('b') }}{{ 'a'.find('b') }}",
                "132-1",
            ),
            ("{{ 'é<t>b'['é<t>b'.find('<t>') + 3:] }}", "b"),
            (
                "{{ 'abc'.removeprefix('a') }}{{ 'abc'.removesuffix('c') }}{{ 'abc'.removeprefix('b') }}",
                "bcababc",
            ),
            (
                "{{ 'a-b-c'.partition('-')|join('|') }} {{ 'a-b-c'.rpartition('-')|join('|') }}",
                "a|-|b-c a-b|-|c",
            ),
            ("{{ 'a'.partition('-')|join('|') }} {{ 'a'.rpartition('-')|join('|') }}", "a|| ||a"),
            ("{{ 'a-b-c'.rsplit('-', 1)|join('|') }} {{ 'a-b-c'.rsplit('-')|join('|') }}", "a-b|c a|b|c"),
            (
                "{{ 'a-b-c'.split('-', maxsplit=1)|join('|') }} {{ 'a-b-c'.rsplit('-', maxsplit=1)|join('|') }}",
                "a|b-c a-b|c",
            ),
            (
                "{{ 'a-b-c'.split('-', 1)|last }} {{ ' a  b '.split()|join('|') }} {{ 'a b'.split(none, 1)|last }}",
                "b-c a|b b",
            ),
            ("{{ nothing|length }}{{ nothing|count }}{{ 'é'|length }}{{ [1, 2]|count }}", "0012"),
            ("{{ 'x'|int }}{{ 'x'|int(7) }}{{ none|int(7) }}{{ '5.7'|int(7) }}{{ [1]|int }}", "07750"),
            ("{{ 'x'|float }} {{ 'x'|float(7) }} {{ '5.5'|float }}", "0.0 7 5.5"),
            (
                "{{ 'aaa'|replace('a', 'b') }}{{ 'aaa'|replace('a', 'b', 1) }}{{ 11|replace('1', 'b') }}{{ nothing|replace('a', 'b') }}",
                "bbbbaabb",
            ),
            ("{{ [1, 2][1:] is sequence }}{{ 'a' is sequence }}{{ none is sequence }}", "TrueTrueFalse"),
            ("{{ nothing is iterable }}{{ nothing is sequence }}", "TrueTrue"),
        ] {
            let rendered = environment.render_str(source, ());
            assert_eq!(rendered.unwrap_or_else(|e| panic!("{source}: {e}")), want, "{source}");
        }
        for source in
            ["{{ 'a'.index('b') }}", "{{ 'a'.rsplit() }}", "{{ 'a'.split(nonsense=1) }}", "{{ 1|length }}"]
        {
            assert!(environment.render_str(source, ()).is_err(), "{source}");
        }
    }
}
