//! Processes that store, release and sweep blobs are killed, again and again.

use super::tests::{files, put, read, sqlite};
use crate::journal::Journal as _;
use crate::run::BlobBounds;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const FOLDER: &str = "WFHOST_TEST_BLOBS";

/// The processes that are killed together.
const PROCESSES: usize = 2;

/// The content with this number: contents come again, in both processes.
fn content(number: u64) -> Vec<u8> {
    vec![number as u8; 1 + (number as usize * 7_919) % 300_000]
}

/// The process that is killed. As a test of its own it does nothing.
#[test]
fn stores_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let journal = sqlite(Path::new(&folder));
    let blobs = journal.blobs().unwrap();
    let own = std::process::id();
    for number in 0_u64.. {
        let run = format!("run {}", number % 3);
        let blob = put(&*blobs, &run, &content(number % 40));
        // One write, so that a line is whole. It stands for the record that names the blob.
        let _ = std::io::stdout().lock().write_all(format!("{run}={}\n", blob.digest).as_bytes());
        let passing = format!("passing {own}");
        put(&*blobs, &passing, &content((number + 3) % 40));
        match number % 4 {
            0 => blobs.release(&passing).unwrap(),
            1 => drop(blobs.sweep().unwrap()),
            // An upload that is never finished.
            2 => std::mem::forget(blobs.create(&passing, &BlobBounds::default()).unwrap()),
            _ => {}
        }
    }
}

fn begin(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "journal::blobs::killed::stores_until_it_is_killed", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn what_was_answered_is_there_after_any_kill_and_a_sweep_leaves_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut answered: BTreeSet<(String, String)> = BTreeSet::new();
    for round in 0..6 {
        let mut children: Vec<Child> = (0..PROCESSES).map(|_| begin(folder.path())).collect();
        let outputs: Vec<_> = children.iter_mut().map(|child| BufReader::new(child.stdout.take().unwrap())).collect();
        std::thread::scope(|scope| {
            let readers: Vec<_> = outputs
                .into_iter()
                .zip(&mut children)
                .map(|(output, child)| {
                    scope.spawn(move || {
                        let mut named = BTreeSet::new();
                        for line in output.lines().map_while(Result::ok) {
                            let Some((run, digest)) = line.split_once('=') else { continue };
                            named.insert((run.to_owned(), digest.to_owned()));
                            // At another moment each time.
                            if named.len() == 5 + 11 * round {
                                child.kill().unwrap();
                            }
                        }
                        named
                    })
                })
                .collect();
            for reader in readers {
                answered.extend(reader.join().unwrap());
            }
        });
        for child in &mut children {
            assert!(!child.wait().unwrap().success());
        }
        let journal = sqlite(folder.path());
        let blobs = journal.blobs().unwrap();
        blobs.sweep().unwrap();
        for (run, digest) in &answered {
            let bytes = read(&*blobs, run, digest).unwrap();
            assert_eq!(format!("blake3:{}", blake3::hash(&bytes).to_hex()), *digest);
        }
        let checked = blobs.check(10).unwrap();
        assert!(checked.findings.is_empty(), "{checked:?}");
        let path = folder.path().join("blobs");
        assert_eq!(files(&path).len() as u64, checked.blobs, "round {round}: nothing is stored that is not held");
        assert_eq!(std::fs::read_dir(path.join("new")).unwrap().count(), 0, "round {round}");
    }
}
