//! Scripts on the command line: killed and resumed, edited meanwhile, shown where they fail.

use super::support::{World, eventually};
use serde_json::json;
use std::path::Path;

const ASKS: &str = "
name: asks
steps:
  - { id: asks, uses: ./asks.js }
  - id: twice
    with: '${ .steps.asks.output }'
    script: |
      if (input === null) throw new Error('nothing');
      return input * 2;
outputs: { twice: '${ .steps.twice.output }' }
";

const SCRIPT: &str = "import { plus } from './lib/plus.js';
export async function run(ctx) {
  return plus(await ctx.signal('answer'));
}
";

fn world() -> (World, std::path::PathBuf) {
    let world = World::new(ASKS);
    let folder = Path::new(&world.file).parent().unwrap().to_owned();
    std::fs::create_dir(folder.join("lib")).unwrap();
    std::fs::write(folder.join("asks.js"), SCRIPT).unwrap();
    std::fs::write(folder.join("lib/plus.js"), "export const plus = (n) => n === null ? null : n + 1;\n").unwrap();
    (world, folder)
}

/// Waits until a script that was resumed waits again, and answers it.
fn answer(world: &World, run: &str, value: &str) {
    eventually(|| world.does(&["signal", run, "answer", value]).status.success().then_some(()));
}

#[test]
fn a_script_that_was_killed_goes_on_as_it_was() {
    let (world, folder) = world();
    world.begin("r", "asks", &[]).kill();
    // Another program, and no module: neither matters.
    std::fs::write(folder.join("asks.js"), "export function run() { return 100; }\n").unwrap();
    std::fs::remove_dir_all(folder.join("lib")).unwrap();
    let resumed = world.spawn(&["resume", "--json", "--slots", "1", "r"]);
    answer(&world, "r", "4");
    let (resumed, code) = resumed.told();
    assert_eq!((&resumed["outputs"], code), (&json!({ "twice": 10 }), Some(0)), "{resumed}");
    let verified = world.says(&["verify", "r"]);
    assert!(verified.contains("all as recorded"), "{verified}");
    // The edited one would not have done the same.
    let replayed = world.does(&["replay", "r", "--with", &format!("./asks.js={}", folder.join("asks.js").display())]);
    assert!(!replayed.status.success());
}

#[test]
fn a_failure_is_shown_at_its_line() {
    let (world, folder) = world();
    let failing = world.begin("r", "asks", &[]);
    answer(&world, "r", "null");
    let (told, code) = failing.told();
    assert_eq!(code, Some(1));
    let at = &told["problem"]["script-at"];
    assert_eq!((&at["line"], &at["file"]), (&json!(8), &json!(world.file)), "{told}");
    // Once it is mended, a retry runs only what has failed.
    std::fs::write(&world.file, ASKS.replace("if (input === null) throw new Error('nothing');", "input ??= 3;"))
        .unwrap();
    let retried = world.tells(&["retry", "--json", "r", "--workflow", &world.file]);
    assert_eq!(retried["outputs"], json!({ "twice": 6 }), "{retried}");
    std::fs::write(folder.join("asks.js"), "export function run() {\n  return (;\n}\n").unwrap();
    let refused = world.refuses(&["validate", &world.file]);
    assert!(refused.contains("asks.js:2:11") && refused.contains("  return (;"), "{refused}");
    let inspected = world.refuses(&["inspect", &folder.join("asks.js").display().to_string()]);
    assert!(inspected.contains("asks.js:2:11"), "{inspected}");
}

/// The one command that gets it is named.
#[test]
fn python_without_its_engine_is_refused_with_the_way_out() {
    let world = World::new("steps: [ { id: a, script: { py: 'return 1' } } ]\n");
    let mut command = super::command_in(&world.data, &["validate", &world.file]);
    let output = command.env("WFHOST_ENGINES", &world.data).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("wfhost engine python") && said.contains("script-py.wasm"), "{said}");
}

#[test]
fn a_script_that_was_mended_is_named_with_the_command_that_takes_it() {
    let flow = "steps:\n  - id: row\n    for-each: [ 1, 2, 3 ]\n    uses: ./row.js\n    with: '${ .item }'\n";
    let world = World::new(flow);
    let folder = Path::new(&world.file).parent().unwrap().to_owned();
    let parse = |wrong: u32| {
        let text = format!("export const parse = (n) => {{\n  if (n === {wrong}) throw new Error(`no ${{n}}`);\n}};\n");
        std::fs::write(folder.join("parse.js"), text).unwrap();
    };
    let row = "import { parse } from './parse.js';\nexport const run = (ctx, n) => parse(n);\n";
    std::fs::write(folder.join("row.js"), row).unwrap();
    parse(2);
    let told = |words: &[&str]| {
        let output = world.does(words);
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    let with = format!("./row.js={}", folder.join("row.js").display());
    let failed = told(&["run", &world.file, "--run-id", "r"]);
    assert!(failed.contains("once parse.js is corrected") && failed.contains(&with), "{failed}");
    parse(9);
    let status = told(&["status", "r"]);
    assert!(status.contains("parse.js:2 |   if (n === 2) throw"), "{status}");
    assert!(status.contains("parse.js has changed since the run began") && status.contains(&with), "{status}");
    let again = told(&["retry", "r"]);
    assert!(again.contains("parse.js has changed; this retry uses the text"), "{again}");
    let mended = told(&["retry", "r", "--with", &with]);
    assert!(mended.contains("1 of 3 items") || mended.contains("taken over"), "{mended}");
    assert!(!mended.contains("has changed"), "{mended}");
}

/// A forgotten `await` would lose an effect in silence.
#[test]
fn a_call_that_is_not_awaited_is_told_of() {
    let flow = "steps: [ { id: a, uses: ./a.js, allow: { kv: [ '*' ] } } ]\noutputs: { a: '${ .steps.a.output }' }\n";
    let world = World::new(flow);
    let script = Path::new(&world.file).parent().unwrap().join("a.js");
    std::fs::write(
        &script,
        "export function run(ctx) {\n  ctx.call('kv', { op: 'put', key: 'k', value: 1 });\n  return 1;\n}\n",
    )
    .unwrap();
    let output = world.does(&["run", &world.file, "--run-id", "r"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("call kv at a.js:2:7 was not awaited"), "{said}");
    assert!(world.says(&["logs", "r"]).contains("was not awaited: the entry has ended, and it is not sent"));
    std::fs::write(&script, "export const run = (ctx) => ({ r: ctx.sleep('1ms') });\n").unwrap();
    let output = world.does(&["run", &world.file]);
    let refused = String::from_utf8_lossy(&output.stderr);
    assert!(refused.contains("the promise in `r` cannot be handed on: await it"), "{refused}");
}
