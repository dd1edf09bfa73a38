//! `wfhost` itself: killed, on full disks, and with a failing fsync.

use crate::dice::Dice;
use crate::hosted::Orders;
use crate::server::Server;
use crate::shim::Shim;
use crate::work::Job;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A workflow file and a data folder.
struct Place {
    folder: tempfile::TempDir,
    server: Server,
}

/// Longer than anything takes unless it hangs.
const PATIENCE: Duration = Duration::from_mins(1);

impl Place {
    fn new(job: Job) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        // It may misbehave: the run has its retries.
        let server = Server::start(7);
        std::fs::write(folder.path().join("flow.yaml"), job.workflow(server.address)).unwrap();
        Self { folder, server }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(&self.data(), arguments);
        command.current_dir(self.folder.path());
        command
    }

    fn run(&self, job: Job) -> Command {
        let id = job.id();
        let input = format!("n={}", job.inputs()["n"]);
        let arguments = ["run", "flow.yaml", "--run-id", &id, "--input", &input, "--allow-address", "127.0.0.0/8"];
        self.command(&arguments)
    }
}

/// Starts `wfhost resume --all` to recover what there is, and `wfhost run` to start another run
/// beside it, and kills both.
///
/// # Errors
/// Returns what one of them did wrong, if it ended before the kill.
pub(crate) fn kill_while_it_takes_up(
    dice: &mut Dice,
    folder: &Path,
    orders: &Orders,
    server: &Server,
) -> Result<(), String> {
    let job = Job(orders.first);
    let flow = folder.join("flow.yaml");
    std::fs::write(&flow, job.workflow(server.address)).unwrap();
    let (id, input) = (job.id(), format!("n={}", job.inputs()["n"]));
    let takes_up = ["resume", "--all", "-q", "--slots", "16", "--allow-address", "127.0.0.0/8"];
    let begins =
        ["run", flow.to_str().unwrap(), "-q", "--run-id", &id, "--input", &input, "--allow-address", "127.0.0.0/8"];
    let requests = server.requests();
    let children = [&takes_up[..], &begins[..]].map(|arguments| command(&orders.data, arguments).spawn().unwrap());
    if dice.below(4) > 0 {
        server.wait_for(requests + 1 + dice.below(60), Instant::now() + Duration::from_secs(3));
    }
    std::thread::sleep(Duration::from_micros(dice.below(100_000)));
    for mut child in children {
        // It may have ended already.
        let _ = child.kill();
        let output = child.wait_with_output().unwrap();
        let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if output.status.code().is_some_and(|code| code != 0) {
            return Err(format!("wfhost ended with {:?}: {out}{said}", output.status));
        }
    }
    Ok(())
}

fn command(data: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wfhost"));
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    command.env("WFHOST_CACHE", cache).env("WFHOST_DATA", data);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn wait_for(shim: &Shim, name: &str, count: u64) {
    let until = Instant::now() + PATIENCE;
    while shim.count(name) < count {
        assert!(Instant::now() < until, "{} of {count} {name}", shim.count(name));
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_full_disk_is_reported_and_the_run_continues_when_there_is_room() {
    let job = Job::order(0);
    let place = Place::new(job);
    // The folder exists, with its tables and components.
    let first = place.run(Job::order(1)).output().unwrap();
    assert!(first.status.success(), "{first:?}");
    for quiet in [false, true] {
        let job = Job::order(if quiet { 2 } else { 0 });
        let shim = Shim::of(&place.data());
        let mut command = place.run(job);
        if quiet {
            command.arg("-q");
        }
        let requests = place.server.requests();
        let child = shim.put(&mut command).spawn().unwrap();
        place.server.wait_for(requests + 1, Instant::now() + PATIENCE);
        shim.set("full", "");
        wait_for(&shim, "failed-writes", 2);
        shim.unset("full");
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let outputs: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(outputs, job.outputs());
        let places = ["is full: all runs wait until there is space", "the disk has space again: runs continue"];
        assert!(places.iter().all(|place| said.contains(place)), "{said}");
    }
}

#[test]
fn an_fsync_failure_ends_the_program_and_the_run_is_recovered() {
    let job = Job::order(0);
    let place = Place::new(job);
    let shim = Shim::of(&place.data());
    let child = shim.put(&mut place.run(job)).spawn().unwrap();
    // The request has been sent, so what caused it is durable.
    place.server.wait_for(1, Instant::now() + PATIENCE);
    shim.set("sync-fails", "");
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), shim.count("failed-syncs")), (Some(1), 1), "{said}");
    assert!(output.stdout.is_empty(), "nothing that is not durable is printed");
    assert!(said.contains("The journal cannot be written any more") && said.contains("wfhost resume"), "{said}");

    let arguments = ["resume", &job.id(), "--allow-address", "127.0.0.0/8"];
    let resumed = place.command(&arguments).output().unwrap();
    assert!(resumed.status.success(), "{resumed:?}");
    assert_eq!(serde_json::from_slice::<Value>(&resumed.stdout).unwrap(), job.outputs());
    assert_eq!(place.server.against(&job.effects()), Vec::<String>::new());
}
