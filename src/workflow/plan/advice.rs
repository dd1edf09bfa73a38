//! Hints for expressions that are written as other tools have them.

use super::scope::{Names, Place};

/// What exists at the top of an expression.
pub(super) const ROOTS: [&str; 6] = ["inputs", "steps", "item", "index", "run", "error"];

/// An expression that is in trouble.
pub(super) struct Troubled<'a> {
    /// The string of the file.
    pub(super) string: &'a str,
    /// Where the expression begins in it.
    pub(super) offset: usize,
    /// The expression.
    pub(super) text: &'a str,
    /// The part that is the trouble.
    pub(super) part: &'a str,
}

impl Troubled<'_> {
    /// What was probably meant.
    pub(super) fn advice(&self) -> Option<String> {
        self.double_braces().or_else(|| self.no_dot()).or_else(|| self.operator())
    }

    /// `${{ inputs.name }}`. To jq the inner braces make an object.
    pub(super) fn double_braces(&self) -> Option<String> {
        let begins = self.string.get(..self.offset)?.ends_with("${") && self.text.starts_with('{');
        let inner = self.text.trim_end().strip_suffix('}').filter(|_| begins)?.get(1..)?.trim();
        let is_path = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '[' | ']' | '"' | '\'');
        if !inner.chars().all(is_path) {
            // An object of jq's, with some other trouble; but `{{` is rarely meant so.
            return Some(
                "an expression has one pair of braces: ${ … }; within them `{ … }` makes an object".to_owned(),
            );
        }
        Some(match dotted(inner) {
            Some(path) => format!("an expression has one pair of braces: ${{ {path} }}"),
            None => format!("an expression has one pair of braces, and reads {}", roots()),
        })
    }

    /// `${ inputs.name }` and `${ $inputs.name }`. jq takes the first for a function, the second for a variable.
    fn no_dot(&self) -> Option<String> {
        let name = self.part.strip_prefix('$').unwrap_or(self.part);
        let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        ROOTS.contains(&name).then(|| format!("what is read begins with a dot: .{name}"))
    }

    /// Operators of other languages.
    fn operator(&self) -> Option<String> {
        let says = |operator: &str| self.text.contains(operator);
        let hint = if says("&&") {
            "jq writes `and` for &&"
        } else if says("||") {
            "jq writes `or` for ||; `//` gives a default: .inputs.name // \"nobody\""
        } else if says("===") {
            "jq writes `==` for ==="
        } else if says("'") {
            "strings of jq have double quotes: write the whole value in single quotes, or after `|`"
        } else if says("!") && !says("!=") {
            "jq writes `| not` for !"
        } else if says(" ? ") && says(" : ") {
            "jq writes if … then … else … end"
        } else {
            return None;
        };
        Some(hint.to_owned())
    }
}

/// A path to something that there is, in a string that has no expression: as the whole string (`.inputs.name`), or in the braces of
/// another tool (`{{ inputs.name }}`). As it stands, and as an expression.
pub(super) fn without_braces<'t>(text: &'t str, names: &Names<'_>, place: Place) -> Option<(&'t str, String)> {
    let whole = text.trim();
    if whole.starts_with(['.', '$']) || whole.starts_with("steps.") && whole.contains(".output") {
        return Some((whole, known_path(whole.trim_start_matches('$'), names, place)?));
    }
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let length = rest[start..].find("}}")?;
        let inner = rest[start + 2..start + length].trim();
        if let Some(meant) = known_path(inner, names, place) {
            return Some((&rest[start..start + length + 2], meant));
        }
        rest = &rest[start + length + 2..];
    }
    None
}

/// A path that reads an input, a step or an item that there is, with its dot.
fn known_path(path: &str, names: &Names<'_>, place: Place) -> Option<String> {
    let path = path.strip_prefix('.').unwrap_or(path);
    let is_path = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '[' | ']' | '"');
    let root = path.split(['.', '[']).next()?;
    let rest = path[root.len()..].trim_start_matches(['.', '[', '"']);
    let name = rest.split(['.', '[', '"', ']']).next()?;
    let is_known = match root {
        "inputs" => names.inputs.0.iter().any(|input| input.name == name),
        "steps" => names.steps.contains(&name),
        "item" => place.item,
        _ => false,
    };
    (is_known && path.chars().all(is_path)).then(|| format!(".{path}"))
}

/// A path of another tool as it is here.
fn dotted(path: &str) -> Option<String> {
    let path = path.trim_start_matches('.');
    let root = path.split(['.', '[']).next()?;
    let path = path.replacen(".outputs.", ".output.", 1);
    ROOTS.contains(&root).then(|| format!(".{path}"))
}

/// What expressions read, for hints.
pub(super) fn roots() -> String {
    ROOTS.map(|root| format!(".{root}")).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(string: &str, part: &str) -> Option<String> {
        let offset = string.find("${").unwrap() + 2;
        let text = string[offset..].trim_end().strip_suffix('}').unwrap();
        let blanks = text.len() - text.trim_start().len();
        Troubled { string, offset: offset + blanks, text: text.trim(), part }.advice()
    }

    #[test]
    fn braces_of_other_tools() {
        let hint = |path: &str| Some(format!("an expression has one pair of braces: ${{ {path} }}"));
        assert_eq!(advice("${{ inputs.name }}", ""), hint(".inputs.name"));
        assert_eq!(advice("${{ .inputs.name }}", ""), hint(".inputs.name"));
        assert_eq!(advice("${{ steps.build.outputs.path }}", ""), hint(".steps.build.output.path"));
        assert_eq!(advice("${{ item }}", ""), hint(".item"));
        assert!(advice("${{ github.sha }}", "").unwrap().contains("reads .inputs, .steps"));
        assert!(advice("${{a: .nope}}", "").unwrap().contains("makes an object"));
        assert_eq!(advice("${ {a: .nope} }", ""), None);
    }

    #[test]
    fn words_of_other_languages() {
        assert!(advice("${ inputs.name }", "inputs").unwrap().contains("dot: .inputs"));
        assert!(advice("${ $item.url }", "$item").unwrap().contains("dot: .item"));
        assert!(advice("${ .a && .b }", "&").unwrap().contains("`and`"));
        assert!(advice("${ .a || .b }", "|").unwrap().contains("`or`"));
        assert!(advice("${ .a == 'x' }", "'").unwrap().contains("double quotes"));
        assert!(advice("${ !.a }", "!").unwrap().contains("| not"));
        assert!(advice("${ .a ? 1 : 2 }", ":").unwrap().contains("then"));
        assert_eq!(advice("${ .a != 1 | nope }", "nope"), None);
    }
}
