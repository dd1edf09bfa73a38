//! Output for users: colours if wanted, text of guests made harmless, pipes that may close.

use clap::ValueEnum;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    Always,
    Never,
}

/// What the terminal of the user can do.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Terminal {
    /// Colours on standard error.
    pub(in crate::cli) colour: bool,
    /// Colours on standard output.
    pub(in crate::cli) colour_out: bool,
    /// Standard error is a terminal that can be redrawn.
    pub(in crate::cli) live: bool,
}

impl Terminal {
    pub(in crate::cli) fn new(colour: Colour) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let wanted = |is_terminal: bool| match colour {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => is_terminal && !is_dumb && !no_colour,
        };
        Self {
            colour: wanted(is_terminal),
            colour_out: wanted(std::io::stdout().is_terminal()),
            live: is_terminal && !is_dumb,
        }
    }

    /// Text in an SGR colour, for standard error.
    pub(in crate::cli) fn paint(self, sgr: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{sgr}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Text in an SGR colour, for standard output.
    pub(in crate::cli) fn paint_out(self, sgr: &str, text: &str) -> String {
        if self.colour_out { format!("\x1b[{sgr}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// `error: …`, and `hint: …` below it.
    pub(in crate::cli) fn error(self, message: &str, hint: Option<&str>) {
        say(&format!("{}: {}", self.paint("1;31", "error"), printable(message)));
        if let Some(hint) = hint {
            self.hint(hint);
        }
    }

    /// `hint: …`: what the user can do.
    pub(in crate::cli) fn hint(self, hint: &str) {
        say(&format!("{}: {}", self.paint("1;36", "hint"), printable(hint)));
    }

    /// `warning: …`, and `hint: …` below it.
    pub(in crate::cli) fn warning_text(self, message: &str, hint: Option<&str>) -> String {
        let mut text = format!("{}: {}", self.paint("1;33", "warning"), printable(message));
        if let Some(hint) = hint {
            let _ = write!(text, "\n{}: {}", self.paint("1;36", "hint"), printable(hint));
        }
        text
    }
}

/// Prints a line on standard error, if that is open.
pub(in crate::cli) fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Prints data, a text and a line end, on standard output. A closed pipe is success: its reader has
/// what it wanted.
///
/// # Errors
/// Fails if the output cannot be written, for example on a full disk.
pub(in crate::cli) fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| {
        if text.ends_with('\n') { out.flush() } else { out.write_all(b"\n").and_then(|()| out.flush()) }
    });
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(unwritable),
    }
}

/// Prints data as JSON, for programs and users: indented, and without anything that could control a
/// terminal.
///
/// # Errors
/// Fails if the output cannot be written.
pub(in crate::cli) fn print_json(value: &impl serde::Serialize) -> std::io::Result<()> {
    print(&printable_json(&serde_json::to_string_pretty(value)?))
}

/// The same JSON value, with characters that could control a terminal or reorder a line as JSON
/// escapes. serde_json escapes only what it must; the others occur only in strings.
pub(in crate::cli) fn printable_json(text: &str) -> Cow<'_, str> {
    escaped(text, |character, safe| write!(safe, "\\u{:04x}", u32::from(character)))
}

/// The error, with the name of standard output.
pub(in crate::cli) fn unwritable(error: std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))
}

/// Characters of a user's text that are quoted. Arbitrary: most of a line.
const QUOTED_MAX: usize = 60;

/// A user's text, cut so that it can still be recognized.
pub(in crate::cli) fn quoted(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}… ({} bytes)", &text[..end], text.len())),
        None => Cow::Borrowed(text),
    }
}

/// Text of a guest or a file, with characters that could control a terminal or reorder a line as
/// escapes. Line ends stay.
pub(in crate::cli) fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |character, safe| write!(safe, "\\u{{{:x}}}", u32::from(character)))
}

/// The text, with an escape for each control character.
fn escaped(text: &str, escape: impl Fn(char, &mut String) -> std::fmt::Result) -> Cow<'_, str> {
    if !text.chars().any(steers) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if steers(character) {
            let _ = escape(character, &mut safe);
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

/// The same for a text within a line: line ends are escaped too, and a long text is cut.
pub(in crate::cli) fn in_line(text: &str) -> Cow<'_, str> {
    let safe = match text.char_indices().nth(LINE_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    };
    let safe = if safe.contains('\n') { Cow::Owned(safe.replace('\n', "\\n")) } else { safe };
    match safe {
        Cow::Borrowed(safe) => printable(safe),
        Cow::Owned(safe) => Cow::Owned(printable(&safe).into_owned()),
    }
}

/// Characters of a text within a line. Arbitrary: some lines of a terminal.
const LINE_MAX: usize = 1_000;

/// The text, cut to fit.
pub(in crate::cli) fn fit(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns.saturating_sub(1)).chain(std::iter::once('…')).collect()
}

/// What steers a terminal or its reader, except line feed and tab.
fn steers(character: char) -> bool {
    !matches!(character, '\n' | '\t') && crate::base::text::steers(character)
}

/// Returns whether this process is in the foreground of its terminal, or has none.
pub(super) fn is_in_front() -> bool {
    let stderr = std::io::stderr();
    rustix::termios::tcgetpgrp(&stderr).map_or(true, |group| group == rustix::process::getpgrp())
}

#[cfg(test)]
mod tests {
    use super::{LINE_MAX, in_line, printable, printable_json, quoted};

    #[test]
    fn what_is_long_is_quoted_by_its_beginning() {
        assert_eq!(quoted(&"ä".repeat(60)), "ä".repeat(60));
        assert_eq!(quoted(&"ä".repeat(61)), format!("{}… (122 bytes)", "ä".repeat(60)));
    }

    #[test]
    fn what_is_told_in_a_line_stays_in_it() {
        assert_eq!(in_line("one\n✓ b: succeeded\r\n"), "one\\n✓ b: succeeded\\u{d}\\n");
        assert_eq!(in_line(&"ä".repeat(LINE_MAX)), "ä".repeat(LINE_MAX));
        assert_eq!(in_line(&"ä".repeat(LINE_MAX + 1)), "ä".repeat(LINE_MAX) + "…");
    }

    #[test]
    fn json_that_is_printed_steers_no_terminal_and_stays_the_same_value() {
        let steers: String = ('\u{0}'..='\u{2100}').chain(['\u{feff}']).filter(|one| super::steers(*one)).collect();
        assert!(steers.contains(['\u{7f}', '\u{9b}', '\u{202e}', '\u{2066}', '\u{200f}', '\u{61c}']));
        let value = serde_json::json!({ format!("k{steers}"): [format!("ä{steers}\\u009b\n\t\"")] });
        let text = serde_json::to_string_pretty(&value).unwrap();
        let printed = printable_json(&text);
        assert!(!printed.chars().any(super::steers), "{printed:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap(), value);
        assert_eq!(printable_json("[\n  \"ä\"\n]"), "[\n  \"ä\"\n]");
    }

    #[test]
    fn escapes_what_steers_a_terminal() {
        assert_eq!(printable("plain\ttext\n"), "plain\ttext\n");
        assert_eq!(printable("\x1b[2Jgone"), "\\u{1b}[2Jgone");
        assert_eq!(printable("a\rb\u{9b}c"), "a\\u{d}b\\u{9b}c");
        assert_eq!(printable("user\u{202e}txt.exe"), "user\\u{202e}txt.exe");
    }
}
