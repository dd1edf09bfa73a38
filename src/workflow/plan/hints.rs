//! Hints for expressions written in the syntax of other tools.

use super::references::{ExpressionSite, KnownNames, ROOTS};
use crate::workflow::diagnostics::closest;

/// Common functions of jq 1.8, for hints.
pub(crate) const FUNCTIONS: &[&str] = &[
    "abs",
    "acos",
    "acosh",
    "add",
    "all",
    "any",
    "arrays",
    "ascii",
    "ascii_downcase",
    "ascii_upcase",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "booleans",
    "bsearch",
    "capture",
    "cbrt",
    "ceil",
    "combinations",
    "contains",
    "copysign",
    "cos",
    "cosh",
    "debug",
    "del",
    "delpaths",
    "drem",
    "empty",
    "endswith",
    "env",
    "error",
    "exp",
    "exp10",
    "exp2",
    "expm1",
    "explode",
    "fabs",
    "fdim",
    "finites",
    "first",
    "flatten",
    "floor",
    "fma",
    "fmax",
    "fmin",
    "fmod",
    "frexp",
    "from_entries",
    "fromdate",
    "fromdateiso8601",
    "fromjson",
    "fromstream",
    "gamma",
    "getpath",
    "gmtime",
    "group_by",
    "gsub",
    "halt",
    "has",
    "have_decnum",
    "have_literal_numbers",
    "hypot",
    "implode",
    "in",
    "index",
    "indices",
    "inside",
    "isempty",
    "iterables",
    "isfinite",
    "isinfinite",
    "isnan",
    "isnormal",
    "isvalid",
    "join",
    "keys",
    "keys_unsorted",
    "last",
    "ldexp",
    "length",
    "lgamma",
    "limit",
    "localtime",
    "log",
    "log10",
    "log1p",
    "log2",
    "logb",
    "ltrimstr",
    "ltrim",
    "map",
    "map_values",
    "match",
    "max",
    "max_by",
    "min",
    "min_by",
    "mktime",
    "modf",
    "nan",
    "nearbyint",
    "nextafter",
    "not",
    "nth",
    "nulls",
    "numbers",
    "objects",
    "path",
    "paths",
    "pick",
    "pow",
    "pow10",
    "range",
    "recurse",
    "recurse_down",
    "reduce",
    "repeat",
    "reverse",
    "rindex",
    "rint",
    "round",
    "rtrimstr",
    "rtrim",
    "scalars",
    "scan",
    "select",
    "significand",
    "sin",
    "sinh",
    "skip",
    "sort",
    "sort_by",
    "split",
    "splits",
    "sqrt",
    "startswith",
    "strflocaltime",
    "strftime",
    "strings",
    "strptime",
    "sub",
    "tan",
    "tanh",
    "test",
    "to_entries",
    "toarray",
    "toboolean",
    "todate",
    "todateiso8601",
    "tojson",
    "tonumber",
    "tostream",
    "tostring",
    "transpose",
    "trim",
    "trimstr",
    "trunc",
    "truncate_stream",
    "type",
    "unique",
    "unique_by",
    "until",
    "utf8bytelength",
    "values",
    "walk",
    "while",
    "with_entries",
];

/// Suggests a function for an undefined one, from jq's own message: `mapp/1 is not defined`.
pub(super) fn function(message: &str) -> Option<String> {
    let (name, arguments) = message.strip_suffix(" is not defined")?.rsplit_once('/')?;
    if name.starts_with('$') {
        return None;
    }
    if FUNCTIONS.contains(&name) {
        return Some(format!("`{name}` does not take {arguments} arguments; separate arguments with `;`"));
    }
    closest(name, FUNCTIONS.iter().copied()).map(|meant| format!("did you mean `{meant}`?"))
}

/// Rewrites a condition of another tool as jq: a dot before each path, and strings in double
/// quotes.
pub(super) fn as_jq(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text.trim();
    let mut previous = ' ';
    while let Some(c) = rest.chars().next() {
        let root = ROOTS.iter().find(|root| {
            let after = rest.strip_prefix(**root).map(|after| after.chars().next());
            after.is_some_and(|next| next.is_none_or(|next| !next.is_alphanumeric() && next != '_'))
        });
        let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$');
        let operator = [("===", "=="), ("!==", "!="), ("&&", "and"), ("||", "or")]
            .into_iter()
            .find(|(theirs, _)| rest.starts_with(theirs));
        let taken = match (c, root, operator) {
            ('"' | '\'', _, _) => {
                let inner = rest[1..].split(c).next().unwrap_or_default();
                out.push_str(&serde_json::Value::from(inner).to_string());
                (inner.len() + 2).min(rest.len())
            }
            (_, Some(root), _) if !word(previous) => {
                out.push('.');
                out.push_str(root);
                root.len()
            }
            (_, _, Some((theirs, ours))) => {
                out.push_str(ours);
                theirs.len()
            }
            _ => {
                out.push(c);
                c.len_utf8()
            }
        };
        previous = rest[..taken].chars().next_back().unwrap_or(' ');
        rest = &rest[taken..];
    }
    out
}

/// What is written here for a condition on the outcomes of other steps, as GitHub Actions has it.
pub(super) fn on_outcomes(condition: &str) -> Option<&'static str> {
    const CONDITIONS: &[(&str, &str)] = &[
        (
            "always()",
            "to start after any outcome of the steps in `needs`, write when: done; at the end of the run, \
             on: { always: [ … ] }",
        ),
        (
            "failure()",
            "to start after a step in `needs` failed, write when: failed; after the run failed, on: { failure: [ … ] }",
        ),
        ("success()", "leave it out: a step starts when the steps that it needs have succeeded"),
        ("cancelled()", "what runs after a cancel goes under `on`: on: { cancel: [ … ] }"),
    ];
    let bare: String = condition.split_whitespace().collect();
    CONDITIONS.iter().find(|(call, _)| bare.contains(call)).map(|(_, hint)| *hint)
}

/// A list that was written as a text: `1,2,3`.
pub(super) fn as_list(text: &str) -> Option<String> {
    let items: Vec<&str> = text.split(',').map(str::trim).collect();
    let is_plain =
        |item: &&str| !item.is_empty() && !item.contains(['.', '[', ']', '{', '}', '(', ')', '|', '"', '\'']);
    if items.len() < 2 || !items.iter().all(is_plain) {
        return None;
    }
    let written = |item: &str| match item.parse::<f64>() {
        Ok(_) => item.to_owned(),
        Err(_) if item.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) => item.to_owned(),
        Err(_) => serde_json::Value::from(item).to_string(),
    };
    Some(format!("[ {} ]", items.into_iter().map(written).collect::<Vec<_>>().join(", ")))
}

/// Suggests a comparison for a condition that assigns.
pub(super) fn assigns(expression: &str) -> Option<String> {
    let bytes = expression.as_bytes();
    let mut in_string = false;
    for (at, byte) in bytes.iter().enumerate() {
        let (before, after) = (at.checked_sub(1).map(|before| bytes[before]), bytes.get(at + 1));
        match byte {
            b'"' if before != Some(b'\\') => in_string = !in_string,
            b'=' if !in_string
                && after != Some(&b'=')
                && !before.is_some_and(|before| b"=!<>|+-*/%".contains(&before)) =>
            {
                return Some(format!("did you mean `{}=={}`?", &expression[..at], &expression[at + 1..]));
            }
            _ => {}
        }
    }
    None
}

/// An expression with a problem.
pub(super) struct BadExpression<'a> {
    /// The string in the file.
    pub(super) string: &'a str,
    /// Where the expression begins in the string, in bytes.
    pub(super) offset: usize,
    /// The text of the expression.
    pub(super) text: &'a str,
    /// The part that has the problem.
    pub(super) part: &'a str,
}

impl BadExpression<'_> {
    /// Suggests what was meant.
    pub(super) fn hint(&self) -> Option<String> {
        let on_outcomes = || on_outcomes(self.text).map(str::to_owned);
        on_outcomes().or_else(|| self.double_braces()).or_else(|| self.no_dot()).or_else(|| self.operator())
    }

    /// `${{ inputs.name }}`. For jq the inner braces construct an object.
    pub(super) fn double_braces(&self) -> Option<String> {
        let begins = self.string.get(..self.offset)?.ends_with("${") && self.text.starts_with('{');
        let inner = self.text.trim_end().strip_suffix('}').filter(|_| begins)?.get(1..)?.trim();
        let is_path = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '[' | ']' | '"' | '\'');
        if !inner.chars().all(is_path) {
            // A jq object with some other problem; but `{{` is rarely meant as one.
            return Some("write one pair of braces: ${ … }; inside them, `{ … }` makes an object".to_owned());
        }
        Some(match dotted(inner) {
            Some(path) => format!("write one pair of braces: ${{ {path} }}"),
            None => format!("write one pair of braces; an expression reads {}", roots()),
        })
    }

    /// `${ inputs.name }` and `${ $inputs.name }`. For jq the first is a function, the second a
    /// variable.
    fn no_dot(&self) -> Option<String> {
        let name = self.part.strip_prefix('$').unwrap_or(self.part);
        let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        ROOTS.contains(&name).then(|| format!("start a path with a dot: .{name}"))
    }

    /// Operators of other languages.
    fn operator(&self) -> Option<String> {
        let says = |operator: &str| self.text.contains(operator);
        let hint = if says("&&") {
            "write `and` for &&"
        } else if says("||") {
            "write `or` for ||; `//` gives a default: .inputs.name // \"nobody\""
        } else if says("===") {
            "write `==` for ==="
        } else if says("'") {
            "strings in jq have double quotes: write the whole value in single quotes, or after `|`"
        } else if says("!") && !says("!=") {
            "write `| not` for !"
        } else if says(" ? ") && says(" : ") {
            "write if … then … else … end"
        } else {
            return None;
        };
        Some(hint.to_owned())
    }
}

/// Finds a path to something that exists in a string without expressions: as the whole string
/// (`.inputs.name`), or in the braces of another tool (`{{ inputs.name }}`). Returns its text and
/// the expression for it.
pub(super) fn without_braces<'t>(
    text: &'t str,
    names: &KnownNames<'_>,
    site: ExpressionSite,
) -> Option<(&'t str, String)> {
    let whole = text.trim();
    if whole.starts_with(['.', '$']) || whole.starts_with("steps.") && whole.contains(".output") {
        return Some((whole, known_path(whole.trim_start_matches('$'), names, site)?));
    }
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let length = rest[start..].find("}}")?;
        let inner = rest[start + 2..start + length].trim();
        if let Some(meant) = known_path(inner, names, site) {
            return Some((&rest[start..start + length + 2], meant));
        }
        rest = &rest[start + length + 2..];
    }
    None
}

/// A path that reads an existing input, step or item, with its dot.
fn known_path(path: &str, names: &KnownNames<'_>, site: ExpressionSite) -> Option<String> {
    let path = path.strip_prefix('.').unwrap_or(path);
    let is_path = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '[' | ']' | '"');
    let root = path.split(['.', '[']).next()?;
    let rest = path[root.len()..].trim_start_matches(['.', '[', '"']);
    let name = rest.split(['.', '[', '"', ']']).next()?;
    let is_known = match root {
        "inputs" => names.inputs.0.iter().any(|input| input.name == name),
        "steps" => names.steps().any(|id| id == name),
        "item" => site.item,
        _ => false,
    };
    (is_known && path.chars().all(is_path)).then(|| format!(".{path}"))
}

/// A path of another tool in our form.
fn dotted(path: &str) -> Option<String> {
    let path = path.trim_start_matches('.');
    let root = path.split(['.', '[']).next()?;
    let path = path.replacen(".outputs.", ".output.", 1);
    ROOTS.contains(&root).then(|| format!(".{path}"))
}

/// The top-level names of expressions, for hints.
pub(super) fn roots() -> String {
    ROOTS.map(|root| format!(".{root}")).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(string: &str, part: &str) -> Option<String> {
        let offset = string.find("${").unwrap() + 2;
        let text = string[offset..].trim_end().strip_suffix('}').unwrap();
        let blanks = text.len() - text.trim_start().len();
        BadExpression { string, offset: offset + blanks, text: text.trim(), part }.hint()
    }

    #[test]
    fn braces_of_other_tools() {
        let braces = |path: &str| Some(format!("write one pair of braces: ${{ {path} }}"));
        assert_eq!(hint("${{ inputs.name }}", ""), braces(".inputs.name"));
        assert_eq!(hint("${{ .inputs.name }}", ""), braces(".inputs.name"));
        assert_eq!(hint("${{ steps.build.outputs.path }}", ""), braces(".steps.build.output.path"));
        assert_eq!(hint("${{ item }}", ""), braces(".item"));
        assert!(hint("${{ github.sha }}", "").unwrap().contains("reads .inputs, .steps"));
        assert!(hint("${{a: .nope}}", "").unwrap().contains("makes an object"));
        assert_eq!(hint("${ {a: .nope} }", ""), None);
    }

    #[test]
    fn undefined_functions() {
        assert_eq!(function("mapp/1 is not defined").unwrap(), "did you mean `map`?");
        assert_eq!(function("to_entrys/0 is not defined").unwrap(), "did you mean `to_entries`?");
        assert!(function("map/2 is not defined").unwrap().contains("separate arguments with `;`"));
        assert_eq!(function("$x is not defined"), None);
        assert_eq!(function("frobnicate/0 is not defined"), None);
    }

    #[test]
    fn conditions_of_other_tools() {
        for (theirs, ours) in [
            ("inputs.env == 'prod'", ".inputs.env == \"prod\""),
            ("steps.a.output.inputs && !item", ".steps.a.output.inputs and !.item"),
            (".inputs.n > 1 || error", ".inputs.n > 1 or .error"),
            ("inputs.a === \"inputs.b\"", ".inputs.a == \"inputs.b\""),
            ("inputs_of.x", "inputs_of.x"),
            ("it's", "it\"s\""),
        ] {
            assert_eq!(as_jq(theirs), ours);
        }
    }

    #[test]
    fn conditions_on_outcomes() {
        assert!(hint("${ failure() }", ")").unwrap().contains("when: failed"));
        assert!(hint("${ always () && .a }", ")").unwrap().contains("when: done"));
        assert!(on_outcomes("!cancelled()").unwrap().contains("cancel: ["));
        assert_eq!(on_outcomes(".inputs.always"), None);
    }

    #[test]
    fn lists_that_are_texts() {
        assert_eq!(as_list("1,2,3").as_deref(), Some("[ 1, 2, 3 ]"));
        assert_eq!(as_list("eu-west, us east").as_deref(), Some("[ eu-west, \"us east\" ]"));
        for text in ["1", "", "1,,2", ".a, .b", "range(3), 4", "[1,2]", "a | b, c"] {
            assert_eq!(as_list(text), None, "{text}");
        }
    }

    #[test]
    fn operators_of_other_languages() {
        assert!(hint("${ inputs.name }", "inputs").unwrap().contains("dot: .inputs"));
        assert!(hint("${ $item.url }", "$item").unwrap().contains("dot: .item"));
        assert!(hint("${ .a && .b }", "&").unwrap().contains("`and`"));
        assert!(hint("${ .a || .b }", "|").unwrap().contains("`or`"));
        assert!(hint("${ .a == 'x' }", "'").unwrap().contains("double quotes"));
        assert!(hint("${ !.a }", "!").unwrap().contains("| not"));
        assert!(hint("${ .a ? 1 : 2 }", ":").unwrap().contains("then"));
        assert_eq!(hint("${ .a != 1 | nope }", "nope"), None);
    }
}
