//! The other process: this test binary again. It is given a folder with the snapshots and what the
//! uninterrupted guest returned, loads the component anew, compares by itself, and answers with a
//! verdict for each snapshot.

use super::Case;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that names the folder of [`process`].
const FOLDER: &str = "WFHOST_MOVING_FOLDER";
const ORDERS: &str = "orders.json";
/// The name of the file with what the uninterrupted guest returned.
pub(super) const EXPECTED: &str = "expected.json";
const VERDICTS: &str = "verdicts.json";

/// The task of the other process.
#[derive(Serialize, Deserialize)]
struct Orders {
    /// The component.
    name: String,
    moves: Vec<Move>,
}

/// A guest to continue.
#[derive(Serialize, Deserialize)]
pub(super) struct Move {
    /// The step before which it was saved.
    pub(super) before: usize,
    /// The name of the file of its snapshot.
    pub(super) snapshot: String,
    /// The name of the file of a [`super::Expected`].
    pub(super) expected: String,
}

/// What the other process found: for each move the first difference, if there is one.
#[derive(Serialize, Deserialize)]
struct Verdicts {
    process: u32,
    differences: Vec<Option<String>>,
}

fn read<T: DeserializeOwned>(folder: &Path, name: &str) -> T {
    serde_json::from_slice(&std::fs::read(folder.join(name)).expect("the file is there")).expect("it can be read")
}

pub(super) fn write(folder: &Path, name: &str, value: &impl Serialize) {
    std::fs::write(folder.join(name), serde_json::to_vec(value).expect("it can be written")).expect("there is room");
}

/// The other process. Not a test by itself: other tests start it.
#[test]
#[ignore = "is the process to which other tests move guests"]
fn process() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("other tests start it"));
    let Orders { name, moves } = read(&folder, ORDERS);
    let case = Case::of(&name);
    let differences = moves.iter().map(|Move { before, snapshot, expected }| {
        let bytes = Bytes::from(std::fs::read(folder.join(snapshot)).expect("the snapshot is there"));
        case.continue_from(&bytes, *before, &read(&folder, expected)).err()
    });
    write(&folder, VERDICTS, &Verdicts { process: std::process::id(), differences: differences.collect() });
}

/// Moves guests of a folder to another process.
pub(super) fn move_elsewhere(folder: &Path, name: &str, moves: Vec<Move>) -> Vec<Option<String>> {
    let count = moves.len();
    write(folder, ORDERS, &Orders { name: name.to_owned(), moves });
    let mut child = Command::new(std::env::current_exe().expect("this binary has a path"));
    child.args(["--exact", "moving::elsewhere::process", "--ignored", "--test-threads=1"]).env(FOLDER, folder);
    let output = child.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{name}: {said}{}", String::from_utf8_lossy(&output.stderr));
    let Verdicts { process, differences } = read(folder, VERDICTS);
    assert_ne!(process, std::process::id());
    assert_eq!(differences.len(), count);
    differences
}
