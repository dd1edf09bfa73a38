//! Sources that are meant to do harm, or are damaged.

use super::Project;
use crate::support::builder;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

const FLOW: &str = "steps: [ { id: a, uses: ./a.js } ]\noutputs: { a: '${ .steps.a.output }' }\n";

#[track_caller]
fn problems(files: &[(&str, &[u8])]) -> String {
    let project = Project::new(&[("flow.yaml", FLOW)]);
    for (path, bytes) in files {
        project.write(path, bytes);
    }
    project.problems(&builder(1, 2).build().unwrap())
}

#[test]
fn files_that_are_no_sources_are_refused() {
    let run = b"export function run() {}\n".as_slice();
    let large = vec![b' '; (2 << 20) + 1];
    // Files, and what is said of them.
    type Case<'a> = (&'a [(&'a str, &'a [u8])], &'a str);
    let cases: &[Case<'_>] = &[
        (&[("a.js", b"export function run() {} // \xff")], "not UTF-8, in line 1"),
        (&[("a.js", b"\n\0")], "NUL byte, in line 2"),
        (&[("a.js", &large)], "more than 2097152 bytes"),
        (&[("a.js", b"import '../../etc/passwd';")], "outside"),
        (&[("a.js", b"import '/etc/passwd';")], "/etc/passwd"),
        (&[("a.js", b"import './b.js';"), ("b.js", b"\xff")], "not UTF-8"),
        (&[("a.js", b"import './b.js';"), ("b.js/c.js", run)], "no file"),
        (&[("a.js", b"for (;;) {}\nexport function run() {}")], "a.js"),
        (&[("a.js", b"throw new Error('at once');\nexport function run() {}")], "at once"),
        (&[("a.js", b"await new Promise(() => {});\nexport function run() {}")], "a.js"),
        (&[("a.js", b"const x = 1;")], "export"),
    ];
    for (files, why) in cases {
        let said = problems(files);
        assert!(said.contains(why), "{why}: {said}");
    }
}

#[test]
fn a_link_out_of_the_folder_is_not_followed() {
    let project = Project::new(&[("flow.yaml", FLOW), ("a.js", "import './b.js';\nexport function run() {}\n")]);
    std::os::unix::fs::symlink("/etc/passwd", project.path().join("b.js")).unwrap();
    let said = project.problems(&builder(1, 2).build().unwrap());
    assert!(said.contains("a link out of the workflow's folder"), "{said}");
    assert!(!said.contains("root:"), "{said}");
    std::fs::remove_file(project.path().join("a.js")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", project.path().join("a.js")).unwrap();
    let said = project.problems(&builder(1, 2).build().unwrap());
    assert!(said.contains("a link out of the workflow's folder"), "{said}");
}

/// They differ by how an editor stores them.
#[test]
fn a_byte_order_mark_and_carriage_returns_change_nothing() {
    let host = builder(1, 2).build().unwrap();
    let project = Project::new(&[("flow.yaml", FLOW), ("a.js", "export function run() {\n  return `a\nb`;\n}\n")]);
    let digest = |project: &Project| project.workflow(&host).plan().components[0].digest.clone();
    let before = digest(&project);
    project.write("a.js", "\u{feff}export function run() {\r\n  return `a\r\nb`;\r\n}\r\n");
    assert_eq!(digest(&project), before);
    assert_eq!(project.outputs(&host)["a"], "a\nb");
}

#[test]
fn many_modules_are_loaded_and_too_many_are_refused() {
    let host = builder(1, 2).build().unwrap();
    let project = |count: usize| {
        let mut all = String::new();
        let project = Project::new(&[("flow.yaml", FLOW)]);
        for at in 0..count {
            let _ = writeln!(all, "import {{ x as x{at} }} from './m/{at}.js';");
            project.write(&format!("m/{at}.js"), "export const x = 1;\n");
        }
        project.write("a.js", format!("{all}export function run() {{ return x0 + x{}; }}\n", count - 1));
        project
    };
    assert_eq!(project(400).outputs(&host)["a"], 2);
    let said = project(1_000).problems(&host);
    assert!(said.contains("more than 500 files"), "{said}");
}

/// Each is found only when the one before is read.
#[test]
fn a_chain_and_a_cycle_of_modules_end() {
    let host = builder(1, 2).build().unwrap();
    let project = Project::new(&[
        ("flow.yaml", FLOW),
        ("a.js", "import { x } from './m/0.js';\nexport const run = () => x();\n"),
    ]);
    for at in 0..100 {
        let next = (at + 1) % 100;
        project.write(
            &format!("m/{at}.js"),
            format!("import {{ x as y }} from './{next}.js';\nexport const x = () => {at};\n"),
        );
    }
    let begun = Instant::now();
    assert_eq!(project.outputs(&host)["a"], 0);
    assert!(begun.elapsed() < Duration::from_mins(1));
}
