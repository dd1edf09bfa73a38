//! Whether a component can be a step, and if not, why not.

use crate::cli::report::compiling;
use crate::cli::report::compiling::SAID_BYTES_MIN;
use crate::cli::report::source_map::{Message, span_json};
use crate::cli::terminal::{Terminal, printable, say};
use crate::guest::{Cancellation, Component, LoadError, Misfit, WasiCommand};
use crate::host::{Host, component_file};
use crate::workflow::diagnostics::Excerpt;
use crate::workflow::model::ScriptLanguage;
use crate::workflow::plan::Unusable;
use crate::workflow::syntax::Source;
use serde_json::{Value, json};
use std::path::Path;

/// Why a file cannot be a step.
#[derive(Default)]
pub(in crate::cli) struct Unfit {
    pub(in crate::cli) why: String,
    pub(in crate::cli) hint: Option<String>,
    /// Of its exports and imports.
    misfits: Vec<Misfit>,
    /// The place in a script.
    cause: Option<Excerpt>,
}

/// What can be a step.
pub(in crate::cli) enum Fit {
    Guest(Component),
    Program(WasiCommand),
}

/// What is in a file.
pub(in crate::cli) fn look(host: &Host, path: &str, json: bool) -> Result<Fit, Unfit> {
    if ScriptLanguage::of(path).is_some() {
        return script(host, path).map(Fit::Guest);
    }
    let unread = |error: std::io::Error| Unfit { why: format!("{path}: {error}"), ..Unfit::default() };
    let bytes = component_file::read(Path::new(path)).map_err(unread)?;
    if WasiCommand::recognizes(&bytes) {
        return program(host, path, &bytes, json).map(Fit::Program);
    }
    load(host, path, &bytes, json).map(Fit::Guest)
}

/// The program of these bytes.
pub(in crate::cli) fn program(host: &Host, path: &str, bytes: &[u8], json: bool) -> Result<WasiCommand, Unfit> {
    let loaded = WasiCommand::load(host.guests(), path, bytes, &Cancellation::new(), &|| compiles(path, bytes, json));
    loaded.map_err(|error| unfit(path, bytes, error))
}

/// The script of a file.
fn script(host: &Host, path: &str) -> Result<Component, Unfit> {
    host.script_file(Path::new(path), &Cancellation::new()).map_err(|Unusable { message, hint, at }| {
        let cause = at.and_then(|at| Some(Excerpt::at(&at.file, at.text.as_ref()?, at.line, at.column)));
        Unfit { why: message, hint, misfits: Vec::new(), cause }
    })
}

/// The component of these bytes, which messages call `path`.
pub(in crate::cli) fn load(host: &Host, path: &str, bytes: &[u8], json: bool) -> Result<Component, Unfit> {
    let hash = blake3::hash(bytes);
    let loaded =
        Component::load_hashed(host.guests(), bytes, hash, &Cancellation::new(), &|| compiles(path, bytes, json));
    loaded.map_err(|error| unfit(path, bytes, error))
}

/// Says that a large component is being compiled.
fn compiles(path: &str, bytes: &[u8], json: bool) {
    if bytes.len() as u64 >= SAID_BYTES_MIN && !json {
        say(&compiling::text(path, bytes.len() as u64));
    }
}

fn unfit(path: &str, bytes: &[u8], error: LoadError) -> Unfit {
    let (why, hint) = component_file::explain(path, bytes, &error);
    let misfits = if let LoadError::Misfit(misfits) = error { misfits } else { Vec::new() };
    Unfit { why, hint: Some(hint), misfits, cause: None }
}

impl Unfit {
    /// For people, on standard error.
    pub(in crate::cli) fn say(&self, path: &str, terminal: Terminal) {
        if let Some(cause) = &self.cause {
            let message =
                Message { kind: "script", title: self.why.clone(), notes: Vec::new(), hint: self.hint.clone() };
            say(&message.at(cause, terminal));
            return;
        }
        if self.misfits.is_empty() {
            terminal.error(&self.why, self.hint.as_deref());
            return;
        }
        terminal.error(&format!("{path} cannot be a step"), None);
        for misfit in &self.misfits {
            say(&printable(&describe_misfit(misfit)));
        }
        let hint = "wit/process.wit has the whole contract, docs/guests.md how to meet it in several languages";
        terminal.hint(hint);
    }

    pub(in crate::cli) fn to_json(&self, path: &str) -> Value {
        let mut value = refused(path, &self.why, self.hint.as_deref(), &self.misfits);
        if let Some(Excerpt { file, text, span, .. }) = &self.cause {
            value["cause"] = span_json(&Source::new(file, text), *span);
        }
        value
    }
}

/// A file that cannot be a step.
fn refused(file: &str, why: &str, hint: Option<&str>, misfits: &[Misfit]) -> Value {
    let mut value = json!({ "file": file, "fits": false, "why": why });
    if let Some(hint) = hint {
        value["hint"] = json!(hint);
    }
    if !misfits.is_empty() {
        let mismatches = misfits.iter().map(|misfit| {
            let found = Some(misfit.found()).filter(|found| !found.is_empty());
            json!({ "at": misfit.at(), "expected": misfit.expected(), "found": found })
        });
        value["mismatches"] = mismatches.collect();
    }
    value
}

fn describe_misfit(misfit: &Misfit) -> String {
    let found = misfit.found();
    let found = if found.is_empty() { "nothing" } else { &found };
    format!("  {}\n    expected  {}\n    found     {found}", misfit.at(), misfit.expected())
}
