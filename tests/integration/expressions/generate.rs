//! Random JSON and random expressions on it.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value};

/// Keys of objects: few, so that paths meet them.
const KEYS: &[&str] =
    &["a", "b", "c", "x y", "é\n\"", "a key that is longer than a message quotes", "ключ-ключ-ключ-ключ"];

pub(super) fn key() -> impl Strategy<Value = &'static str> {
    prop_oneof![6 => select(&KEYS[..3]), 1 => select(KEYS)]
}

/// Numbers in the notations that JSON has.
fn number() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        any::<i16>().prop_map(|n| n.to_string()),
        any::<f64>().prop_filter("JSON has no others", |n| n.is_finite()).prop_map(|n| format!("{n:e}")),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?",
    ];
    text.prop_map(|text| serde_json::from_str(&text).expect("a number of JSON"))
}

/// A JSON value.
pub(super) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number(),
        "[a-z\\u{0}-\\u{20}\\u{7f}\"\\\\é😀]{0,6}".prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            3 => object(inner),
        ]
    })
}

fn object(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::vec((key(), inner), 0..4)
        .prop_map(|entries| Value::Object(entries.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Map<_, _>>()))
}

/// An object, as contexts are.
pub(super) fn context() -> impl Strategy<Value = Value> {
    object(value())
}

/// A plain path.
pub(super) fn path() -> impl Strategy<Value = String> {
    let quoted = |key: &str| serde_json::to_string(key).expect("a string");
    let step = prop_oneof![
        4 => select(&KEYS[..3]).prop_map(|key| format!(".{key}")),
        1 => key().prop_map(move |key| format!(".{}", quoted(key))),
        1 => key().prop_map(move |key| format!("[{}]", quoted(key))),
        1 => (-4..4_i32).prop_map(|index| format!("[{index}]")),
    ];
    let step = (step, prop::bool::weighted(0.1)).prop_map(|(step, optional)| step + if optional { "?" } else { "" });
    prop::collection::vec(step, 0..5).prop_map(|steps| {
        let text = steps.concat();
        if text.starts_with('.') { text } else { format!(".{text}") }
    })
}

/// Forms of expressions: `@` stands for an expression, `%` for a key.
const FORMS: &[&str] = &[
    "@ | @",
    "@ | @",
    "@ | @",
    "@, @",
    "(@).%",
    "(@).%?",
    "(@)[0]",
    "(@)[]",
    "(@)[]?",
    "(@)[@]?",
    "(@)[1:]",
    "(@)[:(@)]",
    "@ // @",
    "@ + @",
    "@ == @",
    "@ and @",
    "@ or @",
    "-(@)",
    "[@]",
    "{%: @}",
    "{%, b: (@)}",
    "{(@ | tostring): @}",
    "{$v, %}",
    "\"x\\(@)y\"",
    "@base64 \"\\(@)\"",
    "@ as $v | @",
    "@ as $w | @",
    "@ as {%: $v} | @",
    "@ as [$v, {%: $w}] | @",
    "@ as {$v, b: [$w]} ?// $v | @",
    "@ as {(@ | tostring): $v} | @",
    "reduce (@) as $v (@; @)",
    "reduce (@)[]? as $v (@; . + @)",
    "foreach (@) as $v (@; @)",
    "foreach (@) as $v (@; @; @)",
    "if @ then @ else @ end",
    "if @ then @ end",
    "if @ then @ elif @ then @ else @ end",
    "try (@) catch (@)",
    "try error(@) catch @",
    "(@)?",
    "label $l | @, break $l, @",
    "def f: @; f",
    "def f: @; @ | f",
    "def f(g): g | @; f(@)",
    "def f(g): @ | g; @ | f(@)",
    "def f($v): @; f(@)",
    "def first(g): @; first(@)",
    "def select(g): .; select(@)",
    "select(@)",
    "map(@)?",
    "first(@)",
    "last(@)",
    "limit(1; @)",
    "isempty(@)",
    "add(@)?",
    "any(@; @)",
    "with_entries(.value |= @)?",
    "to_entries?",
    "keys?",
    "length?",
    "has(\"%\")?",
    "tojson",
    "@json",
    "path(@)?",
    "try path(@) catch .",
    "try ((@) |= @) catch .",
    "try ((@) = @) catch .",
    "try del(@) catch .",
    "try pick(@) catch .",
    "try paths(@) catch .",
    "_modify(@; @)",
    "_assign(@; @)",
    "path(first(@))",
    "path(@ as $v | @)",
    "path(if @ then @ end)",
    "def f(g): path(g); f(@)",
    "def f: @; path(f)",
    "paths?",
    "del(@)?",
    "getpath([\"%\"])?",
    "pick(@)?",
    "walk(@)?",
    "(@) = @",
    "(@) |= @",
    "(@) += @",
    "(@) //= @",
    ". as $v | $v.% | @",
    ". as $v | [@, $v.%]",
    "error?",
    "empty",
    "not",
    "type",
    "nth(0; @)",
    "range(2)",
    "IN(@)",
    "inside(@)?",
    "recurse(.%?; . != null)",
    "skip(1; @)",
    "error(@)",
    "map_values(@)?",
    "min_by(@)?",
    "group_by(@)?",
    "limit(2; @, @) | @",
];

/// Leaves of expressions. `$v` and `$w` may be unbound: jq reports that, whatever the input.
const LEAVES: &[&str] = &[
    ".", ".a", ".b", ".c", ".a.b", ".a.b.c", ".a?", ".[\"b\"]", ".a[0]", "..", "1", "\"s\"", "null", "true", "$v",
    "$w", "$__loc__", ".[]?", "{}", "[]", ".a // .b", "$v.a", "$v.b?",
];

/// An expression.
pub(super) fn expression() -> impl Strategy<Value = String> {
    select(LEAVES).prop_map(str::to_owned).prop_recursive(5, 40, 4, |inner| {
        let holes = prop::collection::vec(inner, 4);
        (select(FORMS), holes, select(&KEYS[..3])).prop_map(|(form, holes, key)| {
            let mut holes = holes.into_iter();
            let mut text = String::new();
            for c in form.chars() {
                match c {
                    // A form whose holes are already in parentheses gets another pair: the other
                    // forms test precedence.
                    '@' if text.is_empty() && form.starts_with("@base")
                        || text.is_empty() && form.starts_with("@json") =>
                    {
                        text.push('@');
                    }
                    '@' => {
                        let hole = holes.next().unwrap_or_else(|| ".".into());
                        let bare = hole.len() < 8;
                        text.push_str(&if bare { hole } else { format!("({hole})") });
                    }
                    '%' => text.push_str(key),
                    _ => text.push(c),
                }
            }
            text
        })
    })
}

/// Joins of expressions that each read a part of the context, and not the whole of it.
const JOINS: &[&str] = &[
    "@, @",
    "(@ | 1), @",
    "(@ | empty), @",
    "@ // @",
    "[@, @]",
    "@ as $v | @",
    "@ as $v | (@, {$v})",
    "@ as $v | ([1] | map($v)), @",
    "if @ then @ else 2 end",
    "try (@) catch 3, @",
    "reduce (1, 2) as $w (@; .), @",
    "foreach (1, 2) as $w (@; .; .), @",
    ". as $v | (@, ($v.a | @))",
    ". as $v | def f: $v.b; (1 | f), @",
    ".a as $v | def f(g): 1 | g; f($v), .a.b, @",
    ".b as $v | def f(g): g; (1 | f($v | @)), @",
    "(@ | select(@)), @",
    "first(@, @), @",
    "{a: @, b: @}",
    "label $l | @, break $l, @",
    ". as $v | .b as $w | (@, @, @)",
    ".a as $v | .b.a as $w | [@, @, .c]",
    ". as $v | @ as $w | [@, $v.c]",
    ". as $v | .c as {(@ | tostring): $w} | @",
    ". as $v | .c as [$w, {(@ | tostring): $v}] ?// $w | @",
    ". as $v | reduce .a[]? as {(@ | tostring): $v} (@; .), $v.b",
    ". as $v | (1 | try path($v.b.a) catch .), @",
    ". as $v | (1 | try path(@) catch .), $v.c",
    ". as $v | (null | try _modify($v.a.b; $v.c) catch .), @",
    ". as $v | def f: $v.a; (1 | try path(f | .b) catch .), @",
    ". as $v | def f(g): path(g); (1 | try f($v.a.b) catch .), @",
    ". as $v | ([1, 2] | map_values($v.b.a)), @",
    ". as $v | (.a | try ((.b | $v).a.b = 1) catch .), @",
    ".a as $v | (null | try del($v.b, $v.c.a) catch .), @",
    ". as $v | ({a: 1} | try pick($v.a, .a) catch .), @",
    ". as $v | ([1] | try paths($v.a.b) catch .), @",
    ". as $v | (null | try path(first($v.a), (1 | $v.b)) catch .), @",
    ".a as $v | .b as $w | ([3] | try path($w, $v[0]?, $v.b) catch .), @",
    ". as $v | reduce (1, 2) as $w ([]; . + [try path($v.a.b) catch .]), @",
];

/// An expression that is likely to read only parts of its context.
pub(super) fn program() -> impl Strategy<Value = String> {
    let path = select(&[".a", ".b", ".c", ".a.b", ".b.a", ".c.a.b", ".a?", ".b[0]"][..]);
    // If the input is computed, everything that is read is read through variables.
    let computed = select(&["1", "null", "{a: {b: 1}}", "[{a: 1}, 2]", "$v.a", "$w.b"][..]);
    let part = prop_oneof![
        2 => path.clone().prop_map(str::to_owned),
        2 => (path, expression()).prop_map(|(path, expression)| format!("({path} | {expression})")),
        1 => (computed, expression()).prop_map(|(input, expression)| format!("({input} | {expression})")),
    ];
    part.prop_recursive(2, 8, 4, |part| {
        (select(JOINS), prop::collection::vec(part, 4)).prop_map(|(join, parts)| {
            let mut parts = parts.into_iter();
            let fill = |c: char| if c == '@' { parts.next().unwrap_or_default() } else { c.to_string() };
            format!("({})", join.chars().map(fill).collect::<String>())
        })
    })
}
