//! A host in a process of its own, which others kill.
//!
//! It recovers the unfinished runs of its folder and starts further ones, so that the same number
//! is always in flight. It prints a line for each point reached: `up` when all are recovered,
//! `ended RUN OUTPUTS`, `failed RUN WHY`, `lost RUN WHY` for a run that the host released, `full`,
//! `room` and `broken WHY` for the disk.

use crate::kinds::kinds;
use crate::work::Job;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::task::JoinSet;
use wfhost::dispatch::http::HttpConfig;
use wfhost::guest::EngineOptions;
use wfhost::host::{Host, Outcome, RecoverError, RunHandle, RunOptions, Status, StorageNotice, Workflow};
use wfhost::journal::StoreError;
use wfhost::process::Payload;
use wfhost::run::{Act, RecoveryError, SnapshotPolicy};

/// The variable that holds the orders.
pub(crate) const ORDERS: &str = "WFHOST_FAULTS_HOST";
/// The exit code if runs were lost.
pub(crate) const LOST: i32 = 70;
/// The exit code if the folder cannot be used.
pub(crate) const REFUSED: i32 = 71;

/// The task of a host.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) data: PathBuf,
    pub(crate) server: SocketAddr,
    /// The number of runs at one time.
    pub(crate) in_flight: usize,
    /// The numbers of the runs that are still to be started.
    pub(crate) first: u64,
    pub(crate) end: u64,
    /// Instance slots: fewer than guests, so that some are evicted.
    pub(crate) slots: u32,
    /// Whether every step is followed by a snapshot, or none.
    pub(crate) snapshots: bool,
}

/// The host itself. Not a test by itself: other tests start it, with [`ORDERS`], to kill it.
#[test]
#[ignore = "is the process that other tests kill"]
fn process() {
    let orders = std::env::var(ORDERS).expect("other tests start it");
    let orders: Orders = serde_json::from_str(&orders).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // Nothing is closed or waited for: the process ends.
    std::process::exit(runtime.block_on(serve(orders)));
}

pub(crate) fn host(data: &Path, slots: u32, snapshots: bool) -> Host {
    let policy = if snapshots {
        SnapshotPolicy { steps_max: 1, ..SnapshotPolicy::default() }
    } else {
        SnapshotPolicy {
            tail: Duration::MAX,
            steps_max: u64::MAX,
            parked_tail: Duration::MAX,
            ..SnapshotPolicy::default()
        }
    };
    let mut http = HttpConfig::default();
    http.permissions = vec!["127.0.0.0/8".parse().unwrap()];
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guests-cache");
    let options = EngineOptions { slots: Some(slots), cache_dir: Some(cache), ..EngineOptions::default() };
    let tell = |news: &StorageNotice| {
        say(&match news {
            StorageNotice::Full => "full".to_owned(),
            StorageNotice::Room => "room".to_owned(),
            StorageNotice::Failed(error) => format!("broken {}", chain(error)),
            _ => return,
        });
    };
    let builder = Host::builder().workers(2).guests(options).http(http).data(data);
    builder.on_storage(tell).snapshots(policy).build().expect("a host")
}

/// Compiles the guests of all runs, so that the hosts find their code: compiling the large ones
/// takes longer than hosts live.
pub(crate) fn compile() {
    static DONE: OnceLock<()> = OnceLock::new();
    DONE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let host = host(folder.path(), 1, false);
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
        for job in (0..kinds().len() as u64).map(Job) {
            host.parse(&job.file(), &job.workflow(nowhere), "/").unwrap_or_else(|error| panic!("{error}"));
        }
    });
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).expect("the test reads this");
}

struct Serving {
    host: Host,
    orders: Orders,
    workflows: BTreeMap<String, Workflow>,
    runs: JoinSet<Outcome>,
    next: u64,
}

async fn serve(orders: Orders) -> i32 {
    let host = host(&orders.data, orders.slots, orders.snapshots);
    let unfinished = match host.journal() {
        Ok(Some(journal)) => journal.unfinished().expect("the list of runs"),
        Ok(None) => unreachable!("it has a folder"),
        Err(error) => {
            say(&format!("refused {}", chain(&error)));
            return REFUSED;
        }
    };
    let mut serving = Serving { next: orders.first, orders, host, workflows: BTreeMap::new(), runs: JoinSet::new() };
    for run in unfinished {
        serving.recover(&run.id);
    }
    serving.fill();
    say("up");
    let mut lost = false;
    while let Some(outcome) = serving.runs.join_next().await {
        let outcome = outcome.expect("waiting does not fail");
        match (outcome.status, outcome.outputs()) {
            (Status::Succeeded, Some(outputs)) => say(&format!("ended {} {outputs}", outcome.run)),
            _ if is_lost(&outcome) => {
                lost = true;
                say(&format!("lost {} {}", outcome.run, outcome.to_json()));
            }
            _ => say(&format!("failed {} {}", outcome.run, outcome.to_json())),
        }
        if !lost {
            serving.fill();
        }
    }
    if lost { LOST } else { 0 }
}

/// Whether a run has not ended, but its host cannot continue it.
fn is_lost(outcome: &Outcome) -> bool {
    outcome.result.as_ref().is_err_and(|problem| ["journal-failed", "run-taken", "suspended"].contains(&&*problem.kind))
}

impl Serving {
    fn recover(&mut self, id: &Arc<str>) {
        let taken =
            self.host.workflow_of(id).and_then(|workflow| self.host.recover(&workflow, id, RunOptions::default()));
        match taken {
            Ok(run) => self.wait(run, Job::of(id)),
            // Its host died before it could report this, or another one was quicker.
            Err(RecoverError::Run(RecoveryError::Ended(_)) | RecoverError::Journal(StoreError::Ended(_))) => {}
            Err(error) => say(&format!("refused {id} {}", chain(&error))),
        }
    }

    /// Starts runs until there are enough.
    fn fill(&mut self) {
        while self.runs.len() < self.orders.in_flight && self.next < self.orders.end {
            let job = Job(self.next);
            self.next += 1;
            let workflow = self.workflow(job);
            let options = RunOptions { id: Some(job.id()), ..RunOptions::default() };
            match self.host.start(&workflow, job.inputs(), options) {
                Ok(run) => self.wait(run, job),
                Err(error) => say(&format!("refused {} {}", job.id(), chain(&error))),
            }
        }
    }

    fn workflow(&mut self, job: Job) -> Workflow {
        let (host, server) = (&self.host, self.orders.server);
        let load = || host.parse(&job.file(), &job.workflow(server), "/").unwrap_or_else(|error| panic!("{error}"));
        self.workflows.entry(job.file()).or_insert_with(load).clone()
    }

    fn wait(&mut self, run: RunHandle, job: Job) {
        for (number, body) in job.signals().into_iter().enumerate() {
            // Every host sends each signal again, and it counts once. A run may have ended, or have
            // received all.
            let act = Act::Signal { name: "go".into(), body: Payload::json(&body) };
            let _ = run.inner().act(act, Some(&format!("signal-{number}")));
        }
        self.runs.spawn(async move { run.finished().await });
    }
}

/// An error with all its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text
}

/// A line that a host prints.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Line {
    Up,
    Ended(Job, Value),
    Full,
    Room,
    /// The journal can no longer be written, and why.
    Broken(String),
    /// `failed`, `lost` or `refused`, and the rest of the line.
    Bad(String, String),
}

impl Line {
    /// Reads a line; `None` if it is the test runner's.
    pub(crate) fn read(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "up" => Some(Self::Up),
            "full" => Some(Self::Full),
            "room" => Some(Self::Room),
            "broken" => Some(Self::Broken(rest.to_owned())),
            "ended" => {
                let (id, outputs) = rest.split_once(' ')?;
                Some(Self::Ended(Job::of(id), serde_json::from_str(outputs).ok()?))
            }
            "failed" | "lost" | "refused" => Some(Self::Bad(word.to_owned(), rest.to_owned())),
            _ => None,
        }
    }
}
