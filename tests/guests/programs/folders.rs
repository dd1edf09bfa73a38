//! Folders that a program is granted: it reads them, changes nothing, and a durable run goes on
//! with what they held when it began.

use super::*;
use crate::support::builder;
use std::time::Duration;

/// Errors of WASI preview 1.
const EROFS: i64 = 69;
const ENOENT: i64 = 44;

const READ: u64 = 2;
const WRITE: u64 = 64;
const CREATE: u32 = 1;
const TRUNCATE: u32 = 8;

/// Opens the path of `length` bytes at 1,024, as the descriptor at 32; exits with the error.
fn open(length: usize, how: u32, rights: u64) -> String {
    format!(
        "(local.set $r (call $path_open (i32.const 3) (i32.const 0) (i32.const 1024) (i32.const {length}) (i32.const {how})
            (i64.const {rights}) (i64.const 0) (i32.const 0) (i32.const 32)))
        (if (local.get $r) (then (call $proc_exit (local.get $r))))"
    )
}

/// Prints what is in `docs/a`.
fn prints() -> String {
    format!(
        "{} (i32.store (i32.const 16) (i32.const 4096)) (i32.store (i32.const 20) (i32.const 64))
        (drop (call $fd_read (i32.load (i32.const 32)) (i32.const 16) (i32.const 1) (i32.const 24)))
        (call $print (i32.const 4096) (i32.load (i32.const 24)))",
        open(6, 0, READ)
    )
}

/// A folder with a program, its workflow, and `docs/a`.
struct Place(tempfile::TempDir);

impl Place {
    fn new(data: &str, body: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tool.wasm"), wat::parse_str(program(data, body)).unwrap()).unwrap();
        std::fs::create_dir(folder.path().join("docs")).unwrap();
        std::fs::write(folder.path().join("docs/a"), "first").unwrap();
        Self(folder)
    }

    fn text(folders: &str, before: &str) -> String {
        format!(
            "components:
  tool: {{ source: ./tool.wasm, folders: {folders} }}
steps:
{before}  - {{ id: x, uses: tool, with: {{ expect: [ {} ] }} }}
outputs: {{ x: '${{ .steps.x.output }}' }}
",
            (0..256).map(|code| code.to_string()).collect::<Vec<_>>().join(", ")
        )
    }

    fn parse(&self, host: &Host, folders: &str) -> Result<wfhost::host::Workflow, String> {
        host.parse("folders.yaml", &Self::text(folders, ""), self.0.path()).map_err(|error| error.to_string())
    }

    fn output(&self, folders: &str) -> Value {
        let host = host(1, 4);
        let workflow = self.parse(&host, folders).unwrap_or_else(|error| panic!("{error}"));
        outputs(&host.start(&workflow, Map::new(), RunOptions::default()).unwrap().wait())["x"].clone()
    }
}

#[test]
fn it_is_read_where_it_is_granted() {
    let place = Place::new("docs/a", &prints());
    let output = place.output("{ /docs: ./docs }");
    assert_eq!(output, json!({ "stdout": "first", "stderr": "", "code": 0, "files": {} }));
    assert_eq!(place.output("{ /other: ./docs }")["code"], ENOENT);
}

#[test]
fn nothing_in_it_can_be_changed() {
    let exits = |call: &str| format!("(call $proc_exit (call {call}))");
    let path = "(i32.const 3) (i32.const 1024)";
    for (data, body) in [
        ("docs/a", open(6, 0, READ | WRITE)),
        ("docs/a", open(6, TRUNCATE, READ)),
        ("docs/b", open(6, CREATE, READ | WRITE)),
        ("docs/a", exits(&format!("$path_unlink_file {path} (i32.const 6)"))),
        ("docs/d", exits(&format!("$path_create_directory {path} (i32.const 6)"))),
        ("docs/ab", exits(&format!("$path_rename {path} (i32.const 6) (i32.const 3) (i32.const 1030) (i32.const 1)"))),
        ("docsb", exits(&format!("$path_rename {path} (i32.const 4) (i32.const 3) (i32.const 1028) (i32.const 1)"))),
        ("docs/../docs/a", open(14, 0, WRITE)),
    ] {
        let place = Place::new(data, &body);
        assert_eq!(place.output("{ /docs: ./docs }")["code"], EROFS, "{data}: {body}");
        assert_eq!(std::fs::read_to_string(place.0.path().join("docs/a")).unwrap(), "first");
    }
}

#[test]
fn what_cannot_be_granted_is_told_at_its_place() {
    let place = Place::new("docs/a", &prints());
    std::fs::write(place.0.path().join("script.js"), "export function run() {}").unwrap();
    std::os::unix::fs::symlink("/etc", place.0.path().join("etc")).unwrap();
    let host = host(1, 4);
    let told = [
        "{ /docs: ./none }",
        "{ /docs: /etc }",
        "{ /docs: ./etc }",
        "{ docs: ./docs }",
        "{ /a/b: ./docs }",
        "[]",
        "{ /docs: 7 }",
    ]
    .map(|folders| place.parse(&host, folders).err().unwrap_or_else(|| panic!("{folders}")));
    insta::assert_snapshot!(told.join("\n"));
    let script = Place::text("{ /docs: ./docs }", "").replace("tool.wasm", "script.js").replace("expect: ", "codes: ");
    let error = host.parse("folders.yaml", &script, place.0.path()).err().unwrap().to_string();
    assert!(error.contains("only a program"), "{error}");
}

#[test]
fn a_durable_run_goes_on_with_what_it_began_with() {
    let (data, place) = (tempfile::tempdir().unwrap(), Place::new("docs/a", &prints()));
    let options = || RunOptions { id: Some("r".into()), durable: Some(true), ..RunOptions::default() };
    let host = || builder(1, 4).data(data.path()).build().unwrap();
    let first = host();
    let waits = "  - { id: go, wait: { signal: go } }\n";
    let text = Place::text("{ /docs: ./docs }", waits).replace("uses: tool,", "uses: tool, needs: go,");
    let workflow = first.parse("folders.yaml", &text, place.0.path()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let run = first.start(&workflow, Map::new(), options()).unwrap();
    first.suspend(Duration::from_secs(5)).unwrap();
    drop((run, workflow, first));
    std::fs::remove_dir_all(place.0.path().join("docs")).unwrap();
    std::fs::remove_file(place.0.path().join("tool.wasm")).unwrap();

    let second = host();
    let workflow = second.workflow_of("r").unwrap();
    let run = second.recover(&workflow, "r", options()).unwrap();
    run.signal("go", &Value::Null).unwrap();
    assert_eq!(outputs(&run.wait())["x"]["stdout"], "first");
    drop(run);
    second.verify("r").unwrap();
}
