//! Completion scripts, and the candidates that they request: ids of runs, and the steps of a run.
//!
//! The script of clap completes commands and flags. A function around it first asks `wfhost
//! complete` for what only this program knows.

use crate::cli::args::settings::Settings;
use crate::cli::exit::Exit;
use crate::cli::store::Runs;
use crate::cli::terminal::print;
use crate::journal::Filter;
use crate::workflow::diagnostics::Diagnostics;
use crate::workflow::syntax::{self, Node, Source};
use clap_complete::Shell;

/// Runs that are offered, the newest. Arbitrary: more than fit on a screen.
const RUNS_MAX: u32 = 200;

/// Commands whose first word is a run.
const ON_RUNS: [&str; 14] = [
    "resume", "status", "logs", "history", "cancel", "pause", "signal", "query", "resolve", "retry", "fork", "replay",
    "verify", "trace",
];

const BASH: &str = r#"
_wfhost_and_runs() {
    local word="${COMP_WORDS[COMP_CWORD]}" found
    if [[ $word != -* ]] &&
        found=$("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null) &&
        [[ -n $found ]]; then
        COMPREPLY=($(compgen -W "$found" -- "$word"))
    else
        _wfhost "$@"
    fi
}
complete -F _wfhost_and_runs -o bashdefault -o default wfhost
"#;

const ZSH: &str = r#"
_wfhost_and_runs() {
    local -a found
    found=(${(f)"$(${words[1]} complete -- ${(@)words[2,CURRENT]} 2>/dev/null)"})
    if (( $#found )); then compadd -a found; else _wfhost "$@"; fi
}
compdef _wfhost_and_runs wfhost
"#;

const FISH: &str = r"
complete -c wfhost -a '(wfhost complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
";

/// `wfhost completions`.
pub(in crate::cli) fn completions(shell: Shell, mut command: clap::Command) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "wfhost", &mut script);
    let more = match shell {
        Shell::Bash => BASH,
        Shell::Zsh => ZSH,
        Shell::Fish => FISH,
        _ => "",
    };
    print(&format!("{}{more}", String::from_utf8_lossy(&script)))?;
    Ok(Exit::Success)
}

/// `wfhost complete`: the candidates that begin as the last word does, a line each. Prints nothing
/// if there are none or on any error: completion must not disturb the prompt.
pub(in crate::cli) fn complete(words: &[String]) -> anyhow::Result<Exit> {
    let found = candidates(words).unwrap_or_default();
    if !found.is_empty() {
        print(&found.join("\n"))?;
    }
    Ok(Exit::Success)
}

fn candidates(words: &[String]) -> Option<Vec<String>> {
    let (word, before) = words.split_last()?;
    let (command, given) = before.split_first()?;
    if command == "blob" && given.len() == 1 {
        return runs(word, before);
    }
    if command == "rm" && !word.starts_with('-') || ON_RUNS.contains(&command.as_str()) && given.is_empty() {
        return runs(word, before);
    }
    if given.last().map(String::as_str) == Some("--from") {
        return Some(
            steps(given.first()?, before)?.into_iter().filter(|step| step.starts_with(word.as_str())).collect(),
        );
    }
    None
}

/// The runs of the folder that the words name, or else the settings.
fn runs_of(words: &[String]) -> Option<Runs> {
    let mut data = Settings::default_data().ok()?;
    let flag = words.windows(2).find(|pair| pair[0] == "--data").map(|pair| pair[1].clone());
    let joined = words.iter().find_map(|word| word.strip_prefix("--data=").map(str::to_owned));
    if let Some(folder) = flag.or(joined) {
        data.data = Some(folder.into());
    }
    data.open().ok()?
}

fn runs(prefix: &str, words: &[String]) -> Option<Vec<String>> {
    let runs = runs_of(words)?;
    let listed = runs.store.list(&Filter { limit: Some(RUNS_MAX), ..Filter::default() }).ok()?;
    Some(listed.iter().map(|run| run.id.to_string()).filter(|id| id.starts_with(prefix)).collect())
}

/// The steps of a run's workflow.
fn steps(run: &str, words: &[String]) -> Option<Vec<String>> {
    let runs = runs_of(words)?;
    let about = runs.manifest(&runs.find(run).ok()?.id).ok()?;
    let source = Source::new(&about.file, &about.source);
    let root = syntax::parse(&source, &mut Diagnostics::new(source.clone()))?;
    let ids = root.get("steps")?.as_sequence()?.iter().filter_map(|step| step.get("id").and_then(Node::as_text));
    Some(ids.map(str::to_owned).collect())
}
