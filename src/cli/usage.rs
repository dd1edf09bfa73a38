//! Errors of the command line itself, as text and as JSON.

use crate::cli::args::values::InvalidValue;
use crate::cli::command_line::CommandLine;
use crate::cli::exit::Exit;
use crate::cli::report::error::{UserError, kind};
use crate::cli::terminal::{Colour, Terminal, quoted, say, unwritable};
use crate::workflow::diagnostics::closest;
use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error as _;
use std::ffi::OsString;
use std::io::{self, Write as _};

/// Reports an error of the command line, or prints the requested help.
pub(in crate::cli) fn report(error: clap::Error) -> Exit {
    let error = &with_tip(error);
    if !error.use_stderr() {
        // Help and version: clap knows how to write them.
        return match error.print().and_then(|()| io::stdout().flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Terminal::new(Colour::Auto).error(&unwritable(error).to_string(), None);
                Exit::Failed
            }
            _ => Exit::Success,
        };
    }
    let refused = refused(error);
    if wants_json(std::env::args_os().skip(1)) && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return match refused.print() {
            Ok(()) => Exit::Usage,
            Err(_) => Exit::Failed,
        };
    }
    if error.source().is_some_and(<dyn std::error::Error>::is::<InvalidValue>) {
        let terminal = Terminal::new(Colour::Auto);
        terminal.error(&refused.title, refused.hint.as_deref());
        say("For more information, try '--help'.");
    } else {
        let _ = error.print();
    }
    Exit::Usage
}

/// Reports why a command cannot be used as given, as text or as JSON.
pub(in crate::cli) fn report_user_error(refused: UserError, terminal: Terminal) -> Exit {
    if wants_json(std::env::args_os().skip(1)) {
        return if refused.print().is_ok() { Exit::Usage } else { Exit::Failed };
    }
    refused.say(terminal);
    Exit::Usage
}

/// Commands of other tools, and their names here.
const MEANT: &[(&[&str], &str)] = &[
    (&["show", "info", "describe", "get"], "status"),
    (&["list", "runs", "jobs"], "ls"),
    (&["start", "exec", "launch", "execute", "apply", "submit"], "run"),
    (&["tail", "follow", "watch"], "logs -f"),
    (&["events", "records", "trace", "journal"], "history"),
    (&["stop", "kill", "abort", "terminate"], "cancel"),
    (&["delete", "remove", "prune", "clean", "gc"], "rm"),
    (&["check", "lint", "test"], "validate"),
    (&["init", "new", "examples", "create", "demo"], "example"),
    (&["continue", "unpause", "recover"], "resume"),
    (&["rerun", "redo", "restart"], "retry"),
    (&["send", "approve", "notify"], "signal"),
    (&["dry-run", "explain"], "plan"),
    (&["config", "settings", "env"], "doctor"),
    (&["completion"], "completions"),
];

/// The same error with the command that was probably meant, if the given one is unknown.
fn with_tip(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg)
        && (given == "--server" || given.starts_with("--server="))
        && error.kind() == ErrorKind::UnknownArgument
    {
        error.remove(ContextKind::SuggestedArg);
        let tip = "this command works on a data folder or on files, and asks no server";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    if let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand) {
        let aliased = MEANT.iter().find(|(names, _)| names.contains(&given.as_str())).map(|(_, meant)| *meant);
        let command = CommandLine::command();
        let known = command.get_subcommands().filter(|one| !one.is_hide_set()).map(clap::Command::get_name);
        if let Some(meant) = aliased.or_else(|| closest(given, known)) {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![meant.to_owned()]));
        }
    }
    error
}

fn refused(error: &clap::Error) -> UserError {
    if let Some(refusal) = error.source().and_then(<dyn std::error::Error>::downcast_ref::<InvalidValue>) {
        let context = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => text.as_str(),
            _ => "",
        };
        // `--slots <N>` as it is written in the usage.
        let flag = context(ContextKind::InvalidArg).split(' ').next().unwrap_or_default();
        let message = format!("{flag} {}: {}", quoted(context(ContextKind::InvalidValue)), refusal.message);
        return UserError::new(kind::USAGE, message).hint(refusal.hint.clone());
    }
    // What clap renders is `error: …`, perhaps a list, perhaps `tip: …`, and the usage.
    let text = error.render().to_string();
    let body = text.split("\n\nUsage:").next().unwrap_or_default();
    let mut paragraphs = body.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let title = paragraphs.next().unwrap_or_default();
    let tip = paragraphs.find_map(|part| part.strip_prefix("tip: ").map(str::to_owned));
    let refused = UserError::new(kind::USAGE, title.strip_prefix("error: ").unwrap_or(&title));
    refused.hint_maybe(tip.or_else(|| Some("`--help` shows the usage".to_owned())))
}

/// Returns whether the words request JSON: they do not parse as a whole, so each is checked.
fn wants_json(words: impl Iterator<Item = OsString>) -> bool {
    words.take_while(|word| word != "--").any(|word| word == "--json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn refusal_of(words: &[&str]) -> (String, Option<String>) {
        let error = CommandLine::try_parse_from([&["wfhost"], words].concat()).unwrap_err();
        let refused = refused(&with_tip(error));
        (refused.title, refused.hint)
    }

    #[test]
    fn a_value_is_told_with_its_flag_and_the_way_out() {
        let (title, hint) = refusal_of(&["run", "x.yaml", "--timeout", "5"]);
        assert_eq!(title, "--timeout 5: `5` is not a duration");
        assert_eq!(hint.as_deref(), Some("give the unit: 5s, 5m"));
    }

    #[test]
    fn what_is_long_is_not_told_whole() {
        let long = "long ".repeat(20_000);
        for words in [&["signal", "it", "go", long.as_str()][..], &["run", "x.yaml", "--timeout", &long]] {
            let (title, hint) = refusal_of(words);
            assert!(title.len() + hint.unwrap().len() < 500, "{title}");
        }
        let (title, _) = refusal_of(&["ls", "--since", &long]);
        assert!(title.len() < 500 && title.contains("long long") && title.contains("100000 bytes"), "{title}");
    }

    #[test]
    fn what_clap_says_becomes_a_title_and_a_hint() {
        let (title, hint) = refusal_of(&["run", "x.yaml", "--jsn"]);
        assert_eq!(title, "unexpected argument '--jsn' found");
        assert!(hint.unwrap().contains("'--json'"));
        let (title, hint) = refusal_of(&["run", "--json"]);
        assert_eq!(title, "the following required arguments were not provided: <FILE>");
        assert!(hint.unwrap().contains("--help"));
    }

    #[test]
    fn a_command_that_there_is_not_is_told_with_the_one_that_was_meant() {
        for (given, meant) in [
            ("rnu", "'run'"),
            ("show", "'status'"),
            ("list", "'ls'"),
            ("start", "'run'"),
            ("tail", "'logs -f'"),
            ("events", "'history'"),
            ("statsu", "'status'"),
        ] {
            let (title, hint) = refusal_of(&[given]);
            assert!(title.contains(given) && hint.unwrap().contains(meant), "{given}");
        }
        let (_, hint) = refusal_of(&["zzz"]);
        assert!(hint.unwrap().contains("--help"));
    }

    #[test]
    fn json_is_asked_for_by_its_flag_alone() {
        let asks = |words: &[&str]| wants_json(words.iter().map(OsString::from));
        assert!(asks(&["run", "--bad", "--json"]));
        assert!(!asks(&["run", "--", "--json"]) && !asks(&["run", "--jsonx"]));
    }
}
