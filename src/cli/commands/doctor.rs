//! `wfhost doctor`: what this machine provides, and whether a run would succeed on it.

use crate::base::processors;
use crate::cli::args::data::DataArguments;
use crate::cli::args::host::HostArguments;
use crate::cli::args::settings::Settings;
use crate::cli::args::values::SLOTS_DEFAULT;
use crate::cli::exit::Exit;
use crate::cli::report::error::{UserError, kind};
use crate::cli::report::journal::{ANOTHER_FOLDER, FULL, FULL_HINT, RECREATED_HINT, RESTORE_HINT, gone, removal_hint};
use crate::cli::report::warnings::exposed;
use crate::cli::store::{Ownership, Runs};
use crate::cli::terminal::{print, print_json, printable};
use crate::guest::slots_max;
use crate::host::control::Client;
use crate::host::{Host, HostError, LoadError, RunOptions, exposed as exposed_data};
use crate::journal::{self, Filter, JournalFile, Stored, layout};
use clap::Args;
use serde_json::{Map, Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost doctor
  wfhost doctor --slots 1000 --json | jq .problems

Exit codes: 0 all is well, 1 there are problems.")]
pub(in crate::cli) struct Arguments {
    /// Print JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
    #[command(flatten)]
    pub(in crate::cli) host: HostArguments,
}

/// Damaged items listed of each kind. Arbitrary: some lines.
const DAMAGES_MAX: u32 = 10;

/// The newest runs that are read to see whether they are damaged. Arbitrary.
const RUNS_READ_MAX: u32 = 1_000;

/// At most this many of their records are read. Arbitrary: a second or so.
const RECORDS_READ_MAX: u64 = 100_000;

/// Bytes written as a probe: more than a transaction of a small run takes.
const PROBE_BYTES: usize = 64 << 10;

/// Free bytes below which a disk is reported as nearly full. Arbitrary: the journals of some
/// thousand small runs.
const FREE_BYTES_MIN: u64 = 64 << 20;

/// A workflow that needs nothing but the host itself: an expression in its sandbox, and a worker.
const SELF_TEST: &str =
    "steps: [{ id: sum, set: \"${ [1, 2] | add }\" }]\noutputs: { sum: \"${ .steps.sum.output }\" }\n";

pub(in crate::cli) fn doctor(
    command: &Arguments,
    settings: &Settings,
    unusable: Option<UserError>,
) -> anyhow::Result<Exit> {
    let mut problems = Vec::new();
    problems.extend(unusable.map(|refused| Problem::of(refused, "correct the file, or ignore it with --config ''")));
    let engine = &command.host.engine;
    let mut report = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "processors": processors(),
        "kernel": {
            "vm.max_map_count": read_number("/proc/sys/vm/max_map_count"),
            "vm.overcommit_memory": read_number("/proc/sys/vm/overcommit_memory"),
        },
        "settings": settings.to_json(),
    });
    let asked = engine.slots.unwrap_or(SLOTS_DEFAULT);
    match engine.builder(SLOTS_DEFAULT).workers(processors()).build() {
        Ok(host) => examine(&host, asked, command, &mut report, &mut problems),
        Err(error) => problems.push(unbuildable(error)),
    }
    report["data"] = data(&command.data, &mut problems);
    // Build the pool of a service too, so that kernel limits show here.
    let most = slots_max();
    let service = engine.cache.builder(most).workers(1).build();
    report["service"] =
        json!({ "slots-asked": most, "slots": service.as_ref().map(|host| host.guests().slots()).ok() });
    if let Ok(given) = service.map(|host| host.guests().slots())
        && given < most
    {
        problems.push(Problem::slots("a service", given, most));
    }
    let verdict = match problems.len() {
        0 => "all well".to_owned(),
        1 => "1 problem".to_owned(),
        count => format!("{count} problems"),
    };
    let is_well = problems.is_empty();
    if command.json {
        report["problems"] = problems.iter().map(|one| json!({ "message": one.message, "hint": one.hint })).collect();
        report["verdict"] = json!(verdict);
        print_json(&report)?;
    } else {
        let mut lines = String::new();
        describe(&mut lines, "", &report);
        for Problem { message, hint } in &problems {
            lines.push_str(&format!("\nproblem: {message}\nhint: {hint}\n"));
        }
        lines.push_str(&format!("\n{verdict}\n"));
        print(&printable(&lines))?;
    }
    Ok(if is_well { Exit::Success } else { Exit::Failed })
}

/// Something that would fail, or work less well than it could, and what to do about it.
struct Problem {
    message: String,
    hint: String,
}

impl Problem {
    fn of(refused: UserError, hint: &str) -> Self {
        Self { hint: refused.hint.clone().unwrap_or_else(|| hint.to_owned()), message: refused.in_full() }
    }

    fn slots(ownership: &str, given: u32, asked: u32) -> Self {
        Self {
            message: format!("{ownership} gets {given} of {asked} slots"),
            hint: "for more: sysctl -w vm.max_map_count=1000000, and no limit on address space (ulimit -v)".to_owned(),
        }
    }
}

fn unbuildable(error: HostError) -> Problem {
    let hint = match &error {
        HostError::Guests(_) => {
            "try --profile dense, which takes 64 MiB of address space per guest instead of 4 GiB; check ulimit -v"
        }
        _ => "check the limits on processes and threads: ulimit -u",
    };
    Problem { message: format!("no run can start: {:#}", anyhow::Error::from(error)), hint: hint.to_owned() }
}

/// Examines a host like that of `run`.
fn examine(host: &Host, asked: u32, command: &Arguments, report: &mut Value, problems: &mut Vec<Problem>) {
    let guests = host.guests();
    let (capacity, cache) = (guests.capacity(), guests.cache());
    report["pool"] = json!({
        "profile": guests.options().profile,
        "slots-asked": asked,
        "slots": guests.slots(),
        "core-instances": capacity.core_instances,
        "memories": capacity.memories,
        "tables": capacity.tables,
        "slice-fuel": guests.options().slice_fuel,
    });
    if guests.slots() < asked {
        problems.push(Problem::slots("a run", guests.slots(), asked));
    }
    report["snapshots"] = json!(guests.options().snapshots);
    report["cache"] = match cache.dir() {
        Ok(folder) => {
            json!({ "folder": folder, "bytes": cache.bytes(), "bytes-max": guests.options().cache_bytes_max })
        }
        Err(reason) => json!({ "off": reason }),
    };
    let kept = cache.dir().map_err(str::to_owned).and_then(|_| cache.probe());
    if let Err(reason) = kept
        && !command.host.engine.cache.is_off()
    {
        problems.push(Problem {
            message: format!("compiled code is not stored, so each start compiles again: {reason}"),
            hint: "--cache DIR or WFHOST_CACHE names another folder".to_owned(),
        });
    }
    report["handlers"] = json!(host.handlers());
    let tested = self_test(host);
    report["expressions"] =
        json!({ "engine": "jq 1.8.2", "digest": host.expressions_digest(), "works": tested.is_ok() });
    if let Err(reason) = tested {
        problems.push(Problem {
            message: format!("a workflow of one expression failed: {reason}"),
            hint: "the host or the machine is at fault: please report it".to_owned(),
        });
    }
}

/// The folder of durable runs: what is in it, and whether a run could be written there.
fn data(arguments: &DataArguments, problems: &mut Vec<Problem>) -> Value {
    let refused = |mut refused: UserError| {
        refused.title = format!("no run can be durable: {}", refused.title);
        Problem::of(refused, "--data DIR or WFHOST_DATA names another folder")
    };
    let folder = match arguments.required() {
        Ok(folder) => folder,
        Err(error) => {
            problems.push(refused(error));
            return json!({ "off": "there is no folder" });
        }
    };
    let mut report = json!({ "folder": folder });
    let looked = |runs: Runs| {
        let mut contents = contents(&runs)?;
        let mut damaged = damage(&runs)?;
        damaged.extend(torn_logs(&runs)?);
        damaged.extend(components(&runs)?);
        damaged.extend(blobs(&runs, &mut contents)?);
        Ok((contents, damaged))
    };
    match arguments.open().and_then(|runs| runs.map(looked).transpose()) {
        Ok(Some((contents, damage))) => {
            report["store"] = contents;
            problems.extend(damage);
        }
        Ok(None) => {
            let is_lost = journal::is_lost(&folder).unwrap_or(false);
            report["store"] = json!(if is_lost { "gone" } else { "nothing was run yet" });
            let message = || gone(&folder.join(layout::JOURNAL));
            problems.extend(is_lost.then(|| Problem { message: message(), hint: RECREATED_HINT.to_owned() }));
        }
        Err(error) => problems.push(refused(error)),
    }
    if let Some(reason) = exposed_data(&folder) {
        problems.push(Problem { message: exposed(&reason), hint: ANOTHER_FOLDER.to_owned() });
    }
    // The nearest existing ancestor is where the folder would be created.
    if let Some(place) = folder.ancestors().find(|place| place.exists()) {
        report["free-bytes"] = json!(free_bytes(place));
        problems.extend(unwritable(place, refused));
    }
    report
}

/// The problem of a folder that cannot be written, or not for long.
fn unwritable(folder: &Path, refused: impl Fn(UserError) -> Problem) -> Option<Problem> {
    let is_stalled = || Client::hosts(folder).is_ok_and(|hosts| hosts.iter().any(Client::is_stalled));
    let full = || Problem { message: FULL.to_owned(), hint: FULL_HINT.to_owned() };
    match probe(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull => Some(full()),
        Err(error) => Some(refused(UserError::new(kind::JOURNAL, format!("{}: {error}", folder.display())))),
        Ok(()) if is_stalled() => Some(full()),
        Ok(()) => free_bytes(folder).and_then(nearly_full),
    }
}

/// The problem of little free space, if there is one.
fn nearly_full(free: u64) -> Option<Problem> {
    let message = || format!("the disk with the data folder is nearly full: {} MiB are free", free >> 20);
    let hint = || "runs wait while the disk is full; free some space".to_owned();
    (free < FREE_BYTES_MIN).then(|| Problem { message: message(), hint: hint() })
}

/// Bytes that a user may still write to the file system of a folder. `None` if unknown.
fn free_bytes(folder: &Path) -> Option<u64> {
    let stats = rustix::fs::statvfs(folder).ok()?;
    Some(stats.f_bavail.saturating_mul(stats.f_frsize))
}

fn contents(runs: &Runs) -> Result<Value, UserError> {
    let count = |ended| runs.store.count(&Filter { ended, ..Filter::default() });
    let bytes = |name: &str| std::fs::metadata(runs.folder.join(name)).map_or(0, |file| file.len());
    let components = std::fs::read_dir(runs.folder.join(layout::COMPONENTS)).into_iter().flatten().flatten();
    let components: Vec<u64> = components.filter_map(|file| Some(file.metadata().ok()?.len())).collect();
    Ok(json!({
        "format": runs.store.file().map(JournalFile::format).transpose()?,
        "runs": count(None)?,
        "unfinished": count(Some(false))?,
        "journal-bytes": bytes(layout::JOURNAL) + bytes(layout::JOURNAL_WAL),
        "components": components.len(),
        "component-bytes": components.iter().sum::<u64>(),
    }))
}

/// What is damaged: the file, or runs in it.
fn damage(runs: &Runs) -> Result<Vec<Problem>, UserError> {
    let mut problems = Vec::new();
    let found = runs.store.file().map(|file| file.check(DAMAGES_MAX)).transpose()?.unwrap_or_default();
    if let Some(first) = found.first() {
        let more = if found.len() > 1 { format!(", and {} more", found.len() - 1) } else { String::new() };
        let first = first.split_whitespace().collect::<Vec<_>>().join(" ");
        let journal = runs.folder.join(layout::JOURNAL);
        problems.push(Problem {
            message: format!("{} is damaged: {first}{more}", journal.display()),
            hint: format!("{RESTORE_HINT}; {ANOTHER_FOLDER}"),
        });
    }
    let (mut damaged, mut records) = (Vec::new(), 0);
    for run in runs.store.list(&Filter { limit: Some(RUNS_READ_MAX), ..Filter::default() })? {
        records += run.records;
        let is_read = records <= RECORDS_READ_MAX;
        if run.damage.is_some() || is_read && is_unreadable(runs, &run)? {
            damaged.push(run.id);
        }
    }
    if let Some(first) = damaged.first() {
        let listed: Vec<&str> = damaged.iter().take(DAMAGES_MAX as usize).map(|id| &**id).collect();
        let more = if damaged.len() > listed.len() { ", and more" } else { "" };
        let verb = if damaged.len() == 1 { "run is" } else { "runs are" };
        let message = format!("{} {verb} damaged: {}{more}", damaged.len(), listed.join(", "));
        let hint = format!("`wfhost status {first}` shows what is wrong; {}", removal_hint(first));
        problems.push(Problem { message, hint });
    }
    Ok(problems)
}

/// Returns whether a run cannot be read. The damage is noted in the store, so that lists show it
/// too.
fn is_unreadable(runs: &Runs, run: &Stored) -> Result<bool, UserError> {
    let damage =
        || -> Result<_, UserError> { Ok(runs.try_manifest(&run.id)?.err().or(runs.each_record(&run.id, drop)?.err())) };
    match damage() {
        Ok(Some(why)) => {
            if !matches!(runs.ownership(run)?, Ownership::Owned(_)) {
                // If the note cannot be written, lists do not show it.
                let _ = runs.store.note_damage(&run.id, &why);
            }
            Ok(true)
        }
        Ok(None) => Ok(false),
        // It may have been removed in the meantime.
        Err(_) => Ok(runs.store.run(&run.id)?.is_some()),
    }
}

/// Logs of SQLite that were found damaged.
fn torn_logs(runs: &Runs) -> Result<Vec<Problem>, UserError> {
    let problem = |(path, commits): (PathBuf, u64)| {
        let kept = path.display();
        let message = match commits {
            0 => format!(
                "the journal's log was damaged or missing: the last writes before that are lost; what \
                remained of the log is in {kept}"
            ),
            1 => format!("the journal was damaged: the last transaction before that is not in it, but in {kept}"),
            _ => format!(
                "the journal was damaged: the last {commits} transactions before that are not in it, but in {kept}"
            ),
        };
        Problem { message, hint: format!("{RESTORE_HINT}; or remove that file if nothing is missing") }
    };
    let torn = runs.store.file().map(JournalFile::torn).transpose()?.unwrap_or_default();
    Ok(torn.into_iter().map(problem).collect())
}

/// Stored components of runs that cannot be used.
fn components(runs: &Runs) -> Result<Vec<Problem>, UserError> {
    let problem = |(hash, run): (String, Arc<str>)| {
        let error = runs.store.component(&hash).err()?;
        Some(Problem {
            message: format!("a stored component of runs, {run} among them, cannot be used: {error}"),
            hint: "put a copy of the file there; running the workflow with the original component does so too"
                .to_owned(),
        })
    };
    Ok(runs.store.components_named()?.into_iter().filter_map(problem).take(DAMAGES_MAX as usize).collect())
}

/// Stored blobs of runs that cannot be used.
fn blobs(runs: &Runs, contents: &mut Value) -> Result<Vec<Problem>, UserError> {
    let Some(store) = runs.store.blobs() else { return Ok(Vec::new()) };
    let checked = store.check(DAMAGES_MAX as usize);
    let checked = checked.map_err(|error| UserError::new(kind::JOURNAL, error.to_string()))?;
    contents["blobs"] = json!(checked.blobs);
    contents["blob-bytes"] = json!(checked.bytes);
    let problem = |finding| Problem {
        message: format!("a stored blob of runs cannot be used: {finding}"),
        hint: format!("a copy of the file in its place mends it; {RESTORE_HINT}"),
    };
    Ok(checked.findings.into_iter().map(problem).collect())
}

/// Makes a file of some size and removes it.
fn probe(folder: &Path) -> std::io::Result<()> {
    if !folder.is_dir() {
        return Err(std::io::ErrorKind::NotADirectory.into());
    }
    let path = folder.join(format!(".wfhost-probe-{}", std::process::id()));
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
    // Some file systems report a full disk only on sync.
    let written = file.write_all(&vec![0; PROBE_BYTES]).and_then(|()| file.sync_all());
    std::fs::remove_file(&path)?;
    written
}

/// Runs a workflow without guests.
fn self_test(host: &Host) -> Result<(), String> {
    let workflow = host.parse("self-test", SELF_TEST, ".").map_err(|error| match error {
        LoadError::Definition(problems) => {
            problems.iter().map(|one| one.message.as_str()).collect::<Vec<_>>().join("; ")
        }
        other => other.to_string(),
    })?;
    let run = host.start(&workflow, Map::new(), RunOptions::default()).map_err(|error| error.to_string())?;
    let outcome = run.wait();
    match (outcome.outputs(), &outcome.result) {
        (Some(outputs), _) if outputs == json!({ "sum": 3 }) => Ok(()),
        (_, Err(problem)) => Err(problem.to_string()),
        (other, _) => Err(format!("it returned {other:?}")),
    }
}

fn read_number(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// A tree as lines `name  value`.
fn describe(lines: &mut String, name: &str, value: &Value) {
    let join = |part: &str| if name.is_empty() { part.to_owned() } else { format!("{name}.{part}") };
    match value {
        Value::Object(setting) if setting.contains_key("from") => {
            describe(lines, name, &json!(format!("{} ({})", plain(&setting["value"]), plain(&setting["from"]))));
        }
        Value::Object(members) => members.iter().for_each(|(key, value)| describe(lines, &join(key), value)),
        Value::Array(items) if items.is_empty() => {}
        Value::Array(_) => lines.push_str(&format!("{name:<28} {}\n", plain(value))),
        Value::String(text) => lines.push_str(&format!("{name:<28} {text}\n")),
        Value::Null => lines.push_str(&format!("{name:<28} unknown\n")),
        other => lines.push_str(&format!("{name:<28} {other}\n")),
    }
}

/// A value in a line; a list with commas.
fn plain(value: &Value) -> String {
    match value {
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::String(text) => text.clone(),
        Value::Null => "unknown".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_on_which_little_is_free_is_a_problem() {
        assert!(nearly_full(FREE_BYTES_MIN).is_none());
        let problem = nearly_full(FREE_BYTES_MIN - 1).unwrap();
        assert_eq!(problem.message, "the disk with the data folder is nearly full: 63 MiB are free");
    }
}
