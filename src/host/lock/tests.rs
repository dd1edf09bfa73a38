//! The text of a lock.

use super::*;
use proptest::prelude::*;

fn digest(of: &str) -> String {
    format!("blake3:{}", blake3::hash(of.as_bytes()).to_hex())
}

fn problems(text: &str) -> String {
    LockFile::parse(&Source::new("wfhost.lock", text)).unwrap_err().to_string()
}

#[test]
fn a_lock_is_written_sorted_with_a_line_for_each_part() {
    let mut lock = LockFile::default();
    let parts = [
        (LockedKind::Workflow, "stock/label.yaml"),
        (LockedKind::Component, "oci://registry.example.com/a:1.0"),
        (LockedKind::Component, "./b c.wasm"),
        (LockedKind::Folders, "./x.wasm with /data: ./data"),
    ];
    let parts = parts.map(|(kind, name)| ((kind, name.to_owned()), digest("x")));
    lock.workflows.insert("flow.yaml".to_owned(), LockedParts(parts.into()));
    lock.workflows.insert("empty.yaml".to_owned(), LockedParts::default());
    let text = lock.to_text();
    assert_eq!(LockFile::parse(&Source::new("wfhost.lock", &text)).unwrap(), lock);
    insta::assert_snapshot!(text.replace(&digest("x"), "[digest]"));
}

#[test]
fn a_damaged_lock_is_refused_with_the_place() {
    let good = digest("x");
    let cases = [
        "",
        "- version: 1\n",
        "workflows: {}\n",
        "version: 2\nworkflows: [ other ]\n",
        "version: 1\nworkflow: {}\n",
        "version: 1\nworkflows: [ a.yaml ]\n",
        &format!("version: 1\nworkflows:\n  a.yaml: {{ component: {{ ./x.wasm: {good} }} }}\n"),
        "version: 1\nworkflows:\n  a.yaml: { components: { ./x.wasm: blake3:00 } }\n",
        &format!("version: 1\nworkflows:\n  a.yaml: {{ scripts: {{ x.js: {} }} }}\n", good.to_uppercase()),
        &format!("version: 1\nworkflows:\n<<<<<<< mine\n  a.yaml: {{ scripts: {{ x.js: {good} }} }}\n=======\n"),
        &format!("version: 1\nworkflows:\n  a.yaml:\n    scripts:\n      x.js: {good}\n      x.js: {good}\n"),
    ];
    let all: Vec<String> = cases.iter().map(|text| problems(text)).collect();
    insta::assert_snapshot!(all.join("\n\n----\n\n"));
}

#[test]
fn differences_are_what_changed_what_is_new_and_what_is_gone() {
    let part = |name: &str| (LockedKind::Script, name.to_owned());
    let locked = LockedParts([(part("a"), digest("1")), (part("b"), digest("1")), (part("c"), digest("1"))].into());
    let found = LockedParts([(part("a"), digest("1")), (part("b"), digest("2")), (part("d"), digest("1"))].into());
    let told = |one: &LockDifference| (one.name.clone(), one.locked.is_some(), one.found.is_some());
    let told: Vec<_> = locked.differences(&found).iter().map(told).collect();
    assert_eq!(told, [("b".to_owned(), true, true), ("c".to_owned(), true, false), ("d".to_owned(), false, true)]);
}

proptest! {
    #[test]
    fn every_name_reads_back(names in prop::collection::btree_set("\\PC{1,12}", 1..5)) {
        let parts = names.iter().map(|name| ((LockedKind::Component, name.clone()), digest(name)));
        let mut lock = LockFile::default();
        lock.workflows.insert("flow.yaml".to_owned(), LockedParts(parts.collect()));
        let read = LockFile::parse(&Source::new("wfhost.lock", &lock.to_text()));
        prop_assert_eq!(read.map_err(|problems| problems.to_string()), Ok(lock));
    }
}
