//! Durable runs of scripts: the sources and the engine are those that the run began with.

use super::Project;
use crate::support::{builder, outputs, wait_until};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use wfhost::host::{Host, ReplayOptions, RetryOptions, RunHandle, RunOptions};
use wfhost::run::{Replay, SnapshotPolicy, Verdict};
use wfhost::workflow::interpreter::Rerun;

const FLOW: &str = "
steps:
  - { id: asks, uses: ./asks.js, with: { count: 8 } }
  - id: twice
    with: '${ .steps.asks.output }'
    script: |
      const { double } = await import('./lib/double.js');
      return input.map(double);
outputs: { twice: '${ .steps.twice.output }' }
";

const ASKS: &str = "
import { double } from './lib/double.js';
export async function run(ctx, input) {
  const all = [];
  ctx.expose('all', all);
  while (all.length < input.count) {
    all.push(double(await ctx.signal('n')));
    ctx.expose('all', all);
  }
  return all;
}
";

fn project() -> Project {
    let flow = FLOW.replace("const { double } = await import('./lib/double.js');", "const double = (n) => n * 2;");
    Project::new(&[("flow.yaml", &flow), ("asks.js", ASKS), ("lib/double.js", "export const double = (n) => n * 2;\n")])
}

fn options() -> RunOptions {
    RunOptions { id: Some("r".into()), durable: Some(true), ..RunOptions::default() }
}

fn host(folder: &Path, slots: u32) -> Host {
    let policy = SnapshotPolicy { steps_max: 2, tail: Duration::from_hours(1), ..SnapshotPolicy::default() };
    builder(1, slots).data(folder).snapshots(policy).build().unwrap()
}

fn send(run: &RunHandle, numbers: std::ops::Range<u64>) {
    for number in numbers {
        run.signal("n", &json!(number)).unwrap();
    }
}

fn expected() -> Value {
    json!([0, 4, 8, 12, 16, 20, 24, 28])
}

#[test]
fn a_run_continues_without_its_files_and_is_as_recorded() {
    let (data, project) = (tempfile::tempdir().unwrap(), project());
    let first = host(data.path(), 1);
    let run = first.start(&project.workflow(&first), Map::new(), options()).unwrap();
    send(&run, 0..5);
    wait_until(|| run.inner().signals().iter().all(|signal| signal.kept == 0));
    run.inner().snapshot();
    wait_until(|| first.snapshot_counts().kept > 0);
    first.suspend(Duration::from_secs(5)).unwrap();
    drop((run, first));
    // Edited, or gone.
    project.write("asks.js", "export function run() { return 'another'; }\n");
    std::fs::remove_dir_all(project.path().join("lib")).unwrap();

    let second = host(data.path(), 1);
    assert!(second.verify("r").unwrap().snapshots.iter().all(|one| one.verdict == Verdict::Equal));
    let workflow = second.workflow_of("r").unwrap();
    let run = second.recover(&workflow, "r", options()).unwrap();
    send(&run, 5..8);
    assert_eq!(outputs(&run.wait())["twice"], expected());
    assert_eq!(run.inner().ignored_snapshots().1, 0);
    let verified = second.verify("r").unwrap();
    assert!(verified.snapshots.iter().all(|one| one.verdict == Verdict::Equal), "{verified:?}");
    drop((run, second));

    // Another script is compared by what it does.
    let third = host(data.path(), 1);
    let journal = third.journal().unwrap().unwrap();
    let records = journal.records("r").unwrap();
    let replay = |file: &str| {
        let others = BTreeMap::from([("./asks.js".to_owned(), project.path().join(file))]);
        let workflow = third.workflow_with("r", &others).unwrap();
        let options = ReplayOptions { substituted: true, ..ReplayOptions::default() };
        matches!(third.replay(&workflow, &records, options, |_| {}).unwrap(), Replay::Same { .. })
    };
    assert!(!replay("asks.js"));
    project
        .write("mended.js", ASKS.replace("import { double } from './lib/double.js';", "const double = (n) => n + n;"));
    assert!(replay("mended.js"));
}

/// A retry takes over what an inline script did if it was only moved, and runs a changed one again.
#[test]
fn a_retry_compares_scripts_by_their_text() {
    let data = tempfile::tempdir().unwrap();
    let flow = "steps:
  - { id: moved, script: 'return 1' }
  - { id: changed, script: 'return 2' }
  - { id: fails, script: 'throw new Error(\"no\")', needs: [ moved, changed ] }
";
    let project = Project::new(&[("flow.yaml", flow)]);
    let host = host(data.path(), 2);
    let former = project.workflow(&host);
    let run = host.start(&former, Map::new(), options()).unwrap();
    assert!(run.wait().result.is_err());
    drop(run);
    project.write("flow.yaml", format!("# One line more.\n{}", flow.replace("return 2", "return 3")));
    let now = project.workflow(&host);
    let records = host.journal().unwrap().unwrap().records("r").unwrap();
    let options = RetryOptions { again: Rerun::default(), ..RetryOptions::default() };
    let prepared = host.prepare_retry(&former, &records, &now, options).unwrap();
    let again: Vec<&str> =
        prepared.repetition.steps.iter().filter(|step| step.reason.is_some()).map(|step| &*step.id).collect();
    assert_eq!(again, ["changed", "fails"]);
}
