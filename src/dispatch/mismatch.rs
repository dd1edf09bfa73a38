//! Says what a JSON Schema expects where a value does not fit it, in terms of the value's author.

use boon::{ErrorKind, Type, Types};
use serde_json::Value;

/// Values of an `enum` that are listed at most. Arbitrary.
const CHOICES_MAX: usize = 12;

/// Returns the text that follows "expected": `a string, not a list`.
pub(super) fn expected(kind: &ErrorKind<'_, '_>) -> String {
    match kind {
        ErrorKind::Type { got, want } => format!("{}, not {}", types(*want), name(*got)),
        ErrorKind::Enum { want } => {
            let more = if want.len() > CHOICES_MAX { ", …" } else { "" };
            let choices: Vec<String> = want.iter().take(CHOICES_MAX).map(Value::to_string).collect();
            format!("one of {}{more}", choices.join(", "))
        }
        ErrorKind::Const { want } => format!("{want}"),
        ErrorKind::Required { want } => format!("the key {}", quoted(want.iter().copied(), "and")),
        ErrorKind::AdditionalProperties { got } => {
            format!("no key {}", quoted(got.iter().map(AsRef::as_ref), "or"))
        }
        ErrorKind::MinProperties { got, want } => format!("at least {}, not {got}", count(*want, "key")),
        ErrorKind::MaxProperties { got, want } => format!("at most {}, not {got}", count(*want, "key")),
        ErrorKind::MinItems { got, want } => format!("at least {}, not {got}", count(*want, "item")),
        ErrorKind::MaxItems { got, want } => format!("at most {}, not {got}", count(*want, "item")),
        ErrorKind::MinLength { got, want } => format!("at least {}, not {got}", count(*want, "character")),
        ErrorKind::MaxLength { got, want } => format!("at most {}, not {got}", count(*want, "character")),
        ErrorKind::Minimum { got, want } => format!("at least {want}, not {got}"),
        ErrorKind::Maximum { got, want } => format!("at most {want}, not {got}"),
        ErrorKind::ExclusiveMinimum { got, want } => format!("more than {want}, not {got}"),
        ErrorKind::ExclusiveMaximum { got, want } => format!("less than {want}, not {got}"),
        ErrorKind::MultipleOf { got, want } => format!("a multiple of {want}, not {got}"),
        ErrorKind::Pattern { got, want } => format!("text that matches {want}, not {got:?}"),
        ErrorKind::Format { got, want, .. } => format!("a {want}, not {got}"),
        ErrorKind::UniqueItems { got: [first, second] } => format!("no item twice: {first} and {second} are equal"),
        ErrorKind::FalseSchema => "nothing here".to_owned(),
        other => format!("something else: {other}"),
    }
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>, before_last: &str) -> String {
    let mut names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match names.pop() {
        Some(last) if !names.is_empty() => format!("{} {before_last} {last}", names.join(", ")),
        last => last.unwrap_or_default(),
    }
}

fn types(types: Types) -> String {
    let names: Vec<&str> = types.iter().map(name).collect();
    names.join(" or ")
}

fn name(kind: Type) -> &'static str {
    match kind {
        Type::Null => "null",
        Type::Boolean => "true or false",
        Type::Number => "a number",
        Type::Integer => "a whole number",
        Type::String => "a string",
        Type::Array => "a list",
        Type::Object => "an object",
    }
}
