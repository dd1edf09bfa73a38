//! Each behaviour of a program by one that does nothing else.

use super::*;

/// Reads 64 bytes of standard input and writes them.
const ECHO: &str = "
    (i32.store (i32.const 16) (i32.const 4096)) (i32.store (i32.const 20) (i32.const 64))
    (drop (call $fd_read (i32.const 0) (i32.const 16) (i32.const 1) (i32.const 24)))
    (call $print (i32.const 4096) (i32.load (i32.const 24)))";

/// Exits with the code that is the number of its arguments.
const COUNT: &str = "
    (drop (call $args_sizes_get (i32.const 16) (i32.const 20)))
    (call $proc_exit (i32.load (i32.const 16)))";

#[track_caller]
fn output(body: &str, with: Value) -> Value {
    outputs(&run_text(&host(1, 4), &program("hello\\n", body), &with, ""))["x"].clone()
}

#[track_caller]
fn problem(body: &str, with: Value, limits: &str) -> Value {
    cause(&run_text(&host(1, 4), &program("hello\\n", body), &with, limits))
}

#[test]
fn its_output_has_what_it_wrote_and_its_code() {
    let hello = "(call $print (i32.const 1024) (i32.const 6))";
    let expected = json!({ "stdout": "hello\n", "stderr": "", "code": 0, "files": {} });
    assert_eq!(output(hello, Value::Null), expected);
    assert_eq!(output(hello, json!({ "parse": "lines" }))["stdout"], json!(["hello"]));
    assert_eq!(output(hello, json!({ "parse": "bytes" }))["stdout"], json!({ "bytes": "aGVsbG8K" }));
    assert_eq!(output("(call $complain (i32.const 1024) (i32.const 6))", Value::Null)["stderr"], "hello\n");
}

#[test]
fn standard_input_is_a_text_bytes_or_json() {
    assert_eq!(output(ECHO, json!({ "stdin": "text" }))["stdout"], "text");
    assert_eq!(output(ECHO, json!({ "stdin": { "bytes": "/wA=" } }))["stdout"], json!({ "bytes": "/wA=" }));
    assert_eq!(output(ECHO, json!({ "stdin": { "a": [1] }, "parse": "json" }))["stdout"], json!({ "a": [1] }));
    assert_eq!(output(ECHO, Value::Null)["stdout"], "");
}

/// The adapter of WASI tells only whether a program has failed: this is our own.
#[test]
fn every_exit_code_is_passed_on() {
    let with = |args: usize, expect: &[usize]| json!({ "args": vec!["a"; args], "expect": expect });
    assert_eq!(output(COUNT, with(2, &[0, 3]))["code"], 3);
    assert_eq!(output(COUNT, with(254, &[255]))["code"], 255);
    let exit = problem(&format!("(call $complain (i32.const 1024) (i32.const 6)) {COUNT}"), with(1, &[0, 1]), "");
    assert_eq!((&exit["kind"], &exit["detail"]), (&json!("exit"), &json!("hello")));
    assert_eq!(exit["data"], json!({ "code": 2, "stdout": "", "stderr": "hello\n" }));
    assert_eq!(output("(call $proc_exit (i32.const 0)) unreachable", Value::Null)["code"], 0);
    for large in [256, 257, -1] {
        let exits = format!("(call $proc_exit (i32.const {large})) unreachable");
        assert_eq!(output(&exits, with(0, &[255]))["code"], 255, "none becomes a success");
    }
}

#[test]
fn it_reads_and_leaves_files() {
    // Opens `hello` to be written, or made, and writes `ell` at 2.
    let writes = "
        (local.set $r (call $path_open (i32.const 3) (i32.const 0) (i32.const 1024) (i32.const 5) (i32.const 1)
            (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 32)))
        (if (local.get $r) (then (call $proc_exit (local.get $r))))
        (i32.store (i32.const 16) (i32.const 1025)) (i32.store (i32.const 20) (i32.const 3))
        (local.set $r (call $fd_pwrite (i32.load (i32.const 32)) (i32.const 16) (i32.const 1) (i64.const 2)
            (i32.const 24)))
        (call $proc_exit (local.get $r))";
    assert_eq!(output(writes, Value::Null)["files"], json!({ "hello": "\0\0ell" }));
    let given = json!({ "files": { "hello": "0123456", "same/kept": "x" } });
    assert_eq!(output(writes, given)["files"], json!({ "hello": "01ell56" }));
    let named = json!({ "files": { "a/b": "1", "a/c": { "bytes": "/w==" } }, "outputs": ["hello", "a/"] });
    let expected = json!({ "hello": "\0\0ell", "a/b": "1", "a/c": { "bytes": "/w==" } });
    assert_eq!(output(writes, named)["files"], expected);
    assert_eq!(problem(writes, json!({ "outputs": ["none"] }), "")["kind"], "missing-file");
}

#[test]
fn each_way_to_die_is_a_problem_of_its_own() {
    for (body, kind, limits) in [
        ("unreachable", "trap", ""),
        ("(loop (br 0))", "fuel-exhausted", "fuel: 50M"),
        ("(drop (call $deep (i32.const 1)))", "stack-exhausted", ""),
        ("(drop (memory.grow (i32.const 60000))) unreachable", "memory-exhausted", ""),
        ("(call $proc_exit (i32.const 7))", "exit", ""),
    ] {
        assert_eq!(problem(body, Value::Null, limits)["kind"], kind, "{body}");
    }
    let said = problem("(call $complain (i32.const 1024) (i32.const 6)) unreachable", Value::Null, "");
    assert!(said["detail"].as_str().unwrap().starts_with("hello\n"), "{said}");
    let parsed = problem("(call $print (i32.const 1024) (i32.const 6))", json!({ "parse": "json" }), "");
    assert_eq!(parsed["kind"], "bad-output");
}

#[test]
fn the_same_input_has_the_same_output() {
    let text = program("hello\\n", ECHO);
    let with = json!({ "stdin": "same" });
    let host = host(2, 4);
    let first = outputs(&run_text(&host, &text, &with, ""));
    assert_eq!(outputs(&run_text(&host, &text, &with, "")), first);
}

#[test]
fn a_wrong_input_is_reported_when_the_workflow_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tool.wasm"), wat::parse_str(program("", "")).unwrap()).unwrap();
    let host = host(1, 4);
    let problems = |with: &str| {
        let text = format!("steps:\n  - id: x\n    uses: ./tool.wasm\n    with: {with}\n");
        host.parse("x.yaml", &text, folder.path()).err().map(|error| error.to_string()).unwrap_or_default()
    };
    for (with, expected) in [
        ("{ arg: [ a ] }", "did you mean `args`?"),
        ("{ args: a }", "`args`"),
        ("{ args: [ 1 ] }", "args[0]"),
        ("{ parse: yaml }", "`parse`"),
        ("{ expect: [ 256 ] }", "expect[0]"),
        ("{ env: { A: 1 } }", "env.A"),
    ] {
        let found = problems(with);
        assert!(found.contains(expected) && found.contains("x.yaml:4:"), "{with}: {found}");
    }
    assert_eq!(problems("{ args: [ \"${ .run.id }\" ], stdin: \"${ .inputs }\" }"), "");
}
