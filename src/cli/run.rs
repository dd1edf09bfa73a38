//! `wfhost run`.

use super::again::Again;
use super::arguments::Run;
use super::outcome::Over;
use super::progress::Follower;
use super::refused::{Refused, kind};
use super::signals::{Signals, Stage};
use super::terminal::{Terminal, print, say};
use super::{Exit, inputs};
use crate::base::processors;
use crate::dispatch::http::HttpConfig;
use crate::host::{Host, Outcome, RunHandle, RunOptions, Workflow};
use crate::process::Payload;
use serde_json::json;

/// Slots of a host that runs one workflow: few, since each costs an mprotect at the start.
pub(super) const SLOTS_DEFAULT: u32 = 64;

pub(super) fn run(command: &Run, terminal: Terminal) -> anyhow::Result<Exit> {
    let follower = (!command.quiet && !command.json).then(|| Follower::start(terminal));
    let signals = Signals::listen(command.json, terminal, follower.clone());
    let prepared = prepare(command);
    let (host, workflow, warnings) = match prepared {
        Ok(prepared) => prepared,
        Err(refused) => return refuse(&refused, command, follower.as_ref(), terminal),
    };
    if let Some(follower) = &follower {
        for (warning, hint) in &warnings {
            follower.note(terminal.warning_text(warning, Some(hint)));
        }
    }
    // From here on a signal cancels the run.
    let started = signals.guard(|| start(&host, &workflow, command));
    let run = match started {
        Ok(run) => run,
        Err(refused) => return refuse(&refused, command, follower.as_ref(), terminal),
    };
    if let Some(follower) = &follower {
        follower.follow(run.observe(super::progress::EVENTS_MAX), &workflow);
    }
    signals.enter(Stage::Running(run.clone()));
    let outcome = wait(&run, command);
    signals.enter(Stage::Over);
    if let Some(follower) = &follower {
        follower.close();
    }
    let again = Again::new(command.timeout);
    let over = Over { outcome: &outcome, workflow: &workflow, again: &again, slots: host.guests().slots() };
    let told = tell(&over, command, &warnings, terminal);
    // The process ends: its memory need not be given back piece by piece, and no thread has anything left to do.
    std::mem::forget((host, workflow, run));
    told
}

/// What was found out about a host that works, but not as well as it could: a sentence, and the way out.
type Warnings = Vec<(String, String)>;

fn prepare(command: &Run) -> Result<(Host, Workflow, Warnings), Refused> {
    let mut http = HttpConfig::default();
    http.permissions.clone_from(&command.allow_addresses);
    let workers = command.workers.unwrap_or_else(processors);
    let host = command.host.builder(SLOTS_DEFAULT).http(http).workers(workers).build()?;
    let mut warnings = Vec::new();
    let asked = command.host.slots.unwrap_or(SLOTS_DEFAULT);
    if host.guests().slots() < asked {
        let message = format!("the machine gave {} of {asked} slots", host.guests().slots());
        warnings.push((message, "`wfhost doctor` shows the limits".to_owned()));
    }
    let workflow = host.load(&command.file)?;
    if let Err(reason) = host.guests().cache().dir()
        && !command.host.code.keeps_nothing()
    {
        let message = format!("compiled code is not kept, so each start compiles anew: {reason}");
        warnings.push((message, "--cache DIR or WFHOST_CACHE names another folder".to_owned()));
    }
    Ok((host, workflow, warnings))
}

fn start(host: &Host, workflow: &Workflow, command: &Run) -> Result<RunHandle, Refused> {
    let declared = &workflow.plan().inputs;
    let hint = "--input key=value, --input key=@file, or --input @file.json";
    let inputs = inputs::read(&command.inputs, |name, text| declared.parse_argument(name, text))
        .map_err(|text| Refused::new(kind::BAD_INPUT, text).hint(hint))?;
    host.start(workflow, inputs, RunOptions::default()).map_err(|error| Refused::from(error).hint_on_inputs(hint))
}

/// Waits until the run is over, and cancels it where it takes too long.
fn wait(run: &RunHandle, command: &Run) -> Outcome {
    let Some(timeout) = command.timeout else { return run.wait() };
    if run.inner().wait_for(timeout).is_some() {
        return run.wait();
    }
    let is_late = run.cancel("the run took longer than its timeout", None).is_ok();
    let outcome = run.wait();
    if is_late { outcome.timed_out(timeout) } else { outcome }
}

fn refuse(refused: &Refused, command: &Run, follower: Option<&Follower>, terminal: Terminal) -> anyhow::Result<Exit> {
    if let Some(follower) = follower {
        follower.close();
    }
    if command.json {
        refused.print()?;
    } else {
        refused.say(terminal);
    }
    Ok(Exit::Usage)
}

fn tell(over: &Over<'_>, command: &Run, warnings: &Warnings, terminal: Terminal) -> anyhow::Result<Exit> {
    if command.json {
        let mut value = over.to_json();
        if !warnings.is_empty() {
            value["warnings"] = warnings.iter().map(|(warning, _)| json!(warning)).collect();
        }
        print(&serde_json::to_string_pretty(&value)?)?;
        return Ok(over.exit());
    }
    match &over.outcome.result {
        Ok(Payload::Json(json)) => print(&serde_json::to_string_pretty(&json.to_value())?)?,
        Ok(_) => {}
        Err(_) => over.say(terminal),
    }
    let abandoned = over.outcome.abandoned.len();
    if abandoned > 0 && !command.quiet {
        let plural = if abandoned == 1 { " was" } else { "s were" };
        say(&format!("{abandoned} call{plural} abandoned: nobody waited for the answer"));
    }
    Ok(over.exit())
}
