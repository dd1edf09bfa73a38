//! Everything but `run`.

use super::wat_guest::{self, component_of};
use super::{assert_transcript, assert_transcript_in, command, wfhost};
use serde_json::{Value, json};

#[test]
fn without_arguments_there_is_help() {
    let output = wfhost(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Usage: wfhost"));
}

#[test]
fn every_command_has_help() {
    let help = String::from_utf8(wfhost(&["--help"]).stdout).unwrap();
    let commands = help.split("Commands:").nth(1).unwrap().split("Options:").next().unwrap();
    let commands: Vec<&str> = commands.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    assert!(commands.len() > 15, "{commands:?}");
    for command in commands.into_iter().filter(|command| !command.is_empty() && *command != "help") {
        let output = wfhost(&[command, "--help"]);
        assert!(output.status.success(), "{command}");
        let help = String::from_utf8_lossy(&output.stdout);
        assert!(help.contains("Usage: wfhost") && help.contains("Example"), "{command}");
    }
}

#[test]
fn validate_says_what_is_valid() {
    assert_transcript(
        "validate_says_what_is_valid",
        &wfhost(&["validate", "workflows/hello.yaml", "workflows/weather/workflow.yaml"]),
    );
}

#[test]
fn validate_reports_every_problem_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.yaml");
    let text =
        "name: bad\nstep:\n  - id: a\nsteps:\n  - id: a\n    wiat: 1s\n  - id: b\n    set: ${ .steps.c.output }\n";
    std::fs::write(&path, text).unwrap();
    let output = wfhost(&["validate", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    for expected in ["bad.yaml:2:1", "bad.yaml:6:5", "bad.yaml:8:"] {
        assert!(errors.contains(expected), "{expected} is not in\n{errors}");
    }
    let (path, absent) = (path.to_str().unwrap(), folder.path().join("absent.yaml"));
    let output = wfhost(&["validate", "--json", path, absent.to_str().unwrap(), "workflows/hello.yaml"]);
    assert_eq!((output.status.code(), output.stderr.len()), (Some(2), 0));
    let files: Value = serde_json::from_slice(&output.stdout).unwrap();
    let files = files.as_array().unwrap();
    assert_eq!(files.iter().map(|file| file["valid"].as_bool().unwrap()).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!((&files[2]["steps"], &files[2]["problems"]), (&json!(1), &json!([])));
    let problems = files[0]["problems"].as_array().unwrap();
    assert_eq!(files[0]["count"], problems.len());
    let told: Vec<Value> =
        problems.iter().map(|one| json!([one["code"], one["at"]["line"], one["at"]["column"]])).collect();
    assert_eq!(told, [json!(["unknown-key", 2, 1]), json!(["unknown-key", 6, 5]), json!(["unknown-step", 8, 13])]);
    for problem in problems {
        assert!(problem["message"].is_string() && problem["hint"].is_string(), "{problem}");
        assert_eq!(problem["at"]["file"], path);
    }
    let unreadable = &files[1]["problems"][0];
    assert_eq!((&unreadable["code"], &unreadable["at"]["line"]), (&json!("unreadable"), &Value::Null));
}

/// It runs, and gives null for ever: that is said before.
#[test]
fn what_was_hardly_meant_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flow.yaml");
    let text = "inputs: { n: { type: integer, default: 1 } }
steps:
  - { id: ask, call: http, with: { url: https://example.com/a }, allow: { http: [ \"GET https://example.com\" ] } }
  - { id: raw, call: http, with: { url: https://example.com/a, as: bytes }, allow: { http: [ \"GET https://example.com\" ] } }
  - { id: sum, set: \"${ [.steps.ask.output.orders, .steps.ask.output.body.x, .steps.raw.output.x] }\" }
  - { id: odd, needs: ask, if: \"${ .inputs.n = 1 }\", set: 1 }
  - { id: even, if: \"${ .steps.ask.output.status >= 1 and .steps.ask.status != \\\"a=b\\\" }\", set: 1 }
  - { id: late, needs: sum, when: failed, set: \"${ [.error.knd, .error.kind, .error.data.x] }\" }
outputs: { orders: \"${ .steps.ask.output.total }\" }
";
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let output = wfhost(&["validate", path, "--json"]);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let warnings: Vec<&str> = told[0]["warnings"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    assert_eq!(warnings.len(), 4, "{warnings:#?}");
    for (warning, parts) in warnings.iter().zip([
        ["flow.yaml:5:11: `.steps.ask.output.orders` is always null", "did you mean `.steps.ask.output.body.orders`?"],
        ["flow.yaml:8:11: `.error.knd` is always null", "did you mean `.error.kind`?"],
        ["flow.yaml:9:", "`.steps.ask.output.body.total`?"],
        ["flow.yaml:6:11: `=` assigns", "did you mean `.inputs.n == 1`?"],
    ]) {
        assert!(parts.iter().all(|part| warning.contains(part)), "{warning}");
    }
    assert!(String::from_utf8_lossy(&wfhost(&["validate", path]).stderr).contains("warning: "));
}

/// What can be told before anything runs is told by each command, and nothing runs.
#[test]
fn a_call_that_must_fail_is_told_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.yaml");
    let text = "steps:\n  - { id: first, set: 1 }\n  - { id: ask, needs: first, call: http, with: { url: https://example.com/a } }\n";
    std::fs::write(&path, text).unwrap();
    for command in ["validate", "plan", "graph", "run"] {
        let output = wfhost(&[command, path.to_str().unwrap()]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{command}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("calls.yaml:3:36"), "{errors}");
        assert!(errors.contains("hint: allow: { http: [ \"GET https://example.com/a\" ] }"), "{errors}");
    }
}

#[test]
fn files_that_are_no_workflows_are_named_as_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let pipe = folder.path().join("pipe").to_str().unwrap().to_owned();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (path, expected) in [
        (pipe, "it is a named pipe"),
        ("workflows/weather".to_owned(), "did you mean workflows/weather/workflow.yaml?"),
        ("/dev/zero".to_owned(), "more than 1048576 bytes"),
        ("/dev/null".to_owned(), "the workflow has no steps"),
        (write("latin.yaml", b"name: caf\xe9"), "latin.yaml:1:10"),
        (write("wide.yaml", b"\xff\xfea\0:\0"), "the file is UTF-16"),
    ] {
        let output = wfhost(&["validate", &path]);
        assert_eq!(output.status.code(), Some(2), "{path}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(expected), "{errors}");
    }
}

#[test]
fn files_that_are_no_components_are_named_as_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("module.wasm", b"\0asm\x01\0\0\0");
    write("step.go", b"package main");
    write("empty.wasm", b"");
    write("damaged.wasm", b"\0asm\x0d\0\x01\0\xff");
    write(
        "flow.yaml",
        b"components: { module: ./module.wasm }
steps:
  - { id: a, uses: module }
  - { id: b, uses: ./step.go }
  - { id: c, uses: ./empty.wasm }
  - { id: d, uses: ./damaged.wasm }
  - { id: e, uses: ./absent.wasm }
  - { id: f, uses: . }
  - { id: g, uses: native:absent }
",
    );
    let mut command = command(&["validate", "flow.yaml"]);
    assert_transcript_in(
        folder.path(),
        "files_that_are_no_components",
        &command.current_dir(folder.path()).output().unwrap(),
    );
}

#[test]
fn plan_shows_order_grants_and_digests() {
    assert_transcript("plan_shows_order_grants_and_digests", &wfhost(&["plan", "workflows/weather/workflow.yaml"]));
}

#[test]
fn plan_shows_what_bears_on_each_step() {
    assert_transcript("plan_shows_what_bears_on_each_step", &wfhost(&["plan", "workflows/failures.yaml"]));
    assert_transcript("plan_shows_what_bears_on_each_step_2", &wfhost(&["plan", "workflows/fan-out.yaml"]));
}

#[test]
fn plan_for_programs_has_numbers_with_their_units_in_the_names() {
    let plan = |file| -> Value { serde_json::from_slice(&wfhost(&["plan", "--json", file]).stdout).unwrap() };
    let failures = plan("workflows/failures.yaml");
    let step = &failures["steps"][0];
    assert_eq!((&step["id"], &step["timeout-ms"]), (&json!("hangs"), &json!(200)));
    assert_eq!(step["retry"], json!({ "max": 2, "backoff-min-ms": 50, "backoff-max-ms": 200 }));
    assert_eq!((&step["limits"]["grace-ms"], &step["limits"]["memory-bytes"]), (&json!(100), &json!(67_108_864)));
    assert_eq!((&step["limits"]["fuel"], &step["max-parallel"]), (&Value::Null, &Value::Null));
    assert_eq!(failures["steps"][2]["needs"], json!(["hangs", "panics"]));
    let fan_out = plan("workflows/fan-out.yaml");
    assert_eq!(fan_out["steps"][0]["max-parallel"], 8);
    assert_eq!(fan_out["inputs"][0]["schema"]["items"], json!({ "type": "string", "format": "uri" }));
    // Each name is described in the help.
    let help = String::from_utf8(wfhost(&["plan", "--help"]).stdout).unwrap();
    let limits = step["limits"].as_object().unwrap().keys();
    let names = failures.as_object().unwrap().keys().chain(step.as_object().unwrap().keys());
    for name in names.chain(limits).chain(fan_out["steps"][0].as_object().unwrap().keys()) {
        assert!(help.contains(name.as_str()), "{name} is not in\n{help}");
    }
}

#[test]
fn graph_for_programs_has_nodes_and_edges() {
    let output = wfhost(&["graph", "--json", "workflows/failures.yaml"]);
    let graph: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ids: Vec<&str> = graph["nodes"].as_array().unwrap().iter().map(|node| node["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["hangs", "panics", "react", "quiet"]);
    assert_eq!(
        graph["nodes"][3],
        json!({ "id": "quiet", "action": "set", "label": "set", "stage": 3, "conditional": true, "for-each": false })
    );
    assert_eq!(
        graph["edges"],
        json!([
            { "from": "hangs", "to": "react", "when": "failed" },
            { "from": "panics", "to": "react", "when": "failed" },
            { "from": "react", "to": "quiet", "when": "succeeded" },
        ])
    );
    let both = wfhost(&["graph", "--json", "-f", "dot", "workflows/failures.yaml"]);
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn graph_as_text_and_mermaid() {
    assert_transcript("graph_as_text_and_mermaid", &wfhost(&["graph", "workflows/weather/workflow.yaml"]));
    assert_transcript(
        "graph_as_text_and_mermaid_2",
        &wfhost(&["graph", "-f", "mermaid", "workflows/weather/workflow.yaml"]),
    );
    assert_transcript(
        "graph_as_text_and_mermaid_3",
        &wfhost(&["graph", "-f", "dot", "workflows/weather/workflow.yaml"]),
    );
}

#[test]
fn inspect_says_what_a_component_is_and_would_have_to_be_granted() {
    let plain = String::from_utf8(wfhost(&["inspect", "guests/built/fanout.wasm"]).stdout).unwrap();
    assert!(plain.contains("entries    not described"), "{plain}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("described.wasm");
    std::fs::write(&path, described()).unwrap();
    let mut command = command(&["inspect", "described.wasm"]);
    assert_transcript("inspect_described", &command.current_dir(folder.path()).output().unwrap());
    let path = path.to_str().unwrap();
    let value: Value = serde_json::from_slice(&wfhost(&["inspect", "--json", path]).stdout).unwrap();
    assert_eq!(value["entries"]["resize"]["description"], "Makes it small.");
    assert_eq!((&value["fits"], &value["description"]["entries"]), (&json!(true), &value["entries"]));
    // A workflow hears of them too.
    let flow = folder.path().join("flow.yaml");
    std::fs::write(
        &flow,
        "steps:\n  - { id: a, uses: ./described.wasm }\n  - { id: b, uses: ./described.wasm, entry: resise }\n",
    )
    .unwrap();
    let output = wfhost(&["validate", flow.to_str().unwrap()]);
    let errors = String::from_utf8_lossy(&output.stderr);
    for expected in [
        "has no entry point `run`",
        "name one with `entry`; it has `resize` and `turn`",
        "did you mean `entry: resize`?",
    ] {
        assert!(errors.contains(expected), "{expected} is not in\n{errors}");
    }
}

#[test]
fn inspect_says_whether_a_component_saves_itself() {
    // Its state is in a table, which no image holds.
    let core = wat_guest::module(
        r#"(table 1 funcref)
        (elem declare func $step)
        (func $step (param i32 i32) (result i32) (table.set (i32.const 0) (ref.func $step)) (i32.const 1024))
        (func (export "wfhost:process/snapshot@0.1.0#save") (result i32) (unreachable))
        (func (export "wfhost:process/snapshot@0.1.0#load") (param i32 i32) (result i32) (unreachable))
        (func (export "wfhost:process/describe@0.1.0#describe") (result i32) (unreachable))"#,
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.wasm");
    std::fs::write(&path, wat_guest::component("full", &core)).unwrap();
    let path = path.to_str().unwrap();
    let text = String::from_utf8(wfhost(&["inspect", path]).stdout).unwrap();
    assert!(text.contains("\n  snapshots  by its own export `snapshot`: "), "{text}");
    let snapshots = |path: &str| {
        let value: Value = serde_json::from_slice(&wfhost(&["inspect", "--json", path]).stdout).unwrap();
        json!([value["snapshots"]["fits"], value["snapshots"]["saves-itself"]])
    };
    assert_eq!(snapshots(path), json!([false, true]));
    assert_eq!(snapshots("guests/built/hello.wasm"), json!([true, false]));
}

/// A guest that tells its entries.
fn described() -> Vec<u8> {
    let text = json!({ "description": "Pictures.", "entries": {
        "resize": { "description": "Makes it small.", "input": { "type": "object", "properties": { "width": { "type": "integer" } } } },
        "turn": { "doc": "Turns it.\nBy right angles." },
    }})
    .to_string();
    let data = text.bytes().map(|byte| format!("\\{byte:02x}")).collect::<Vec<_>>().concat();
    let core = wat_guest::module(&format!(
        r#"(func $step (param i32 i32) (result i32) (i32.const 1024))
        (func (export "wfhost:process/describe@0.1.0#describe") (result i32)
            (i32.store (i32.const 16) (i32.const 4096)) (i32.store (i32.const 20) (i32.const {})) (i32.const 16))
        (data (i32.const 4096) "{data}")"#,
        text.len()
    ));
    let wit = std::fs::read_to_string(super::root().join("wit/process.wit")).unwrap();
    let wit = format!("{wit}\nworld described {{ include process; export describe; }}");
    component_of(&wit, "described", &core)
}

#[test]
fn inspect_names_what_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let module = folder.path().join("module.wasm");
    std::fs::write(&module, b"\0asm\x01\0\0\0").unwrap();
    let output = wfhost(&["inspect", module.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("core WebAssembly module") && errors.contains("wasm-tools component new"), "{errors}");

    // Several files at once: each is told of, and one that does not fit decides.
    let both = [module.to_str().unwrap(), "guests/built/hello.wasm"];
    let output = wfhost(&[&["inspect", "--json"], &both[..]].concat());
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&list[0]["fits"], &list[1]["fits"], output.status.code()), (&json!(false), &json!(true), Some(2)));

    let wit = "package wfhost:process@0.1.0;
        interface guest { record reading { at: u64, value: option<f64> }
            init: func(entry: string, readings: list<reading>) -> result<u32, string>; close: func(); }
        world process { export guest; }";
    let core = r#"(module (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 8))
        (func (export "wfhost:process/guest@0.1.0#init") (param i32 i32 i32 i32) (result i32) (i32.const 8))
        (func (export "wfhost:process/guest@0.1.0#close")))"#;
    let path = folder.path().join("other.wasm");
    std::fs::write(&path, component_of(wit, "process", core)).unwrap();
    let mut command = command(&["inspect", "other.wasm"]);
    assert_transcript("inspect_names_what_does_not_fit", &command.current_dir(folder.path()).output().unwrap());
    let value: Value = serde_json::from_slice(&wfhost(&["inspect", "--json", path.to_str().unwrap()]).stdout).unwrap();
    assert_eq!(
        value["mismatches"],
        json!([
            {
                "at": "wfhost:process/guest@0.1.0#init",
                "expected": "init: func(entry: string, input: payload) -> result<_, problem>",
                "found": "init: func(entry: string, readings: list<record { at: u64, value: option<…> }>) -> result<u32, string>",
            },
            {
                "at": "wfhost:process/guest@0.1.0#step",
                "expected": "step: func(events: list<event>) -> outcome",
                "found": null,
            },
        ])
    );
}

/// The knobs of the host stand where they turn something, with their defaults.
#[test]
fn help_has_the_options_that_mean_something() {
    let help = |command: &str| String::from_utf8(wfhost(&[command, "--help"]).stdout).unwrap();
    // Lines are wrapped as wide as the terminal is.
    let run = help("run").split_whitespace().collect::<Vec<_>>().join(" ");
    for flag in ["--workers", "--slots", "--profile", "--allow-address", "--cache", "--timeout"] {
        let from = run.find(&format!(" {flag} <")).unwrap_or_else(|| panic!("{flag} is not in\n{run}"));
        // The next option begins with dashes too.
        let own = run[from + 3..].split(" --").next().unwrap();
        assert!(own.contains("[default: "), "{flag} has no default: {own}");
    }
    for command in ["validate", "plan", "graph", "inspect"] {
        let help = help(command);
        assert!(help.contains("--cache"), "{command}");
        for flag in ["--workers", "--slots", "--profile", "--allow-address", "--timeout"] {
            assert!(!help.contains(flag), "{command} has {flag}");
        }
    }
    let doctor = help("doctor");
    // It shows the settings that the other commands would have.
    for flag in ["--workers", "--slots", "--profile", "--allow-address", "--data", "--cache"] {
        assert!(doctor.contains(flag), "{flag}");
    }
    assert!(!doctor.contains("--timeout"));
}

#[test]
fn doctor_shows_what_a_run_would_use_and_ends_with_a_verdict() {
    let output = wfhost(&["doctor", "--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&value["pool"]["slots-asked"], &value["pool"]["profile"]), (&64.into(), &"fast".into()));
    assert!(value["cache"]["folder"].is_string());
    assert_eq!(value["expressions"]["works"], true);
    assert!(value["service"]["slots"].as_u64() > value["pool"]["slots"].as_u64());
    let problems = value["problems"].as_array().unwrap().len();
    let verdict = if problems == 0 { "all well".to_owned() } else { value["verdict"].as_str().unwrap().to_owned() };
    assert_eq!(output.status.code(), Some(i32::from(problems > 0)));
    let output = wfhost(&["doctor"]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(stdout.lines().last(), Some(verdict.as_str()), "{stdout}");
}

#[test]
fn doctor_finds_a_cache_that_cannot_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a-file");
    std::fs::write(&file, "").unwrap();
    let output = command(&["doctor", "--slots", "100"]).env("WFHOST_CACHE", &file).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("problem: compiled code is not stored"), "{stdout}");
    assert!(stdout.contains("pool.slots                   100\n"), "{stdout}");
    assert!(stdout.lines().last().unwrap().contains(" problem"), "{stdout}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn doctor_tells_of_the_folder_of_runs() {
    let data = super::data();
    let doctor = || -> Value {
        let output = super::command_in(&data, &["doctor", "--json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let report = doctor();
    let free = report["data"]["free-bytes"].clone();
    assert!(free.as_u64() > Some(0), "{report}");
    assert_eq!(report["data"], json!({ "folder": data, "store": "nothing was run yet", "free-bytes": free }));
    assert!(!data.exists(), "looking makes nothing");
    assert!(super::command_in(&data, &["run", "workflows/hello.yaml"]).status().unwrap().success());
    let store = doctor()["data"]["store"].clone();
    assert_eq!((&store["runs"], &store["unfinished"], &store["components"]), (&json!(1), &json!(0), &json!(1)));
    assert!(store["format"].as_u64() > Some(0) && store["journal-bytes"].as_u64() > Some(0), "{store}");
    assert!(store["component-bytes"].as_u64() > Some(1_000), "{store}");
    let db = rusqlite::Connection::open(data.join("journal.db")).unwrap();
    db.pragma_update(None, "user_version", 4_711).unwrap();
    let problems = doctor()["problems"].to_string();
    assert!(problems.contains("no run can be durable: ") && problems.contains("format 4711"), "{problems}");
}

#[test]
fn completions_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = wfhost(&["completions", shell]);
        assert!(output.status.success());
        let script = String::from_utf8_lossy(&output.stdout).into_owned();
        for word in ["wfhost", "resume", "signal", "run-id", "durability"] {
            assert!(script.contains(word), "{shell} knows no {word}");
        }
    }
}

#[test]
fn with_json_a_file_that_cannot_be_used_is_told_as_an_object_too() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.yaml");
    std::fs::write(&bad, "steps: [{ id: a, ues: x }]\n").unwrap();
    let (bad, absent) = (bad.to_str().unwrap(), folder.path().join("absent"));
    for name in ["plan", "graph"] {
        for (file, kind) in [(bad, "bad-definition"), (absent.to_str().unwrap(), "unreadable")] {
            let output = wfhost(&[name, "--json", file]);
            let value: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!((&value["status"], &value["problem"]["kind"]), (&json!("refused"), &json!(kind)));
            assert_eq!(output.status.code(), Some(2));
        }
    }
    let output = wfhost(&["inspect", "--json", absent.to_str().unwrap()]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&value["fits"], output.status.code()), (&json!(false), Some(2)));
}
