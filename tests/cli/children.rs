//! Workflows whose steps run the workflows of other files: killed and resumed without these files,
//! shown, corrected, and sent to a server.

use super::scheduled::{Server, prepared};
use super::support::{World, eventually};
use super::{command_in, transcript, wfhost};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Output;

const ORDER: &str = "\
name: order
inputs: { to: { type: array } }
steps:
  - id: ship
    for-each: ${ .inputs.to }
    workflow: ./stock/label.yaml
    with: { to: \"${ .item }\" }
outputs: { labels: \"${ .steps.ship.output | map(.label) }\" }
";

const LABEL: &str = "\
inputs: { to: string }
components: { greet: ../guests/hello.wasm }
steps:
  - { id: greeted, uses: greet, with: { name: \"${ .inputs.to }\" } }
  - { id: stars, with: \"${ .steps.greeted.output.greeting }\", uses: ./stars.js }
  - { id: asks, needs: stars, wait: { signal: \"print-${ .inputs.to }\" } }
outputs: { label: \"${ .steps.stars.output + .steps.asks.output }\" }
";

fn world() -> (World, PathBuf) {
    let world = World::new(ORDER);
    let folder = Path::new(&world.file).parent().unwrap().to_owned();
    std::fs::create_dir_all(folder.join("stock/lib")).unwrap();
    std::fs::write(folder.join("stock/label.yaml"), LABEL).unwrap();
    std::fs::write(folder.join("stock/lib/stars.js"), "export const stars = (text) => `*${text}*`;\n").unwrap();
    std::fs::write(folder.join("stock/stars.js"), STARS).unwrap();
    (world, folder)
}

/// The JSON that a command prints, and its exit code.
fn told(output: &Output) -> (Value, Option<i32>) {
    let told = serde_json::from_slice(&output.stdout);
    (told.unwrap_or_else(|error| panic!("{error}: {}", transcript(output))), output.status.code())
}

const STARS: &str = "import { stars } from './lib/stars.js';\nexport const run = (ctx, text) => stars(text);\n";

const TO: [&str; 2] = ["--input", r#"to=["Ann","Bob"]"#];

fn answer(world: &World, run: &str, to: &str) {
    eventually(|| world.does(&["signal", run, &format!("print-{to}"), "\"!\""]).status.success().then_some(()));
}

#[test]
fn a_run_that_was_killed_goes_on_without_the_files_that_its_steps_run() {
    let (world, folder) = world();
    world.begin("r", "ship[1].asks", &TO).kill();
    std::fs::remove_dir_all(folder.join("stock")).unwrap();
    std::fs::remove_file(folder.join("guests")).unwrap();
    let status = world.says(&["status", "r"]);
    assert!(status.contains("ship[0].asks") && status.contains("ship[1].asks"), "{status}");
    let resumed = world.spawn(&["resume", "--json", "--slots", "1", "r"]);
    answer(&world, "r", "Ann");
    answer(&world, "r", "Bob");
    let (resumed, code) = resumed.told();
    assert_eq!(code, Some(0), "{resumed}");
    assert_eq!(resumed["outputs"], json!({ "labels": ["*Hello, Ann!*!", "*Hello, Bob!*!"] }));
    assert!(world.says(&["verify", "r"]).contains("all as recorded"));
    let history = world.says(&["history", "r", "--step", "ship[1].greeted"]);
    assert!(history.contains("ship[1].greeted (3)") && !history.contains("ship[0].greeted (2)"), "{history}");
}

#[test]
fn a_failure_is_shown_in_the_file_that_has_it_and_a_retry_takes_the_corrected_one() {
    let text = "\
inputs: { to: string }
steps:
  - { id: good, set: \"${ .inputs.to }\" }
  - { id: bad, set: \"${ .steps.good.output | error }\" }
outputs: { label: \"${ .steps.bad.output }\" }
";
    let (world, folder) = world();
    let file = folder.join("stock/label.yaml");
    std::fs::write(&file, text).unwrap();
    let failed = world.does(&[&["run", "--run-id", "r", &world.file][..], &TO].concat());
    let said = transcript(&failed);
    assert_eq!(failed.status.code(), Some(1), "{said}");
    let at = format!("{}:4:25", file.display());
    assert!(said.contains(&at) && said.contains("`ship[0].bad` failed"), "{said}");
    let corrected = format!("once {} is corrected: wfhost retry r --workflow {}", file.display(), world.file);
    assert!(said.contains(&corrected), "{said}");
    std::fs::write(&file, text.replace("| error", r#"+ \"!\""#)).unwrap();
    let told = transcript(&world.does(&["retry", "r"]));
    assert!(told.contains(&format!("{} has changed; this retry uses the text", file.display())), "{told}");
    let retried = world.tells(&["retry", "r", "--json", "--workflow", &world.file]);
    assert_eq!(retried["outputs"], json!({ "labels": ["Ann!", "Bob!"] }), "{retried}");
}

#[test]
fn what_a_file_of_a_workflow_lacks_is_refused_with_its_place() {
    let (world, folder) = world();
    let file = folder.join("stock/label.yaml");
    std::fs::remove_file(folder.join("stock/stars.js")).unwrap();
    let refused = world.refuses(&["validate", &world.file]);
    assert!(refused.contains(&format!("{}:5:69", file.display())) && refused.contains("stars.js"), "{refused}");
    assert!(refused.contains("::: ") && refused.contains("workflow: ./stock/label.yaml"), "{refused}");
    let (told, _) = told(&world.does(&["validate", "--json", &world.file]));
    let problem = &told[0]["problems"][0];
    assert_eq!((&problem["at"]["line"], &problem["cause"]["line"]), (&json!(6), &json!(5)), "{told}");
    std::fs::write(&file, "schedule: { every: 1h }\nconcurrency: { group: g, limit: 1 }\nsteps: [{ id: a, set: 1 }]\n")
        .unwrap();
    std::fs::write(&world.file, "steps: [{ id: a, workflow: stock/label.yaml }]\n").unwrap();
    let warned = transcript(&world.does(&["validate", &world.file]));
    assert!(warned.contains("label.yaml:1:11: `schedule` has no effect here"), "{warned}");
    assert!(warned.contains("`concurrency` has no effect here"), "{warned}");
}

#[test]
fn the_workflows_that_steps_run_are_shown() {
    let file = "workflows/stock/workflow.yaml";
    let plan = wfhost(&["plan", file]);
    super::assert_transcript("plan_shows_the_workflows_that_steps_run", &plan);
    let graph = transcript(&wfhost(&["graph", file]));
    assert!(graph.contains("workflow shop/order.yaml, for each"), "{graph}");
    let plan: Value = serde_json::from_slice(&wfhost(&["plan", "--json", file]).stdout).unwrap();
    assert_eq!(plan["steps"][2]["workflow"], "shop/order.yaml");
    let files: Vec<&str> =
        plan["workflows"].as_array().unwrap().iter().filter_map(|one| one["file"].as_str()).collect();
    assert_eq!(files, ["shop/order.yaml", "shop/fit.yaml"]);
}

#[test]
fn the_example_orders_what_the_budget_allows() {
    let file = "workflows/stock/workflow.yaml";
    let (told, code) = told(&wfhost(&["run", "--json", file, "--input", "table=@workflows/stock/stock.csv"]));
    assert_eq!(code, Some(0), "{told}");
    let orders = told["outputs"]["orders"].as_array().unwrap();
    let brief: Vec<Value> = orders.iter().map(|one| json!([one["shop"], one["total"], one["left-out"]])).collect();
    assert_eq!(json!(brief), json!([["harbour", 200, 2], ["hill", 231, 0], ["station", 0, 0]]));
}

#[test]
fn a_server_gets_the_files_that_steps_run() {
    let (data, files, token) = prepared(ORDER);
    let folder = files.path();
    std::fs::create_dir_all(folder.join("stock")).unwrap();
    let text = "inputs: { to: string }\nsteps: [{ id: a, set: \"${ .inputs.to + \\\"!\\\" }\" }]\noutputs: { label: \"${ .steps.a.output }\" }\n";
    std::fs::write(folder.join("stock/label.yaml"), text).unwrap();
    let none = tempfile::tempdir().unwrap();
    let server = Server::start(&data, none.path());
    let by = |arguments: &[&str]| {
        let mut command = command_in(&data, arguments);
        command.env("WFHOST_SERVER", server.url()).env("WFHOST_TOKEN", &token).output().unwrap()
    };
    let file = folder.join("flow.yaml").display().to_string();
    let deployed = by(&["deploy", &file]);
    assert_eq!(String::from_utf8_lossy(&deployed.stdout), "order@1\n", "{}", transcript(&deployed));
    // Another text of such a file is another version.
    std::fs::write(folder.join("stock/label.yaml"), text.replace('!', "?")).unwrap();
    assert_eq!(String::from_utf8_lossy(&by(&["deploy", &file]).stdout), "order@2\n");
    std::fs::remove_dir_all(folder).unwrap();
    let run = |version: &str| {
        let output = by(&[&["run", "--json", version][..], &TO].concat());
        let (told, code) = told(&output);
        assert_eq!(code, Some(0), "{told}");
        told["outputs"]["labels"].clone()
    };
    assert_eq!((run("order@1"), run("order")), (json!(["Ann!", "Bob!"]), json!(["Ann?", "Bob?"])));
}
