//! One scenario in one language on the real host.

use super::checks;
use super::handlers::{Board, Sink};
use super::scenario::{Action, Language, Scenario, expanded};
use crate::durable::image;
use crate::support::{builder, guests};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wfhost::host::{Host, Outcome, ReplayOptions, RunHandle, RunOptions, Workflow};
use wfhost::process::Payload;
use wfhost::run::Replay;

/// How long a scenario may take, and one of its conditions.
const PATIENCE: Duration = Duration::from_mins(1);

/// How long a call may take to begin, on a machine that is busy.
const BEGIN: Duration = Duration::from_secs(5);

/// What came of a scenario; the text says why it failed.
pub(super) type Verdict = Result<(), String>;

/// A language with the hosts that run it.
pub(super) struct Runner<'a> {
    language: &'a Language,
    board: Board,
    /// Most scenarios share it.
    host: Host,
}

/// A scenario that runs.
struct Running {
    board: Board,
    host: Host,
    run: RunHandle,
    /// Where its records are, if its host dies.
    folder: Option<tempfile::TempDir>,
}

impl<'a> Runner<'a> {
    pub(super) fn new(language: &'a Language) -> Self {
        let board = Board::default();
        let host = board.handlers(builder(2, 64)).build().unwrap();
        Self { language, board, host }
    }

    /// Runs one scenario. Failures are told, so that the others run too.
    pub(super) fn run(&self, scenario: &Scenario) -> Verdict {
        let dies = scenario.actions.iter().any(|action| matches!(action, Action::Die { .. }));
        let folder = dies.then(|| tempfile::tempdir().unwrap());
        let (board, host) = if let Some(folder) = &folder {
            let board = Board::holding(&scenario.hold);
            let host = board.handlers(builder(2, scenario.slots)).data(folder.path()).build().unwrap();
            (board, host)
        } else if scenario.slots == 64 {
            (self.board.clone(), self.host.clone())
        } else {
            let board = Board::default();
            let host = board.handlers(builder(1, scenario.slots)).build().unwrap();
            (board, host)
        };
        let workflow = workflow(&host, &guests(""), self.language.program_file(), scenario)?;
        let id = scenario.name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let sink = Some(Arc::new(Sink(board.clone(), id.clone())) as _);
        let options = RunOptions { records: scenario.replay, sink, id: Some(id), ..RunOptions::default() };
        let inputs = Map::from_iter([("input".to_owned(), expanded(&scenario.input))]);
        let run = host.start(&workflow, inputs, options).map_err(|error| error.to_string())?;
        let mut running = Running { board, host, run, folder };
        for action in &scenario.actions {
            running.act(action)?;
        }
        let outcome = running.ended()?;
        running.board.of(running.run.id(), |seen| checks::check(scenario, &outcome, seen))?;
        if scenario.replay {
            let records = running.run.records().ok_or("it has no records")?;
            replays(&running.host, &workflow, &records)?;
        }
        Ok(())
    }

    /// A program that does something else is noticed when a run is replayed with it.
    pub(super) fn notices_another_program(&self) -> Verdict {
        let folder = tempfile::tempdir().unwrap();
        let name = Path::new(self.language.program_file()).file_name().unwrap().to_str().unwrap();
        let path = folder.path().join(name);
        std::fs::copy(self.language.program(), &path).unwrap();
        let beside = self.language.order_source();
        std::fs::copy(&beside, folder.path().join(beside.file_name().unwrap())).unwrap();
        let scenario: Scenario =
            serde_json::from_value(json!({ "name": "other", "entry": "twice", "output": null })).unwrap();
        let load = || workflow(&self.host, folder.path(), name, &scenario);
        let inputs = Map::from_iter([("input".to_owned(), json!(21))]);
        let options = RunOptions { records: true, ..RunOptions::default() };
        let original = load()?;
        let run = self.host.start(&original, inputs, options).map_err(|error| error.to_string())?;
        run.wait();
        let records = run.records().ok_or("it has no records")?;
        replays(&self.host, &original, &records)?;
        if self.language.is_script() {
            let text = std::fs::read_to_string(&path).unwrap();
            let changed = text.replace("2 * ", "3 * ");
            if text == changed {
                return Err("`twice` is to be written with `2 * `".into());
            }
            std::fs::write(&path, changed).unwrap();
        } else {
            std::fs::copy(guests("built/conformance-rust.wasm"), &path).unwrap();
        }
        let other = load()?;
        let substituted = ReplayOptions { substituted: true, until: None };
        match self.host.replay(&other, &records, substituted, |_| {}) {
            Ok(Replay::Diverged(_)) => Ok(()),
            found => Err(format!("a changed program: {found:?}")),
        }
    }
}

/// Steps that run the program's entry with the run's input, and what comes of each. The program is
/// a file below the folder.
fn workflow(host: &Host, folder: &Path, program: &str, scenario: &Scenario) -> Result<Workflow, String> {
    let component = json!({ "source": format!("./{program}"), "limits": { "memory": "256MiB" } });
    let steps: Vec<Value> = (0..scenario.copies)
        .map(|n| {
            let mut step = json!({
                "id": format!("s{n}"), "uses": "guest", "entry": scenario.entry, "with": "${ .inputs.input }",
                "continue-on-error": true, "allow": { "signal": ["*"] },
            });
            if let Some(grace) = &scenario.grace {
                step["limits"] = json!({ "grace": grace });
            }
            step
        })
        .collect();
    let ends: Map<String, Value> = (0..scenario.copies)
        .map(|n| (format!("s{n}"), json!(format!("${{ .steps.s{n} | {{status, output, error}} }}"))))
        .collect();
    let text = json!({
        "inputs": { "input": { "required": false } },
        "components": { "guest": component, "other": component },
        "steps": steps,
        "outputs": ends,
    });
    host.parse("suite.yaml", &text.to_string(), folder).map_err(|error| error.to_string())
}

fn replays(host: &Host, workflow: &Workflow, records: &[wfhost::run::Record]) -> Verdict {
    match host.replay(workflow, records, ReplayOptions::default(), |_| {}) {
        Ok(Replay::Same { .. }) => Ok(()),
        Ok(Replay::Diverged(difference)) => {
            Err(format!("its replay differs: {:?} was {:?}", difference.got, difference.expected))
        }
        found => Err(format!("its replay failed: {found:?}")),
    }
}

impl Running {
    fn act(&mut self, action: &Action) -> Verdict {
        let id = Arc::clone(self.run.id());
        match action {
            Action::Signal { signal, body } => self.run.signal(signal, body).map_err(|error| format!("{error:?}")),
            Action::Begun { begun, n } => self.until(&format!("{n} calls of {begun} begin"), |this| {
                this.board.of(&id, |seen| seen.begun.get(begun).is_some_and(|found| found >= n))
            }),
            Action::Abandoned { abandoned } => {
                let begun = Instant::now();
                self.until("a call of hang is given up", move |this| {
                    this.board.of(&id, |seen| {
                        // One that is cancelled soon enough never begins.
                        let never_begins = !seen.begun.contains_key("hang") && begun.elapsed() > BEGIN;
                        seen.abandoned >= *abandoned || never_begins
                    })
                })
            }
            Action::Noted { noted } => {
                self.until("it notes something", |this| this.board.of(&id, |seen| seen.notes.len() >= *noted))
            }
            Action::Query { query, is } => self.until(&format!("the query {query} returns {is}"), |this| {
                this.run.query(query).is_some_and(|value| match value {
                    Payload::Json(json) => json.to_value() == *is,
                    _ => false,
                })
            }),
            Action::Waiting { waiting, n } => self.until(&format!("it waits for {waiting}"), |this| {
                this.run.inner().signals().iter().any(|signal| &*signal.name == waiting && signal.waiting >= *n)
            }),
            Action::Cancel { cancel } => self.run.cancel(cancel, None).map_err(|error| format!("{error:?}")),
            Action::Pause { pause } => {
                std::thread::sleep(Duration::from_millis(*pause));
                Ok(())
            }
            Action::Die { .. } => self.die(),
        }
    }

    fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) -> Verdict {
        let begun = Instant::now();
        while !is_so(self) {
            if let Some(outcome) = self.run.outcome() {
                // It may have ended because of it.
                if is_so(self) {
                    return Ok(());
                }
                return Err(format!("it ended before {what}: {}", outcome.to_json()));
            }
            if begun.elapsed() > PATIENCE {
                self.run.kill("the test waits no longer");
                return Err(format!("in {PATIENCE:?} it did not come that {what}"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// The host dies; another one has what was on disk.
    fn die(&mut self) -> Verdict {
        let folder = self.folder.take().expect("it is durable");
        self.run.inner().acknowledged().wait_for(PATIENCE).map_err(|error| format!("{error:?}"))?;
        let image = image(folder.path());
        let components = image.path().join("components");
        std::fs::create_dir_all(&components).unwrap();
        for file in std::fs::read_dir(folder.path().join("components")).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), components.join(file.file_name())).unwrap();
        }
        self.run.kill("the host dies");
        self.run.wait();
        let id = self.run.id().to_string();
        self.board = self.board.released();
        self.host = self.board.handlers(builder(2, 64)).data(image.path()).build().unwrap();
        let workflow = self.host.workflow_of(&id).map_err(|error| format!("{error}: {error:?}"))?;
        self.run = self.host.recover(&workflow, &id, RunOptions::default()).map_err(|error| error.to_string())?;
        self.folder = Some(image);
        Ok(())
    }

    fn ended(&self) -> Result<Outcome, String> {
        if self.run.inner().wait_for(PATIENCE).is_none() {
            let processes = self.run.processes();
            self.run.kill("the test waits no longer");
            return Err(format!("it had not ended after {PATIENCE:?}: {processes:?}"));
        }
        Ok(self.run.wait())
    }
}
