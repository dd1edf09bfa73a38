//! Writes collections in brackets that are too wide on lines of their own.

use super::outline::{self, INDENT, Wide};
use super::{COLUMNS_MAX, FormatError};

/// Splits each outermost collection that does not fit on its line. `None` if all fit.
pub(super) fn split(text: &str) -> Result<Option<String>, FormatError> {
    let outline = outline::read(text)?;
    let is_wide = |wide: &&Wide| {
        let start = outline.starts[outline.line_of(wide.start)];
        text[start..wide.end].chars().count() > COLUMNS_MAX && !wide.parts.is_empty()
    };
    let mut out = String::new();
    let mut from = 0;
    for wide in outline.wide.iter().filter(is_wide) {
        out.push_str(text[from..wide.start].trim_end_matches(' '));
        out.push_str(&lines(text, wide));
        from = wide.end;
    }
    if from == 0 {
        return Ok(None);
    }
    out.push_str(&text[from..]);
    Ok(Some(out))
}

/// The entries or items, a line each. They begin on the next line, unless a mapping is an item.
fn lines(text: &str, wide: &Wide) -> String {
    let indent = " ".repeat(wide.owner + INDENT);
    let mut out = String::new();
    for (at, (key, (from, to))) in wide.parts.iter().enumerate() {
        let value = text.get(*from..*to).unwrap_or_default().trim();
        let is_behind_dash = at == 0 && wide.is_dash;
        let before = if is_behind_dash { " " } else { &format!("\n{indent}") };
        out.push_str(before);
        match key {
            Some((from, to)) => {
                let gap = if value.is_empty() { "" } else { " " };
                out.push_str(&format!("{}:{gap}{value}", text[*from..*to].trim()));
            }
            None => out.push_str(&format!("- {value}")),
        }
    }
    out
}
