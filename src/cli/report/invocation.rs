//! The command line as typed, so that hints can show the command to type next.

use crate::cli::report::units::exact_duration;
use std::ffi::OsString;
use std::time::{Duration, Instant};

/// A longer command is not repeated in hints. Arbitrary: some lines of a terminal.
const COMMAND_BYTES_MAX: usize = 400;

/// The words of a command line.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Invocation {
    words: Vec<String>,
    timeout: Option<Duration>,
    /// When the timeout began.
    begun: Instant,
    /// A word is not valid Unicode.
    has_non_text: bool,
    /// Addresses permitted by the environment or a file.
    addresses: Vec<String>,
}

/// The flag that permits addresses.
pub(in crate::cli) const ALLOW_ADDRESS: &str = "--allow-address";

/// The switch that permits secrets without TLS.
pub(in crate::cli) const PLAIN_SECRETS: &str = "--plain-secrets";

/// Flags with a value that say how a run is executed, not what it is: they are not stored with a
/// durable run.
const HOST_FLAGS: [&str; 10] = [
    "--data",
    ALLOW_ADDRESS,
    "--secret",
    "--slots",
    "--workers",
    "--profile",
    "--cache",
    "--cache-bytes",
    "--config",
    "--output-dir",
];

/// Those of them that have no value.
const HOST_SWITCHES: [&str; 2] = ["--no-cache", PLAIN_SECRETS];

impl Invocation {
    /// This process's own words; `timeout` is their `--timeout`.
    pub(in crate::cli) fn new(timeout: Option<Duration>) -> Self {
        Self::of(std::env::args_os().skip(1), timeout)
    }

    pub(in crate::cli) fn of(words: impl IntoIterator<Item = OsString>, timeout: Option<Duration>) -> Self {
        let words: Vec<Result<String, OsString>> = words.into_iter().map(OsString::into_string).collect();
        let has_non_text = words.iter().any(Result::is_err);
        Self {
            words: words.into_iter().filter_map(Result::ok).collect(),
            timeout,
            begun: Instant::now(),
            has_non_text,
            addresses: Vec::new(),
        }
    }

    /// The same with addresses that the environment or a file permits: a flag overrides these, so
    /// it has to name them too.
    pub(in crate::cli) fn permitting(mut self, addresses: Vec<String>) -> Self {
        self.addresses = addresses;
        self
    }

    /// The command with these addresses permitted too.
    pub(in crate::cli) fn with_addresses(&self, more: &[String]) -> Option<String> {
        let all: Vec<&str> = self.addresses.iter().chain(more).map(String::as_str).collect();
        self.with(ALLOW_ADDRESS, &all.join(","), true)
    }

    /// Returns whether the command has a flag.
    pub(in crate::cli) fn has_flag(&self, flag: &str) -> bool {
        let mut words = self.words.iter().take_while(|word| *word != "--");
        words.any(|word| word.split('=').next() == Some(flag))
    }

    /// A command for a durable run of this one: it names the run, with the host's flags of this
    /// command.
    pub(in crate::cli) fn for_run(&self, verb: &str, run: &str) -> Self {
        let mut words = vec![verb.to_owned(), run.to_owned()];
        let mut given = self.words.iter().take_while(|word| *word != "--");
        while let Some(word) = given.next() {
            let flag = word.split('=').next().unwrap_or_default();
            if HOST_SWITCHES.contains(&word.as_str()) {
                words.push(word.clone());
            } else if HOST_FLAGS.contains(&flag) {
                words.push(word.clone());
                if flag == word {
                    words.extend(given.next().cloned());
                }
            }
        }
        Self {
            words,
            timeout: None,
            begun: self.begun,
            has_non_text: self.has_non_text,
            addresses: self.addresses.clone(),
        }
    }

    /// A command about a durable run that executes nothing: it takes along only `--data`.
    pub(in crate::cli) fn for_stored_run(&self, verb: &str, run: &str) -> Self {
        let mut words = vec![verb.to_owned(), run.to_owned()];
        let mut given = self.words.iter().take_while(|word| *word != "--");
        while let Some(word) = given.next() {
            if word == "--data" {
                words.extend(std::iter::once(word).chain(given.next()).cloned());
            } else if word.starts_with("--data=") {
                words.push(word.clone());
            }
        }
        Self {
            words,
            timeout: None,
            begun: self.begun,
            has_non_text: self.has_non_text,
            addresses: self.addresses.clone(),
        }
    }

    /// The command with these words after its first two.
    pub(in crate::cli) fn with_words(mut self, words: &[&str]) -> Self {
        let at = self.words.len().min(2);
        self.words.splice(at..at, words.iter().map(|&word| word.to_owned()));
        self
    }

    /// Returns whether it is this command.
    pub(in crate::cli) fn is_command(&self, verb: &str) -> bool {
        self.words.first().is_some_and(|first| first == verb)
    }

    /// `--timeout` of the command.
    pub(in crate::cli) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// The rest of the timeout, which began with the command.
    pub(in crate::cli) fn time_left(&self) -> Option<Duration> {
        Some(self.timeout?.saturating_sub(self.begun.elapsed()))
    }

    /// The hint for a command that had too little time.
    pub(in crate::cli) fn longer(&self) -> Option<String> {
        let longer = exact_duration(self.timeout?.saturating_mul(2));
        Some(format!("to give it longer: {}", self.with("--timeout", &longer, false)?))
    }

    /// The command as it was. `None` if it is too long to be useful.
    pub(in crate::cli) fn text(&self) -> Option<String> {
        self.render(&self.words)
    }

    /// The command with a flag, which replaces the same flag, or is added if the flag may be
    /// repeated.
    pub(in crate::cli) fn with(&self, flag: &str, value: &str, repeated: bool) -> Option<String> {
        let mut words = Vec::with_capacity(self.words.len() + 2);
        let mut given = self.words.iter();
        while let Some(word) = given.next() {
            if word == "--" {
                // No flag follows `--`: ours goes before it.
                let rest = std::iter::once(word).chain(given).cloned();
                return self
                    .render(&words.into_iter().chain([flag.into(), value.into()]).chain(rest).collect::<Vec<_>>());
            }
            if !repeated && word == flag {
                given.next();
            } else if repeated || !word.strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')) {
                words.push(word.clone());
            }
        }
        words.extend([flag.to_owned(), value.to_owned()]);
        self.render(&words)
    }

    /// The command with a flag that has no value.
    pub(in crate::cli) fn with_switch(&self, switch: &str) -> Option<String> {
        let mut words: Vec<String> = self.words.clone();
        if !self.has_flag(switch) {
            // No flag follows `--`.
            let at = words.iter().position(|word| word == "--").unwrap_or(words.len());
            words.insert(at, switch.to_owned());
        }
        self.render(&words)
    }

    fn render(&self, words: &[String]) -> Option<String> {
        let command = std::iter::once("wfhost".to_owned()).chain(words.iter().map(|word| shell_quoted(word)));
        let command = command.collect::<Vec<_>>().join(" ");
        (!self.has_non_text && command.len() <= COMMAND_BYTES_MAX).then_some(command)
    }
}

/// A word as a POSIX shell reads it.
pub(in crate::cli) fn shell_quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invocation(words: &[&str]) -> Invocation {
        Invocation::of(words.iter().map(OsString::from), None)
    }

    #[test]
    fn words_are_quoted_as_shells_want_it() {
        let words = ["run", "my flow.yaml", "-i", "name=O'Hara", "-i", ""];
        assert_eq!(invocation(&words).text().unwrap(), "wfhost run 'my flow.yaml' -i 'name=O'\\''Hara' -i ''");
    }

    #[test]
    fn a_flag_takes_the_place_of_the_one_before() {
        for words in [&["run", "--slots", "2", "f"][..], &["run", "--slots=2", "f"], &["run", "f"]] {
            assert_eq!(invocation(words).with("--slots", "4", false).unwrap(), "wfhost run f --slots 4");
        }
        assert_eq!(invocation(&["run", "--", "-f"]).with("--slots", "4", false).unwrap(), "wfhost run --slots 4 -- -f");
        let twice = invocation(&["run", "f", "--allow-address", "::1"]).with("--allow-address", "10.0.0.1", true);
        assert_eq!(twice.unwrap(), "wfhost run f --allow-address ::1 --allow-address 10.0.0.1");
    }

    #[test]
    fn a_flag_without_a_value_is_there_once() {
        for words in [&["run", "f"][..], &["run", "f", "--no-cache"]] {
            assert_eq!(invocation(words).with_switch("--no-cache").unwrap(), "wfhost run f --no-cache");
        }
        assert_eq!(invocation(&["run", "--", "-f"]).with_switch("--no-cache").unwrap(), "wfhost run --no-cache -- -f");
    }

    #[test]
    fn what_is_to_be_done_with_a_durable_run_has_the_flags_that_are_not_kept() {
        let run = invocation(&[
            "run",
            "f",
            "--run-id",
            "a",
            "-i",
            "x=1",
            "--allow-address=::1",
            "--data",
            "d",
            "--timeout",
            "1s",
        ]);
        assert!(run.has_flag("--run-id") && run.has_flag("--allow-address") && !run.has_flag("--slots"));
        assert_eq!(run.for_run("resume", "a").text().unwrap(), "wfhost resume a --allow-address=::1 --data d");
        let retry = run.for_run("retry", "a").with("--allow-address", "10.0.0.1", true);
        assert_eq!(retry.unwrap(), "wfhost retry a --allow-address=::1 --data d --allow-address 10.0.0.1");
        let signal = run.for_stored_run("signal", "a").with_words(&["it's ok", "JSON"]);
        assert_eq!(signal.text().unwrap(), "wfhost signal a 'it'\\''s ok' JSON --data d");
        assert_eq!(invocation(&["run", "--", "--data"]).for_run("retry", "a").text().unwrap(), "wfhost retry a");
    }

    #[test]
    fn a_flag_for_one_address_more_names_those_that_a_file_permits() {
        let one = ["localhost".to_owned()];
        let run = invocation(&["run", "f"]).permitting(vec!["10.0.0.0/8".to_owned()]);
        assert_eq!(run.with_addresses(&one).unwrap(), "wfhost run f --allow-address 10.0.0.0/8,localhost");
        let resume = run.for_run("resume", "a").with_addresses(&one);
        assert_eq!(resume.unwrap(), "wfhost resume a --allow-address 10.0.0.0/8,localhost");
    }

    #[test]
    fn what_is_too_long_is_not_repeated() {
        assert_eq!(invocation(&["run", &"x".repeat(500)]).text(), None);
    }
}
