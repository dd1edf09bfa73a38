//! Waiting for another process, which may have been stopped.

use crate::cli::report::error::{UserError, kind};
use crate::cli::report::journal::{FULL, FULL_HINT};
use crate::cli::terminal::say;
use crate::host::control::{Client, ControlError};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How long the command waits before it says for what. Arbitrary: a user begins to wonder.
const UNSAID_MAX: Duration = Duration::from_millis(500);

/// Runs `ask`, which waits for a process. If that takes long, reports it, and why if one of `hosts`
/// knows.
pub(in crate::cli) fn waiting_for<T>(process: Option<u32>, hosts: Vec<Client>, ask: impl FnOnce() -> T) -> T {
    let (done, asked) = channel::<()>();
    let wait = move || {
        if asked.recv_timeout(UNSAID_MAX) == Err(RecvTimeoutError::Timeout) {
            say(&format!("waiting for {} to answer", name(process)));
            if hosts.iter().any(Client::is_stalled) {
                say(&format!("warning: {FULL}\nhint: {FULL_HINT}"));
            }
        }
    };
    let waiting = thread::Builder::new().name("patience".to_owned()).spawn(wait);
    let answer = ask();
    drop(done);
    // Its message comes before that of the answer.
    let _ = waiting.map(thread::JoinHandle::join);
    answer
}

/// A process, as text.
fn name(process: Option<u32>) -> String {
    process.map_or_else(|| "a host".to_owned(), |process| format!("process {process}"))
}

/// Title and hint for the host of a run that does not answer.
pub(in crate::cli) fn silent(run: &str, process: u32) -> (String, String) {
    (format!("process {process}, which runs {run}, does not answer"), to_continue(process))
}

/// Title and hint for a host that does not answer, if the records are shown instead.
pub(in crate::cli) fn from_records(process: u32) -> (String, String) {
    let title = format!("process {process}, which runs it, does not answer: this is what the records say");
    (title, to_continue(process))
}

fn to_continue(process: u32) -> String {
    format!("if it was stopped, `kill -CONT {process}` continues it")
}

/// The error for an act that may have been carried out. The same act with its id counts once.
pub(in crate::cli) fn uncertain_act(error: ControlError, process: u32, run: &str, act: Option<&str>) -> UserError {
    let ControlError::Silent { path, waited } = error else { return error.into() };
    let title = format!(
        "process {process}, which runs {run}, has not answered for {} s: the request may still be carried out",
        waited.as_secs()
    );
    let again = act.map_or_else(String::new, |act| format!("the same request with --id {act} counts once; "));
    let out = if Client::at(path).is_stalled() {
        "the disk with the data folder is full, and the request is carried out when there is space".to_owned()
    } else {
        to_continue(process)
    };
    UserError::new(kind::HOST_FAULT, title).hint(again + &out)
}
