//! The command line as a person sees it: the real program, real components, real output.

mod acknowledged;
mod again;
mod authored;
mod backups;
mod batched;
mod blobs;
mod building;
mod caching;
mod cases;
mod checked;
mod children;
mod commands;
mod compiling;
mod completions;
mod developing;
mod documents;
mod durable;
mod endings;
mod examples;
mod failing;
mod following;
mod grouped;
mod guarded;
mod inbox;
mod kept;
mod locked;
mod orphaned;
mod registry;
mod remote;
mod repeating;
mod running;
mod scheduled;
mod scripts;
mod secrets;
mod served;
mod served_secrets;
mod settings;
#[path = "../faults/shim.rs"]
mod shim;
mod shimmed;
#[path = "../guests/slow.rs"]
mod slow;
mod steering;
mod stopped;
mod support;
mod suspended;
mod terminal;
mod tested;
mod timeouts;
mod trusted;
mod uncertain;
mod undone;
mod upgraded;
mod waiting;
#[path = "../integration/wat_guest.rs"]
mod wat_guest;
mod why;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The program, at the root of the project, with a cache that all tests of this run share, and a
/// data folder of its own.
fn wfhost(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the program starts")
}

fn command(arguments: &[&str]) -> Command {
    command_in(&data(), arguments)
}

/// The same with this data folder.
fn command_in(data: &Path, arguments: &[&str]) -> Command {
    // A test of hours may name a copy, which no build replaces.
    let program = std::env::var_os("WFHOST_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_wfhost").into());
    let mut command = Command::new(program);
    command.current_dir(root()).env("WFHOST_CACHE", cache()).env("WFHOST_DATA", data).env_remove("NO_COLOR");
    // The person who runs the tests may have settings too.
    command.env("WFHOST_CONFIG", "");
    for variable in
        ["WFHOST_ALLOW_ADDRESS", "WFHOST_PROFILE", "WFHOST_SLOTS", "WFHOST_WORKERS", "WFHOST_SERVER", "WFHOST_TOKEN"]
    {
        command.env_remove(variable);
    }
    command.args(arguments);
    command
}

/// A data folder that nobody else has. Those of earlier tests are removed.
fn data() -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    static ALL: OnceLock<PathBuf> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("data");
        let _ = std::fs::remove_dir_all(&all);
        all
    });
    all.join(NEXT.fetch_add(1, Relaxed).to_string())
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn cache() -> PathBuf {
    static CACHE: OnceLock<PathBuf> = OnceLock::new();
    CACHE.get_or_init(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache")).clone()
}

/// A workflow file `flow.yaml` with that text, in a folder of its own.
fn scratch(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flow.yaml");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

/// Status and both streams as one text, with what differs from run to run replaced.
fn transcript(output: &Output) -> String {
    let code = output.status.code().map_or("killed".to_owned(), |code| code.to_string());
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    format!("exit {code}\n--- stdout\n{stdout}--- stderr\n{stderr}")
}

/// Compares what a command prints with the snapshot of that name, with times, digests and ids of
/// runs replaced.
fn assert_transcript(name: &str, output: &Output) {
    assert_transcript_in(Path::new("/no/folder"), name, output);
}

/// The same, without the path of a folder.
fn assert_transcript_in(folder: &Path, name: &str, output: &Output) {
    assert_text_in(folder, name, &transcript(output));
}

/// The same with a text.
fn assert_text(name: &str, text: &str) {
    assert_text_in(Path::new("/no/folder"), name, text);
}

fn assert_text_in(folder: &Path, name: &str, text: &str) {
    let folder = format!("{}/", folder.display());
    let filters = vec![
        (folder.as_str(), ""),
        // Said only of what took long.
        (r"(?m)^compil(ing|ed) .*\n", ""),
        (env!("CARGO_MANIFEST_DIR"), "[root]"),
        (r"room for \d+", "room for [n]"),
        (r"processor: \d+ here", "processor: [n] here"),
        (r"in (under )?\d+(\.\d+)? m?s\b", "in [time]"),
        (r"\b[0-9a-f]{12}-[0-9a-f]{10}\b", "[run]"),
        (r"blake3:[0-9a-f]{64}", "[digest]"),
    ];
    insta::with_settings!({ filters => filters, prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, text);
    });
}
