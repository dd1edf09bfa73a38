//! Checks documents on a thread of its own: as `validate` does, but not at each key press, and not
//! for longer than a person waits.
//!
//! One host checks all documents: a component is compiled once, and known by its bytes after that.

use super::document::{self, range};
use crate::cli::report::source_map::SourceMap;
use crate::guest::Cancellation;
use crate::host::{Host, LoadError};
use crate::testing::suite::{Suite, SuiteError, is_case_file};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::plan::{Unchecked, load};
use crate::workflow::syntax::{Source, Span};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How long a document must stay as it is before it is checked. Arbitrary: a pause in typing.
const QUIET: Duration = Duration::from_millis(150);

/// How long components are loaded for one check. What was compiled until then need not be compiled
/// again. Arbitrary.
const LOADING_MAX: Duration = Duration::from_secs(10);

/// A document to check.
pub(super) struct Job {
    pub(super) uri: String,
    pub(super) version: i64,
    pub(super) source: Source,
}

/// What was found in a version of a document.
pub(super) struct Checked {
    pub(super) uri: String,
    pub(super) version: i64,
    pub(super) diagnostics: Vec<Value>,
}

/// Starts the thread. It ends when the sender of jobs is dropped.
pub(super) fn start(host: Arc<Host>, done: impl Fn(Checked) + Send + 'static) -> Sender<Job> {
    let (sender, jobs) = channel();
    std::thread::spawn(move || run(&host, &jobs, &done));
    sender
}

fn run(host: &Host, jobs: &Receiver<Job>, done: &dyn Fn(Checked)) {
    let mut waiting: BTreeMap<String, Job> = BTreeMap::new();
    loop {
        let next = if waiting.is_empty() {
            jobs.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            jobs.recv_timeout(QUIET)
        };
        match next {
            Ok(job) => drop(waiting.insert(job.uri.clone(), job)),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                if let Some((uri, job)) = waiting.pop_first() {
                    let diagnostics = check(host, &job);
                    done(Checked { uri, version: job.version, diagnostics });
                }
            }
        }
    }
}

/// The problems and warnings of a document, as the protocol has them.
fn check(host: &Host, job: &Job) -> Vec<Value> {
    let path = document::path(&job.uri);
    let folder = path.as_deref().and_then(Path::parent).map_or_else(|| PathBuf::from("."), Path::to_owned);
    let cancellation = Cancellation::new();
    let (finished, finish) = channel::<()>();
    let timer = {
        let cancellation = cancellation.clone();
        std::thread::spawn(move || {
            if finish.recv_timeout(LOADING_MAX) == Err(RecvTimeoutError::Timeout) {
                cancellation.cancel();
            }
        })
    };
    let path = path.filter(|path| is_case_file(path));
    let checked = match &path {
        Some(path) => check_cases(host, job, path, &cancellation),
        None => check_workflow(host, job, &folder, &cancellation),
    };
    drop(finished);
    let _ = timer.join();
    checked
}

/// The problems of a case file, and that its workflow has some.
fn check_cases(host: &Host, job: &Job, path: &Path, cancellation: &Cancellation) -> Vec<Value> {
    let at_top = |severity: u8, message: String| {
        let range = range(job.source.text(), Span::default());
        vec![json!({ "range": range, "severity": severity, "source": "wfhost", "message": message })]
    };
    match Suite::load_text(host, path, &job.source, cancellation) {
        Ok(_) => Vec::new(),
        Err(SuiteError::Cases(problems)) => of_problems(&job.uri, &problems),
        Err(SuiteError::Load(LoadError::Definition(problems))) => {
            let (file, count) = (problems.source().name(), problems.count());
            let first = problems.iter().next().map_or_else(String::new, |first| format!(": {}", first.message));
            at_top(2, format!("the names of the workflow are not checked: {file} has {count} problems{first}"))
        }
        Err(SuiteError::Load(LoadError::Cancelled)) => {
            at_top(3, "the components of the workflow take long to load, and nothing was checked yet".to_owned())
        }
        Err(other @ SuiteError::NoWorkflow { .. }) => {
            at_top(1, format!("{other}\nhint: `workflow: ./other.yaml` at its top names another file"))
        }
        Err(other) => at_top(1, other.to_string()),
    }
}

/// The problems and warnings of a workflow.
fn check_workflow(host: &Host, job: &Job, folder: &Path, cancellation: &Cancellation) -> Vec<Value> {
    let (name, text) = (job.source.name(), job.source.text());
    match host.parse_cancellable(name, text, folder, cancellation) {
        Ok(workflow) => {
            let doubts = workflow.plan().warnings();
            let map = (!doubts.is_empty()).then(|| SourceMap::of(&workflow)).flatten();
            let place = |pointer: &str| {
                let (source, span) = map.as_ref().map(|map| map.part(map.find(pointer, None)))?;
                (source.name() == name).then_some(span)
            };
            let warning = |code: &str, message: &str, pointer: &str| {
                let range = range(text, place(pointer).unwrap_or_default());
                json!({ "range": range, "severity": 2, "code": code, "source": "wfhost", "message": message })
            };
            doubts
                .iter()
                .map(|doubt| warning(doubt.code, &format!("{}\nhint: {}", doubt.message, doubt.hint), &doubt.pointer))
                .collect()
        }
        Err(LoadError::Definition(problems)) => of_problems(&job.uri, &problems),
        Err(LoadError::Cancelled) => {
            let problems = load(&job.source, host.expressions(), &Unchecked).err();
            let mut found = problems.map_or_else(Vec::new, |problems| of_problems(&job.uri, &problems));
            let message = "the components of this file take long to load, and have not been checked yet";
            let range = range(text, Span::default());
            found.push(json!({ "range": range, "severity": 3, "source": "wfhost", "message": message }));
            found
        }
        Err(other) => {
            let range = range(text, Span::default());
            vec![json!({ "range": range, "severity": 1, "source": "wfhost", "message": other.to_string() })]
        }
    }
}

fn of_problems(uri: &str, problems: &Diagnostics) -> Vec<Value> {
    problems.iter().map(|problem| of_problem(uri, problems.source(), problem)).collect()
}

fn of_problem(uri: &str, source: &Source, problem: &Diagnostic) -> Value {
    let message = match &problem.hint {
        Some(hint) => format!("{}\nhint: {hint}", problem.message),
        None => problem.message.clone(),
    };
    let range = |span| range(source.text(), span);
    let mut value = json!({
        "range": range(problem.span), "severity": 1, "code": problem.code, "source": "wfhost", "message": message,
    });
    let related =
        |(span, label): &(Span, String)| json!({ "location": { "uri": uri, "range": range(*span) }, "message": label });
    if !problem.related.is_empty() {
        value["relatedInformation"] = problem.related.iter().map(related).collect();
    }
    if let Some(replacement) = problem.replacement(source) {
        value["data"] = json!({ "replacement": replacement });
    }
    value
}
