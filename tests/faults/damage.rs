//! Damaged files, clocks that jump, and several hosts on one folder.

use crate::dice::{self, Dice};
use crate::hosted::{Line, Orders, REFUSED};
use crate::judge;
use crate::life::{Life, bad, ended};
use crate::server::Server;
use crate::shim::Shim;
use crate::work::Job;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longer than anything takes unless it hangs.
const PATIENCE: Duration = Duration::from_mins(1);

struct Rig {
    folder: tempfile::TempDir,
    server: Server,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        Self { folder, server: Server::start(dice::seed()) }
    }

    /// A host that starts the runs with these numbers, and recovers what it finds.
    fn orders(&self, first: u64, end: u64) -> Orders {
        let data = self.folder.path().join("data");
        Orders { data, server: self.server.address, in_flight: 50, first, end, slots: 16, snapshots: true }
    }

    /// The remaining host comes to its end, and everything is as it should be.
    fn finish(&self, runs: u64) {
        self.finish_where(runs, |_| false);
    }

    /// The same, except for what the ledger is expected to report.
    fn finish_where(&self, runs: u64, is_foreseen: impl Fn(&str) -> bool) {
        let orders = self.orders(0, 0);
        let (status, lines) = Life::begin(&orders).end(PATIENCE);
        assert_eq!(status, Some(0), "{lines:?}");
        judge::inspect(&orders.data);
        let jobs: Vec<_> = (0..runs).map(Job).collect();
        let against = bad(&lines).into_iter().chain(judge::against_runs(&orders.data, &self.server, &jobs));
        let unforeseen: Vec<_> = against.filter(|line| !is_foreseen(line)).collect();
        assert!(unforeseen.is_empty(), "{unforeseen:#?}");
    }
}

fn within() -> Instant {
    Instant::now() + PATIENCE
}

fn is_up(line: &Line) -> bool {
    *line == Line::Up
}

fn is_end(line: &Line) -> bool {
    matches!(line, Line::Ended(..))
}

fn number(file: &File, at: u64, read: fn([u8; 4]) -> u32) -> u64 {
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, at).unwrap();
    read(bytes).into()
}

/// Tears what a host wrote last: garbage where the next commit would be, or over the last commits
/// too.
fn tear(data: &Path, dice: &mut Dice, loses: bool) {
    let mut wal = File::options().read(true).write(true).open(data.join("journal.db-wal")).unwrap();
    // The WAL-index: https://sqlite.org/walformat.html
    let index = File::open(data.join("journal.db-shm")).unwrap();
    let (frames, checkpointed) = (number(&index, 16, u32::from_ne_bytes), number(&index, 96, u32::from_ne_bytes));
    let frame = 24 + number(&wal, 8, u32::from_be_bytes);
    let (begin, end) = (32 + checkpointed * frame, 32 + frames * frame);
    // Checkpointed pages are synced.
    let at = if loses { end - dice.below((end - begin).min(8 * frame) + 1) } else { end };
    if loses && dice.below(2) == 0 {
        wal.set_len(at).unwrap();
    } else {
        let rubbish: Vec<u8> = (0..dice.below(9_000)).map(|_| dice.roll() as u8).collect();
        wal.seek(SeekFrom::Start(at)).and_then(|_| wal.write_all(&rubbish)).unwrap();
    }
}

#[test]
fn a_torn_commit_is_ignored() {
    torn(false);
}

/// A disk that lies: then an effect may happen again under another key, but every run ends, with
/// the right result.
#[test]
fn commits_lost_by_the_disk_are_made_again() {
    torn(true);
}

fn torn(loses: bool) {
    let seed = dice::seed();
    let mut dice = Dice::new(seed);
    let rig = Rig::new();
    let mut orders = rig.orders(0, u64::MAX);
    println!("WFHOST_SEED={seed}");
    for _ in 0..5 {
        let life = Life::begin(&orders);
        let begun = rig.server.requests();
        assert!(life.wait_for(1, is_up, within()));
        rig.server.wait_for(begun + 1 + dice.below(60), within());
        assert_eq!(bad(&life.kill()), Vec::<String>::new());
        tear(&orders.data, &mut dice, loses);
        orders.first = judge::inspect(&orders.data).next;
    }
    rig.finish_where(orders.first, |line| loses && line.contains(" keys: "));
}

#[test]
fn a_damaged_record_affects_only_its_run() {
    let rig = Rig::new();
    let mut orders = rig.orders(0, 60);
    // A host killed just when all of its runs are young has no run with a record in its middle.
    let spoilt = loop {
        let life = Life::begin(&orders);
        assert!(life.wait_for(5, is_end, within()));
        life.kill();
        if let Some(spoilt) = judge::damage(&orders.data) {
            break spoilt;
        }
        orders = rig.orders(judge::inspect(&orders.data).next, 60);
    };
    let (status, lines) = Life::begin(&rig.orders(judge::inspect(&orders.data).next, 60)).end(PATIENCE);
    let bad = bad(&lines);
    assert_eq!((status, bad.len()), (Some(0), 1), "{bad:?}");
    assert!(bad[0].starts_with(&format!("refused {} ", spoilt.id())) && bad[0].contains("damaged"), "{bad:?}");
    let id = spoilt.id();
    let is_spoilt = |line: &str| line.split([' ', ':', '/']).any(|word| word == id);
    rig.finish_where(60, is_spoilt);
}

#[test]
fn hosts_share_a_folder_and_none_takes_anothers_runs() {
    let rig = Rig::new();
    let orders = rig.orders(0, 50);
    let first = Life::begin(&orders);
    assert!(first.wait_for(1, is_up, within()));
    let second = Life::begin(&rig.orders(50, 100));
    assert!(second.wait_for(1, is_up, within()));
    // Each found the other's runs, and did not touch them.
    let left = |line: &Line| matches!(line, Line::Bad(word, why) if word == "refused" && why.contains("belongs to a host that is running"));
    let others: Vec<_> =
        second.lines().into_iter().filter(|line| matches!(line, Line::Bad(..)) && !left(line)).collect();
    assert!(others.is_empty(), "{others:?}");

    // A stopped host is alive: it holds its lock.
    first.signal("STOP");
    // In the middle of a transaction it blocks all others, and nothing can prevent that.
    while !judge::is_free(&orders.data) {
        first.signal("CONT");
        std::thread::sleep(Duration::from_millis(5));
        first.signal("STOP");
    }
    let (status, lines) = Life::begin(&rig.orders(0, 0)).end(PATIENCE);
    assert_eq!((status, ended(&lines).count()), (Some(0), 0), "{lines:?}");
    assert!(lines.iter().all(|line| *line == Line::Up || left(line)), "{lines:?}");
    first.signal("CONT");

    first.kill();
    let (status, lines) = Life::begin(&rig.orders(0, 0)).end(PATIENCE);
    assert_eq!(status, Some(0));
    assert!(ended(&lines).all(|(job, outputs)| job.0 < 50 && *outputs == job.outputs()), "{lines:?}");
    let (status, lines) = second.end(PATIENCE);
    assert_eq!(status, Some(0), "{lines:?}");
    assert!(ended(&lines).all(|(job, outputs)| job.0 >= 50 && *outputs == job.outputs()), "{lines:?}");
    let begun = judge::inspect(&orders.data);
    assert_eq!((begun.unfinished, begun.next), (0, 100));
    // The first may have died before its last runs were durable: no host knows of them.
    let there: Vec<_> = (0..100).map(Job).filter(|job| judge::ended(&orders.data).contains(job)).collect();
    assert_eq!(judge::against_runs(&orders.data, &rig.server, &there), Vec::<String>::new());
}

#[test]
fn a_clock_jump_neither_loses_nor_blocks_a_run() {
    let rig = Rig::new();
    let mut orders = rig.orders(0, u64::MAX);
    let shim = Shim::of(&orders.data);
    // Seconds before and during the life of a host: days ahead and behind.
    for (before, within_life) in [(0, 200_000), (-200_000, 90_000), (400_000, -400_000), (-90_000, 0)] {
        shim.set("clock", &format!("{before}"));
        let life = Life::begin_with(&orders, |command| shim.put(command));
        assert!(life.wait_for(10, is_end, within()));
        shim.set("clock", &format!("{within_life}"));
        assert!(life.wait_for(60, is_end, within()), "timers go by what passes");
        assert_eq!(bad(&life.kill()), Vec::<String>::new());
        orders.first = judge::inspect(&orders.data).next;
    }
    rig.finish(orders.first);
}

#[test]
fn a_store_of_a_newer_release_is_refused() {
    let rig = Rig::new();
    let orders = rig.orders(0, 3);
    let (status, _) = Life::begin(&orders).end(PATIENCE);
    assert_eq!(status, Some(0));
    let before = judge::set_format(&orders.data, 9_999);
    let (status, lines) = Life::begin(&orders).end(PATIENCE);
    assert_eq!(status, Some(REFUSED));
    let bad = bad(&lines);
    assert!(bad.len() == 1 && bad[0].contains("format 9999") && bad[0].contains("journal.db"), "{bad:?}");
    judge::set_format(&orders.data, before);
    rig.finish(3);
}
