//! Types of functions in WIT, for people who build components.

use wasmtime::component::types::{ComponentFunc, Type};

/// The contract.
const CONTRACT: &str = include_str!("../../wit/process.wit");

/// Levels of a type that are written out: a `step` has many.
const LEVELS_SHOWN_MAX: usize = 3;

/// A function of an interface, as the contract has it: `step: func(events: list<event>) ->
/// outcome`.
pub(super) fn contract(interface: &str, function: &str) -> Option<&'static str> {
    let name = interface.split('/').nth(1)?.split('@').next()?;
    let (_, rest) = CONTRACT.split_once(&format!("interface {name} {{"))?;
    let body = &rest[..rest.find("\n}").unwrap_or(rest.len())];
    let at = body.match_indices(&format!("{function}: func(")).map(|(at, _)| at).next()?;
    let end = body[at..].find(';').map_or(body.len(), |end| at + end);
    Some(&body[at..end])
}

/// A function as a component has it.
pub(super) fn function(name: &str, function: &ComponentFunc) -> String {
    let params: Vec<String> = function.params().map(|(name, kind)| format!("{name}: {}", write(&kind, 0))).collect();
    let results: Vec<String> = function.results().map(|kind| format!(" -> {}", write(&kind, 0))).collect();
    let is_async = if function.async_() { "async " } else { "" };
    format!("{name}: {is_async}func({}){}", params.join(", "), results.concat())
}

/// Writes a type. A component's types have no names, so a record is written out.
fn write(kind: &Type, level: usize) -> String {
    if level == LEVELS_SHOWN_MAX {
        return "…".to_owned();
    }
    let part = |kind: &Type| write(kind, level + 1);
    let names = |names: Vec<&str>| names.join(", ");
    match kind {
        Type::Bool => "bool".to_owned(),
        Type::S8 => "s8".to_owned(),
        Type::U8 => "u8".to_owned(),
        Type::S16 => "s16".to_owned(),
        Type::U16 => "u16".to_owned(),
        Type::S32 => "s32".to_owned(),
        Type::U32 => "u32".to_owned(),
        Type::S64 => "s64".to_owned(),
        Type::U64 => "u64".to_owned(),
        Type::Float32 => "f32".to_owned(),
        Type::Float64 => "f64".to_owned(),
        Type::Char => "char".to_owned(),
        Type::String => "string".to_owned(),
        Type::List(list) => format!("list<{}>", part(&list.ty())),
        Type::Option(option) => format!("option<{}>", part(&option.ty())),
        Type::Tuple(tuple) => {
            format!("tuple<{}>", tuple.types().map(|kind| part(&kind)).collect::<Vec<_>>().join(", "))
        }
        Type::Record(record) => {
            let fields: Vec<String> =
                record.fields().map(|field| format!("{}: {}", field.name, part(&field.ty))).collect();
            format!("record {{ {} }}", fields.join(", "))
        }
        Type::Variant(variant) => {
            let cases = variant.cases().map(|case| match &case.ty {
                Some(kind) => format!("{}({})", case.name, part(kind)),
                None => case.name.to_owned(),
            });
            format!("variant {{ {} }}", cases.collect::<Vec<_>>().join(", "))
        }
        Type::Enum(all) => format!("enum {{ {} }}", names(all.names().collect())),
        Type::Flags(all) => format!("flags {{ {} }}", names(all.names().collect())),
        Type::Result(result) => match (result.ok(), result.err()) {
            (None, None) => "result".to_owned(),
            (Some(ok), None) => format!("result<{}>", part(&ok)),
            (ok, Some(err)) => format!("result<{}, {}>", ok.map_or("_".to_owned(), |ok| part(&ok)), part(&err)),
        },
        Type::Own(_) => "own<resource>".to_owned(),
        Type::Borrow(_) => "borrow<resource>".to_owned(),
        other => format!("{other:?}").split('(').next().unwrap_or_default().to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::contract;

    #[test]
    fn functions_are_found_in_the_contract() {
        let guest = "wfhost:process/guest@0.1.0";
        assert_eq!(contract(guest, "step"), Some("step: func(events: list<event>) -> outcome"));
        assert_eq!(contract(guest, "close"), Some("close: func()"));
        assert_eq!(contract(guest, "init"), Some("init: func(entry: string, input: payload) -> result<_, problem>"));
        assert_eq!(contract("wfhost:process/describe@0.1.0", "describe"), Some("describe: func() -> string"));
        assert_eq!(contract(guest, "describe"), None);
    }
}
