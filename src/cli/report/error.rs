//! Errors that end a command before anything was run: as text, or as the same JSON object that a
//! run prints.

use crate::cli::exit::Exit;
use crate::cli::terminal::{Terminal, print_json, say};
use crate::host::control::{ControlError, Refusal};
use crate::host::{HostError, LoadError, MissingSecret, RecoverError};
use crate::journal::StoreError;
use crate::run::RecoveryError;
use crate::workflow::diagnostics::Diagnostics;
use crate::workflow::diagnostics::closest;
use serde_json::{Value, json};

/// Problem kinds of the command line.
pub(in crate::cli) mod kind {
    /// The words of the command line.
    pub(in crate::cli) const USAGE: &str = "usage";
    /// The workflow file has problems.
    pub(in crate::cli) const BAD_DEFINITION: &str = "bad-definition";
    /// A file cannot be read.
    pub(in crate::cli) const UNREADABLE: &str = "unreadable";
    /// A tool chain did not succeed.
    pub(in crate::cli) const BUILD_FAILED: &str = "build-failed";
    /// A tool of a language is not installed.
    pub(in crate::cli) const MISSING_TOOL: &str = "missing-tool";
    /// A component does not fit the contract.
    pub(in crate::cli) const UNFIT: &str = "unfit";
    /// The inputs do not fit the workflow.
    pub(in crate::cli) const BAD_INPUT: &str = crate::workflow::interpreter::kind::BAD_INPUT;
    /// Secrets that the workflow declares cannot be used.
    pub(in crate::cli) const MISSING_SECRETS: &str = "missing-secrets";
    /// There is no such run, or several match.
    pub(in crate::cli) const UNKNOWN_RUN: &str = "unknown-run";
    /// One already exists, and it differs.
    pub(in crate::cli) const CONFLICT: &str = "conflict";
    /// The run's concurrency group has no place for it.
    pub(in crate::cli) const NO_PLACE: &str = crate::process::problem::kind::NO_PLACE;
    /// As many runs wait for a place in the concurrency group as may.
    pub(in crate::cli) const QUEUE_FULL: &str = "queue-full";
    /// The run is not in the right state: it has ended, or another host owns it.
    pub(in crate::cli) const WRONG_STATE: &str = "wrong-state";
    /// The folder of durable runs cannot be used, or a run in it is damaged.
    pub(in crate::cli) const JOURNAL: &str = "journal";
    /// A registry cannot be reached, or refuses.
    pub(in crate::cli) const REGISTRY: &str = "registry";
    /// The host cannot be built, or accepts no run.
    pub(in crate::cli) const HOST_FAULT: &str = crate::process::problem::kind::HOST_FAULT;
}

/// Why nothing was run.
pub(in crate::cli) struct UserError {
    status: &'static str,
    kind: &'static str,
    pub(in crate::cli) title: String,
    pub(in crate::cli) hint: Option<String>,
    /// For a file: all its problems.
    definition: Option<Diagnostics>,
    /// For inputs: a JSON Pointer and a sentence each.
    inputs: Vec<(String, String)>,
}

impl UserError {
    pub(in crate::cli) fn new(kind: &'static str, title: impl Into<String>) -> Self {
        Self { status: "refused", kind, title: title.into(), hint: None, definition: None, inputs: Vec::new() }
    }

    /// For a file that has problems.
    pub(in crate::cli) fn of_definition(definition: Diagnostics) -> Self {
        let count = definition.count();
        let plural = if count == 1 { "" } else { "s" };
        let title = format!("{} has {count} problem{plural}", definition.source().name());
        Self { definition: Some(definition), ..Self::new(kind::BAD_DEFINITION, title) }
    }

    /// For secrets that cannot be used.
    fn of_secrets(title: String, missing: &[MissingSecret]) -> Self {
        let flags: Vec<String> = missing.iter().filter_map(MissingSecret::flag).collect();
        let hint = match &flags[..] {
            [] => "put it there, and give the same command again".to_owned(),
            flags => format!("{} gives it, or `secrets` of the configuration file", flags.join(" ")),
        };
        Self::new(kind::MISSING_SECRETS, title).hint(hint)
    }

    /// The same, if the user ended the command.
    pub(in crate::cli) fn cancelled(mut self) -> Self {
        self.status = "cancelled";
        self
    }

    /// The same, if the command ran out of time.
    pub(in crate::cli) fn timed_out(mut self) -> Self {
        self.status = "timed-out";
        self
    }

    /// The same for a run that continues in another process.
    pub(in crate::cli) fn running(mut self) -> Self {
        self.status = "running";
        self
    }

    /// The same for a run that can be resumed.
    pub(in crate::cli) fn suspended(mut self) -> Self {
        self.status = "suspended";
        self
    }

    pub(in crate::cli) fn hint(self, hint: impl Into<String>) -> Self {
        self.hint_maybe(Some(hint.into()))
    }

    pub(in crate::cli) fn hint_maybe(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }

    /// The same with a hint, if the inputs do not fit.
    pub(in crate::cli) fn hint_on_inputs(self, hint: &str) -> Self {
        if self.inputs.is_empty() { self } else { self.hint(hint) }
    }

    /// The exit code of the command.
    fn exit(&self) -> Exit {
        if self.status == "refused" { Exit::Usage } else { Exit::Cancelled }
    }

    /// The kind of its problem.
    pub(in crate::cli) fn kind(&self) -> &'static str {
        self.kind
    }

    /// Returns whether it is of this kind.
    pub(in crate::cli) fn is_of(&self, kind: &str) -> bool {
        self.kind == kind
    }

    /// Returns whether it is about a run that stays suspended.
    pub(in crate::cli) fn is_suspended(&self) -> bool {
        self.status == "suspended"
    }

    /// The JSON object, on standard output.
    pub(in crate::cli) fn print(&self) -> anyhow::Result<()> {
        print_json(&self.to_json())?;
        Ok(())
    }

    /// `status`, `problem`, and `problems` if there can be several.
    pub(in crate::cli) fn to_json(&self) -> Value {
        let mut problem = json!({ "kind": self.kind, "title": self.title, "class": "definite" });
        if let Some(hint) = &self.hint {
            problem["hint"] = json!(hint);
        }
        let mut value = json!({ "status": self.status, "problem": problem });
        if let Some(definition) = &self.definition {
            let mut all = definition.to_json();
            value["file"] = all["file"].take();
            value["problems"] = all["problems"].take();
        } else if !self.inputs.is_empty() {
            let inputs = self.inputs.iter().map(|(at, what)| json!({ "pointer": at, "message": what }));
            value["problems"] = inputs.collect();
        }
        value
    }

    /// As one text: for a file all its problems, each with its position.
    pub(in crate::cli) fn in_full(self) -> String {
        match self.definition {
            Some(definition) => definition.render(false).trim_end().to_owned(),
            None => self.title,
        }
    }

    /// All that [`Self::say`] writes, without colours.
    pub(in crate::cli) fn text(&self) -> String {
        if let Some(definition) = &self.definition {
            return definition.render(false).trim_end().to_owned();
        }
        let inputs = self.inputs.iter().map(|(at, what)| format!("input `{}` {what}", at.trim_start_matches('/')));
        let hint = self.hint.iter().map(|hint| format!("hint: {hint}"));
        std::iter::once(self.title.clone()).chain(inputs).chain(hint).collect::<Vec<_>>().join("\n")
    }

    /// For people, on standard error.
    pub(in crate::cli) fn say(&self, terminal: Terminal) {
        if let Some(definition) = &self.definition {
            say(definition.render(terminal.colour).trim_end());
        } else if self.inputs.is_empty() {
            terminal.error(&self.title, self.hint.as_deref());
        } else {
            for (pointer, what) in &self.inputs {
                terminal.error(&format!("input `{}` {what}", pointer.trim_start_matches('/')), None);
            }
            if let Some(hint) = &self.hint {
                terminal.hint(hint);
            }
        }
    }
}

impl From<LoadError> for UserError {
    fn from(error: LoadError) -> Self {
        let title = error.to_string();
        match error {
            LoadError::Definition(definition) => Self::of_definition(definition),
            LoadError::Inputs(inputs) => Self { inputs, ..Self::new(kind::BAD_INPUT, title) },
            LoadError::Read { path, source }
                if source.kind() == std::io::ErrorKind::NotFound && !path.is_absolute() =>
            {
                let folder = std::env::current_dir().map_or_else(|_| ".".to_owned(), |dir| dir.display().to_string());
                Self::new(kind::UNREADABLE, title).hint(format!("the path is relative to {folder}"))
            }
            LoadError::Read { .. } | LoadError::WriteLock { .. } => Self::new(kind::UNREADABLE, title),
            LoadError::NotLocked { workflow, .. } => {
                Self::new(kind::BAD_DEFINITION, title).hint(format!("write it: wfhost lock {}", workflow.display()))
            }
            LoadError::Journal(error) => {
                let error = Self::from(error);
                let durability = "--durability none runs it without a journal";
                let hint =
                    error.hint.as_ref().map_or_else(|| durability.to_owned(), |hint| format!("{hint}; {durability}"));
                error.hint(hint)
            }
            LoadError::StoreComponent { .. } => Self::new(kind::JOURNAL, format!("{:#}", anyhow::Error::from(error)))
                .hint("--data DIR or WFHOST_DATA names another folder; --durability none runs it without a journal"),
            LoadError::StoredComponent { .. } => Self::new(kind::JOURNAL, format!("{:#}", anyhow::Error::from(error)))
                .hint("put a copy of the file there; running the workflow with the original component does so too"),
            LoadError::Exists { id } => Self::new(kind::CONFLICT, title).hint(format!("`wfhost status {id}` shows it")),
            LoadError::NoPlace { run, .. } => {
                Self::new(kind::NO_PLACE, title).hint(format!("`wfhost status {run}` shows it"))
            }
            LoadError::QueueFull { .. } => {
                Self::new(kind::QUEUE_FULL, title).hint("`wfhost ls --status queued` lists them")
            }
            LoadError::Secrets(missing) => Self::of_secrets(title, &missing),
            LoadError::Group(_) => Self::new(kind::BAD_INPUT, title),
            LoadError::GroupNeedsJournal => Self::new(kind::USAGE, title)
                .hint("leave out --durability none; --data DIR or WFHOST_DATA names a folder"),
            _ => Self::new(kind::HOST_FAULT, title),
        }
    }
}

impl From<RecoverError> for UserError {
    fn from(error: RecoverError) -> Self {
        match error {
            RecoverError::Journal(error) => Self::from(error),
            RecoverError::Workflow(error) => Self::from(error),
            RecoverError::Run(RecoveryError::Ended(_) | RecoveryError::Exists(_)) => {
                Self::new(kind::WRONG_STATE, error.to_string())
            }
            RecoverError::Run(RecoveryError::Refused) => Self::new(kind::HOST_FAULT, error.to_string()),
            RecoverError::Run(RecoveryError::Paused(run)) => {
                Self::new(kind::WRONG_STATE, format!("the run {run} is paused"))
                    .suspended()
                    .hint(format!("to resume it: wfhost resume {run}"))
            }
            RecoverError::NoComponent { .. } => Self::new(kind::USAGE, error.to_string()),
            error => {
                let hint = error
                    .damage()
                    .map(|_| "other runs are not affected; `wfhost ls --status damaged` lists it".to_owned());
                Self::new(kind::JOURNAL, format!("{:#}", anyhow::Error::from(error))).hint_maybe(hint)
            }
        }
    }
}

/// Why a command ends before its end.
pub(in crate::cli) enum CommandError {
    /// The command is refused, and the user sees why.
    User(UserError),
    /// The command failed: for example, the output cannot be written.
    Internal(anyhow::Error),
}

impl CommandError {
    /// Reports it, and returns how the command ends.
    pub(in crate::cli) fn report(self, json: bool, terminal: Terminal) -> anyhow::Result<Exit> {
        let error = match self {
            Self::Internal(error) => return Err(error),
            Self::User(error) => error,
        };
        if json {
            error.print()?;
        } else {
            error.say(terminal);
        }
        Ok(error.exit())
    }
}

impl From<UserError> for CommandError {
    fn from(error: UserError) -> Self {
        Self::User(error)
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        Self::User(error.into())
    }
}

impl From<ControlError> for CommandError {
    fn from(error: ControlError) -> Self {
        Self::User(error.into())
    }
}

impl From<RecoverError> for CommandError {
    fn from(error: RecoverError) -> Self {
        Self::User(error.into())
    }
}

impl From<std::io::Error> for CommandError {
    fn from(error: std::io::Error) -> Self {
        Self::Internal(error.into())
    }
}

impl From<serde_json::Error> for CommandError {
    fn from(error: serde_json::Error) -> Self {
        Self::Internal(error.into())
    }
}

impl From<anyhow::Error> for CommandError {
    fn from(error: anyhow::Error) -> Self {
        Self::Internal(error)
    }
}

impl From<HostError> for UserError {
    fn from(error: HostError) -> Self {
        let hint = matches!(error, HostError::Guests(_))
            .then(|| "`--slots 1 --profile dense` takes the least memory; `wfhost doctor` shows the limits".to_owned());
        Self::new(kind::HOST_FAULT, format!("{:#}", anyhow::Error::from(error))).hint_maybe(hint)
    }
}

impl From<ControlError> for UserError {
    fn from(error: ControlError) -> Self {
        let hint = match &error {
            ControlError::Refused(Refusal::NotExposed { names, .. }) if names.is_empty() => {
                Some("the run exposes nothing".to_owned())
            }
            ControlError::Refused(Refusal::NotExposed { name, names }) => {
                let all = names.iter().map(|name| &**name);
                Some(closest(name, all.clone()).map_or_else(
                    || format!("it exposes {}", all.collect::<Vec<_>>().join(", ")),
                    |meant| format!("did you mean {meant}?"),
                ))
            }
            ControlError::Refused(Refusal::NoSuchCall { count: 0, .. }) => {
                Some("`wfhost status` lists the uncertain calls of a run".to_owned())
            }
            ControlError::Refused(Refusal::NoSuchCall { .. }) => {
                Some("give the process too, as in 3/7: `wfhost status` lists them".to_owned())
            }
            ControlError::Refused(Refusal::OtherVersion { .. }) => {
                Some("use the wfhost of the release that runs it".to_owned())
            }
            ControlError::Refused(Refusal::Busy) => Some("try again in a moment".to_owned()),
            _ => None,
        };
        let kind = match &error {
            ControlError::Refused(Refusal::Conflict { .. }) => kind::CONFLICT,
            ControlError::Refused(_) => kind::USAGE,
            _ => kind::HOST_FAULT,
        };
        Self::new(kind, format!("{:#}", anyhow::Error::from(error))).hint_maybe(hint)
    }
}
