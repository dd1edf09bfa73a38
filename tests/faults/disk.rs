//! Disks that are full, that cannot be written, and whose fsync fails, under hosts with 50 runs in
//! flight.

use crate::dice::{self, Dice};
use crate::hosted::{LOST, Line, Orders, REFUSED};
use crate::judge;
use crate::life::{Life, bad, ended};
use crate::server::Server;
use crate::shim::Shim;
use std::time::{Duration, Instant};

/// Longer than anything takes unless it hangs.
const PATIENCE: Duration = Duration::from_mins(1);

struct Rig {
    _folder: tempfile::TempDir,
    server: Server,
    shim: Shim,
    orders: Orders,
}

impl Rig {
    /// This many runs, 50 of them at a time.
    fn new(runs: u64) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let server = Server::start(dice::seed());
        let data = folder.path().join("data");
        let orders =
            Orders { server: server.address, in_flight: 50, first: 0, end: runs, slots: 16, snapshots: true, data };
        Self { shim: Shim::of(&orders.data), _folder: folder, server, orders }
    }

    fn begin(&self) -> Life {
        Life::begin_with(&self.orders, |command| self.shim.put(command))
    }

    /// Waits until the shim has counted this many calls.
    fn wait_for(&self, name: &str, count: u64) {
        let until = Instant::now() + PATIENCE;
        while self.shim.count(name) < count {
            assert!(Instant::now() < until, "{} of {count} {name}", self.shim.count(name));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// All runs in the folder come to their end, and everything is as it should be.
    fn finish(&mut self) {
        judge::inspect(&self.orders.data);
        let (status, lines) = self.begin().end(PATIENCE);
        assert_eq!((status, bad(&lines)), (Some(0), Vec::new()));
        self.judge();
    }

    fn judge(&self) {
        judge::inspect(&self.orders.data);
        assert_eq!(judge::against(&self.orders.data, &self.server, self.orders.end), Vec::<String>::new());
    }
}

fn is_end(line: &Line) -> bool {
    matches!(line, Line::Ended(..))
}

fn within() -> Instant {
    Instant::now() + PATIENCE
}

#[test]
fn a_full_disk_is_reported_and_waited_for() {
    let rig = Rig::new(90);
    let life = rig.begin();
    assert!(life.wait_for(5, is_end, within()));
    rig.shim.set("full", "");
    assert!(life.wait_for(1, |line| *line == Line::Full, within()), "it is reported");
    // It has tried again and again, and what it reports in the meantime was durable before.
    rig.wait_for("failed-writes", 4);
    let lines_so_far = life.lines();
    let durable = judge::ended(&rig.orders.data);
    assert!(ended(&lines_so_far).all(|(job, _)| durable.contains(&job)));
    assert!(!lines_so_far.contains(&Line::Room) && lines_so_far.len() < 90, "{lines_so_far:?}");
    rig.shim.unset("full");
    let (status, lines) = life.end(PATIENCE);
    assert_eq!((status, bad(&lines)), (Some(0), Vec::new()));
    assert_eq!(lines.iter().filter(|line| matches!(line, Line::Full | Line::Room)).count(), 2, "{lines:?}");
    rig.judge();
}

#[test]
fn a_disk_may_be_full_after_any_byte() {
    let seed = dice::seed();
    let mut dice = Dice::new(seed);
    for _ in 0..6 {
        let rig = Rig::new(60);
        // All of it is some 2 MB.
        let bytes = dice.below(1_000_000);
        let life = rig.begin();
        // The components are there then.
        assert!(life.wait_for(1, |line| *line == Line::Up, within()));
        rig.shim.set("bytes", &bytes.to_string());
        rig.wait_for("failed-writes", 2);
        rig.shim.unset("bytes");
        let (status, lines) = life.end(PATIENCE);
        assert_eq!((status, bad(&lines)), (Some(0), Vec::new()), "after {bytes} bytes, WFHOST_SEED={seed}");
        rig.judge();
    }
}

#[test]
fn an_fsync_failure_is_final_for_the_host_but_not_for_its_runs() {
    let mut dice = Dice::new(dice::seed());
    for _ in 0..4 {
        let mut rig = Rig::new(80);
        let life = rig.begin();
        assert!(life.wait_for(1 + dice.below(25) as usize, is_end, within()));
        rig.shim.set("sync-fails", "");
        let (status, lines) = life.end(PATIENCE);
        assert_eq!(status, Some(LOST), "{lines:?}");
        assert_eq!(rig.shim.count("failed-syncs"), 1, "it is never tried again");
        let broken = |line: &Line| matches!(line, Line::Broken(why) if why.contains("journal.db"));
        assert_eq!(lines.iter().filter(|line| broken(line)).count(), 1, "{lines:?}");
        assert!(bad(&lines).iter().all(|line| line.starts_with("lost ")), "{lines:?}");
        // No run was reported to have ended that has not.
        assert!(ended(&lines).all(|(job, outputs)| *outputs == job.outputs()));
        rig.shim.unset("sync-fails");
        let durable = judge::ended(&rig.orders.data);
        for (job, _) in ended(&lines) {
            assert!(durable.contains(&job), "{} was reported but is not durable", job.id());
        }
        rig.orders.first = judge::inspect(&rig.orders.data).next;
        rig.finish();
    }
}

/// A host that cannot register starts no run, and does not try again.
#[test]
fn an_fsync_failure_while_a_host_registers_is_final_too() {
    let mut rig = Rig::new(3);
    let (status, _) = rig.begin().end(PATIENCE);
    assert_eq!(status, Some(0));
    (rig.orders.first, rig.orders.end) = (3, 9);
    rig.shim.set("sync-fails", "");
    let (_, lines) = rig.begin().end(PATIENCE);
    assert_eq!(rig.shim.count("failed-syncs"), 1, "{lines:?}");
    assert_eq!(lines.iter().filter(|line| matches!(line, Line::Broken(_))).count(), 1, "{lines:?}");
    assert_eq!(bad(&lines).iter().filter(|line| line.starts_with("refused ")).count(), 6, "{lines:?}");
    rig.shim.unset("sync-fails");
    rig.finish();
}

#[test]
fn a_folder_that_cannot_be_written_is_refused_and_named() {
    let mut rig = Rig::new(10);
    for (fault, why) in [("read-only", "Read-only file system"), ("full", "full")] {
        rig.shim.set(fault, "");
        let (status, lines) = rig.begin().end(PATIENCE);
        let bad = bad(&lines);
        assert_eq!(status, Some(REFUSED), "{fault}: {bad:?}");
        assert!(bad.iter().any(|line| line.contains(rig.orders.data.to_str().unwrap())), "{bad:?}");
        assert!(bad.iter().any(|line| line.contains(why)), "{bad:?}");
        rig.shim.unset(fault);
    }
    rig.finish();

    // What is in the folder can be read.
    rig.shim.set("read-only", "");
    let (status, lines) = rig.begin().end(PATIENCE);
    assert_eq!((status, lines.len()), (Some(REFUSED), 1), "{lines:?}");
}
