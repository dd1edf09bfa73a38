//! `wfhost run`.

use super::arguments::Run;
use super::terminal::{Terminal, print, printable, say};
use super::{Exit, complain, inputs, progress};
use crate::host::{Host, Outcome, RunHandle, RunOptions, Status, Workflow};
use crate::process::Payload;
use crate::workflow::model::parse_duration;
use std::time::Duration;

/// Slots of a host that runs one workflow: few, since each costs an mprotect at the start.
const SLOTS_DEFAULT: u32 = 64;

/// How long the host waits at the end for processes that were cancelled.
const SHUTDOWN: Duration = Duration::from_secs(1);

pub(super) fn run(command: Run, terminal: Terminal) -> anyhow::Result<Exit> {
    let timeout = command
        .timeout
        .as_deref()
        .map(parse_duration)
        .transpose()
        .map_err(|error| anyhow::anyhow!("--timeout: {error}"))?;
    let workers =
        command.workers.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let host = command.host.builder(SLOTS_DEFAULT)?.workers(workers).build()?;
    let workflow = match host.load(&command.file) {
        Ok(workflow) => workflow,
        Err(error) => {
            complain(&error, terminal);
            return Ok(Exit::Usage);
        }
    };
    let run = match start(&host, &workflow, &command) {
        Ok(run) => run,
        Err(Unstarted::Usage(text)) => {
            terminal.error(&text, Some("--input key=value, --input key=@file, or --input @file.json"));
            return Ok(Exit::Usage);
        }
        Err(Unstarted::Refused(error)) => {
            complain(&error, terminal);
            return Ok(Exit::Usage);
        }
    };
    let follower = (!command.quiet && !command.json).then(|| {
        let events = run.observe(progress::EVENTS_MAX);
        std::thread::spawn(move || progress::follow(events, terminal))
    });
    let (outcome, is_late) = wait(&run, timeout.map(Into::into), terminal)?;
    if let Some(follower) = follower {
        let _ = follower.join();
    }
    host.shutdown_blocking(SHUTDOWN);
    tell(&outcome, &command, terminal, is_late)
}

enum Unstarted {
    Usage(String),
    Refused(crate::host::LoadError),
}

fn start(host: &Host, workflow: &Workflow, command: &Run) -> Result<RunHandle, Unstarted> {
    let declared = &workflow.plan().inputs;
    let inputs =
        inputs::read(&command.inputs, |name, text| declared.parse_argument(name, text)).map_err(Unstarted::Usage)?;
    host.start(workflow, inputs, RunOptions::default()).map_err(Unstarted::Refused)
}

/// Waits until the run is over. Ctrl-C and SIGTERM cancel it; a second one ends it at once, and so does the timeout's grace.
/// Says too whether it was the timeout that ended it.
fn wait(run: &RunHandle, timeout: Option<Duration>, terminal: Terminal) -> anyhow::Result<(Outcome, bool)> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut timer = std::pin::pin!(async {
            match timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        });
        let mut asked = 0;
        let mut is_late = false;
        loop {
            tokio::select! {
                outcome = run.finished() => return Ok((outcome, is_late)),
                _ = interrupt.recv() => asked += 1,
                _ = terminate.recv() => asked += 1,
                () = &mut timer, if !is_late => {
                    is_late = true;
                    let _ = run.cancel("the run took longer than its timeout", None);
                    continue;
                }
            }
            if asked == 1 {
                say(&format!("{}: cancelling; again to end at once", terminal.paint("33", "interrupted")));
                let _ = run.cancel("it was interrupted", None);
            } else {
                run.kill("it was interrupted twice");
            }
        }
    })
}

fn tell(outcome: &Outcome, command: &Run, terminal: Terminal, is_late: bool) -> anyhow::Result<Exit> {
    if command.json {
        let mut value = outcome.to_json();
        value["timed-out"] = is_late.into();
        print(&serde_json::to_string_pretty(&value)?)?;
    } else {
        match &outcome.result {
            Ok(Payload::Json(json)) => print(&serde_json::to_string_pretty(&json.to_value())?)?,
            Ok(_) => {}
            Err(problem) => {
                let kind = if is_late { "timed-out" } else { &problem.kind };
                terminal.error(&format!("{} ({kind})", problem.title), None);
                if let Some(detail) = &problem.detail {
                    say(&format!("  {}", printable(detail).replace('\n', "\n  ")));
                }
                if let Some(pointer) = problem
                    .data
                    .as_ref()
                    .map(crate::process::Json::to_value)
                    .as_ref()
                    .and_then(|data| data["pointer"].as_str())
                {
                    say(&format!("  at {}#{}", command.file.display(), printable(pointer)));
                }
                say(&format!(
                    "{}: run it again from the start: wfhost run {}",
                    terminal.paint("1;36", "hint"),
                    command.file.display()
                ));
            }
        }
        if !outcome.abandoned.is_empty() && !command.quiet {
            say(&format!("{} calls were abandoned: nobody waited for their answers", outcome.abandoned.len()));
        }
    }
    Ok(match outcome.status {
        Status::Succeeded => Exit::Success,
        Status::Failed if is_late => Exit::Cancelled,
        Status::Failed => Exit::Failed,
        Status::Cancelled => Exit::Cancelled,
    })
}
