//! Journals that earlier releases have written, replayed by this one.

use crate::support::{builder, guests, wait_until};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use wfhost::dispatch::{CallContext, Declaration, from_inline_fn};
use wfhost::host::{Host, ReplayOptions, RunHandle, RunOptions, RunProjection, Workflow};
use wfhost::process::{Payload, Problem, ProblemClass};
use wfhost::run::{Act, Decision, News, Record, Replay};

/// The version of this release: its journals can be recorded anew until it is published.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

fn journals() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journals")
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> = std::fs::read_dir(of).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.join("workflow.yaml").exists() || path.join("components").exists());
    all.sort();
    all
}

fn name(folder: &Path) -> &str {
    folder.file_name().unwrap().to_str().unwrap()
}

/// Handlers that the recorded workflows call: one fails as often as its arguments say, one loses
/// its answer.
fn host() -> Host {
    let tries: Mutex<BTreeMap<String, u64>> = Mutex::default();
    let flaky = from_inline_fn(Declaration::new("Fails at first"), move |args: Payload, context: CallContext| {
        let mut tries = tries.lock().unwrap();
        let tried = tries.entry(context.run().to_string()).or_default();
        *tried += 1;
        if args == Payload::json(&*tried) {
            return Ok(args);
        }
        Err(Problem::new("busy", "Not yet").with_class(ProblemClass::Retryable).into())
    });
    let lost = from_inline_fn(Declaration::new("Loses its answer"), |_, _| {
        Err(Problem::new("lost", "Nobody knows").with_unknown_outcome(true).into())
    });
    builder(2, 32).handler("flaky", flaky).handler("lost", lost).build().unwrap()
}

/// The components that a workflow names, by the BLAKE3 of their bytes.
fn digests(folder: &Path) -> BTreeMap<String, String> {
    serde_json::from_slice(&std::fs::read(folder.join("components.json")).unwrap()).unwrap()
}

/// The workflow over the components of that time.
fn workflow(host: &Host, folder: &Path) -> (tempfile::TempDir, Workflow) {
    let place = tempfile::tempdir().unwrap();
    for (source, digest) in digests(folder) {
        let component = folder.parent().unwrap().join("components").join(format!("{digest}.wasm"));
        let bytes = std::fs::read(&component).unwrap();
        assert_eq!(blake3::hash(&bytes).to_hex().as_str(), digest, "{}", component.display());
        std::fs::write(place.path().join(source), bytes).unwrap();
    }
    let text = std::fs::read_to_string(folder.join("workflow.yaml")).unwrap();
    let workflow = host.parse("workflow.yaml", &text, place.path()).unwrap_or_else(|error| panic!("{error}"));
    (place, workflow)
}

fn read(folder: &Path) -> Vec<Record> {
    let bytes = std::fs::read(folder.join("records")).unwrap();
    let mut rest = bytes.as_slice();
    let mut records = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (record, after) = after.split_at(u32::from_le_bytes(*length) as usize);
        records.push(Record::decode(bytes::Bytes::copy_from_slice(record)).unwrap_or_else(|why| panic!("{why}")));
        rest = after;
    }
    assert!(rest.is_empty());
    records
}

#[test]
fn journals_of_every_release_can_be_replayed() {
    if std::env::var_os("WFHOST_RECORD_JOURNALS").is_some() {
        record();
    }
    let host = host();
    let releases = folders(&journals());
    assert!(releases.iter().any(|release| name(release) == RELEASE), "this release has none");
    for release in releases {
        for folder in folders(&release).iter().filter(|folder| folder.join("workflow.yaml").exists()) {
            let what = folder.strip_prefix(journals()).unwrap().display();
            let (_place, workflow) = workflow(&host, folder);
            let records = read(folder);
            let replayed = host.replay(&workflow, &records, ReplayOptions::default(), |_| {});
            let steps = records.iter().filter(|record| matches!(record, Record::Stepped(_))).count() as u64;
            match replayed.unwrap_or_else(|error| panic!("{what}: {error}")) {
                Replay::Same { steps: done, records: count, .. } => {
                    assert_eq!((done, count), (steps, records.len() as u64), "{what}");
                }
                other => panic!("{what}: {other:?}"),
            }
            let rebuilt = host.rebuild(&workflow, &records).unwrap();
            assert!(rebuilt.is_finished(), "{what}");
            let result = match rebuilt.result().unwrap() {
                Ok(Payload::Json(json)) => json.to_value(),
                Ok(other) => panic!("{what}: {other:?}"),
                Err(problem) => json!({ "problem": problem.kind }),
            };
            let expected: Value = serde_json::from_slice(&std::fs::read(folder.join("result.json")).unwrap()).unwrap();
            assert_eq!(result, expected, "{what}");
            // It is shown as it is rebuilt.
            let shown = RunProjection::of(&records);
            assert_eq!(shown.outcome("it").unwrap().result.is_ok(), rebuilt.result().unwrap().is_ok(), "{what}");
            let counts = shown.state().counts();
            assert_eq!((counts.steps, counts.records), (steps, records.len() as u64), "{what}");
            assert_eq!((shown.state().calls().count(), shown.state().signal_waits().len()), (0, 0), "{what}");
        }
    }
}

/// What occurs in them is what every later release must understand.
#[test]
fn the_journals_have_every_kind_of_record_and_most_kinds_of_news() {
    let mut seen = std::collections::BTreeSet::new();
    for folder in folders(&journals().join(RELEASE)).iter().filter(|folder| folder.join("workflow.yaml").exists()) {
        for record in read(folder) {
            let kind = match &record {
                Record::Started(_) => "started",
                Record::Died(_) => "died",
                Record::Leaving { .. } => "leaving",
                // The release of these journals had none.
                Record::Upgraded(_) => "upgraded",
                Record::Arrived(arrived) => match &arrived.news {
                    News::Answered { .. } => "answered",
                    News::Due { .. } => "due",
                    News::Cancel { .. } => "cancel",
                    News::Signal { .. } if arrived.act.is_some() => "signal with an id",
                    News::Signal { .. } => "signal",
                    News::Paused(_) => "paused",
                    _ => "other news",
                },
                Record::Stepped(stepped) => {
                    for decided in &stepped.decided {
                        seen.insert(match &decided.decision {
                            Decision::Done => "done",
                            Decision::Answered(_) => "answered at once",
                            Decision::Due(_) => "sleep",
                            Decision::Spawned(_) => "spawned",
                            Decision::Called(_) => "called",
                            Decision::Delivered(_) => "delivered",
                            Decision::Waits => "waits",
                            Decision::Took(_) => "took",
                            _ => "other decision",
                        });
                    }
                    "stepped"
                }
            };
            seen.insert(kind);
        }
    }
    for kind in [
        "started",
        "stepped",
        "died",
        "leaving",
        "answered",
        "due",
        "cancel",
        "signal",
        "signal with an id",
        "paused",
        "done",
        "answered at once",
        "sleep",
        "spawned",
        "called",
        "delivered",
        "waits",
        "took",
    ] {
        assert!(seen.contains(kind), "no journal has: {kind}");
    }
}

/// Runs each workflow, and writes its files.
fn record() {
    let host = host();
    let release = journals().join(RELEASE);
    let _ = std::fs::remove_dir_all(release.join("components"));
    std::fs::create_dir_all(release.join("components")).unwrap();
    for folder in folders(&release).iter().filter(|folder| folder.join("workflow.yaml").exists()) {
        let text = std::fs::read_to_string(folder.join("workflow.yaml")).unwrap();
        let plan = host.parse("workflow.yaml", &text, guests("built")).unwrap_or_else(|error| panic!("{error}"));
        let mut digests = BTreeMap::new();
        for component in &plan.plan().components {
            let source = component.source.trim_start_matches("./").to_owned();
            let bytes = std::fs::read(guests("built").join(&source)).unwrap();
            let digest = blake3::hash(&bytes).to_hex().to_string();
            std::fs::write(release.join("components").join(format!("{digest}.wasm")), bytes).unwrap();
            digests.insert(source, digest);
        }
        let write = |name: &str, value: &Value| {
            std::fs::write(folder.join(name), format!("{}\n", serde_json::to_string_pretty(value).unwrap())).unwrap();
        };
        write("components.json", &json!(digests));
        let (_place, workflow) = workflow(&host, folder);
        let inputs = match name(folder) {
            "fan-out" => json!({ "names": ["Ann", "Bob", "Charlotte", "Dave", "Eve", "Frida"] }),
            _ => json!({}),
        };
        let Value::Object(inputs): Value = inputs else { unreachable!() };
        write("inputs.json", &Value::Object(inputs.clone()));
        let run = drive(&host, &workflow, inputs, name(folder));
        let result = match &run.inner().outcome().unwrap().result {
            Ok(Payload::Json(json)) => json.to_value(),
            Ok(other) => panic!("{other:?}"),
            Err(problem) => json!({ "problem": problem.kind }),
        };
        write("result.json", &result);
        let mut bytes = Vec::new();
        for record in run.records().unwrap() {
            let mut one = Vec::new();
            record.encode(&mut one);
            bytes.extend((one.len() as u32).to_le_bytes());
            bytes.extend(one);
        }
        std::fs::write(folder.join("records"), bytes).unwrap();
    }
}

fn drive(host: &Host, workflow: &Workflow, inputs: Map<String, Value>, name: &str) -> RunHandle {
    let options = RunOptions { id: Some(name.to_owned()), seed: Some([7; 32]), records: true, ..RunOptions::default() };
    let run = host.start(workflow, inputs, options).unwrap();
    let signal = |name: &str, body: Value| Act::Signal { name: name.into(), body: Payload::json(&body) };
    match name {
        "signals" => {
            run.signal("approve", &json!({ "by": "Ann" })).unwrap();
            let _ = run.inner().act(signal("more", json!([1])), Some("first")).unwrap();
            let _ = run.inner().act(Act::Pause, Some("pause")).unwrap();
            let _ = run.inner().act(signal("more", json!(2)), Some("second")).unwrap();
            run.inner().unpause().unwrap();
        }
        "cancelled" => {
            wait_until(|| run.processes().len() == 3 && run.processes().iter().all(|process| process.steps > 0));
            run.cancel("enough", Some(std::time::Duration::from_millis(50))).unwrap();
        }
        _ => {}
    }
    run.wait();
    run
}
