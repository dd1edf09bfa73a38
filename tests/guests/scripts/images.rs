//! Scripts whose instances start from the image after loading, wait without an instance, and are
//! reset for others.

use super::Project;
use crate::support::builder;
use serde_json::{Map, json};
use wfhost::host::{Host, RunOptions};

/// Children that wait, each with its own state: there are far more of them than slots.
const CROWD: &str = "
let born = 0;
const table = Array.from({ length: 2000 }, (_, at) => ({ at, square: at * at }));

export async function run(ctx, input) {
  const children = [];
  for (let at = 0; at < input.count; at++) children.push(ctx.spawn(child, { at }));
  const all = await Promise.all(children);
  return all.reduce((sum, one) => sum + one, 0);
}

export async function child(ctx, input) {
  born += 1;
  await ctx.sleep(5);
  table[input.at].square += born;
  await ctx.sleep(5);
  return table[input.at].square;
}
";

fn crowd(count: u32) -> Project {
    let text = format!(
        "steps: [ {{ id: a, uses: ./crowd.js, with: {{ count: {count} }} }} ]\noutputs: {{ sum: '${{ .steps.a.output }}' }}\n"
    );
    Project::new(&[("flow.yaml", &text), ("crowd.js", CROWD)])
}

/// No child sees what another one has written.
fn expected(count: u64) -> u64 {
    (0..count).map(|at| at * at + 1).sum()
}

fn run(host: &Host, count: u32) -> serde_json::Value {
    crowd(count).outputs(host)["sum"].clone()
}

#[test]
fn a_crowd_of_a_script_waits_in_two_slots() {
    let host = builder(2, 2).build().unwrap();
    assert_eq!(run(&host, 300), json!(expected(300)));
}

#[test]
fn instances_are_reused_for_the_same_script_only() {
    let host = builder(2, 64).build().unwrap();
    // Enough of them end that their image is learned.
    for _ in 0..3 {
        assert_eq!(run(&host, 100), json!(expected(100)));
    }
    for _ in 0..20 {
        run(&host, 20);
        if host.guests().spare_instances().0 > 0 {
            break;
        }
    }
    assert!(host.guests().spare_instances().0 > 0);
    assert_eq!(run(&host, 100), json!(expected(100)));
    let other = Project::new(&[
        ("flow.yaml", "steps: [ { id: a, uses: ./a.js } ]\noutputs: { a: '${ .steps.a.output }' }\n"),
        (
            "a.js",
            "export function run() { return [typeof born, typeof table, Object.keys(globalThis).includes('table')]; }\n",
        ),
    ]);
    assert_eq!(other.outputs(&host)["a"], json!(["undefined", "undefined", false]));
}

/// An image cannot be put into less memory than it has, and loading is refused as well.
#[test]
fn a_script_that_is_too_large_for_its_limit_fails_however_it_is_born() {
    let text = "components: { a: { source: a.js, limits: { memory: 4MiB } } }
steps: [ { id: a, uses: a } ]
";
    let project = Project::new(&[
        ("flow.yaml", text),
        ("a.js", "export const all = new Uint8Array(16 << 20);\nexport function run() { return all.length; }\n"),
    ]);
    let host = builder(1, 8).build().unwrap();
    let workflow = project.workflow(&host);
    let end = || {
        let outcome = host.start(&workflow, Map::new(), RunOptions::default()).unwrap().wait();
        crate::support::cause(&outcome)["kind"].clone()
    };
    assert_eq!(end(), "memory-exhausted");
    project.write("flow.yaml", text.replace("4MiB", "64MiB") + "outputs: { a: '${ .steps.a.output }' }\n");
    assert_eq!(project.outputs(&host)["a"], json!(16 << 20));
}
