//! Output for events, without a terminal.

use super::*;
use crate::process::{Ending, Json};
use serde_json::json;

fn progress(live: bool) -> Progress {
    let mut progress = Progress::new(Terminal { colour: false, colour_out: false, live });
    progress.is_loading = false;
    progress.is_list = Box::new(|path| path == "list");
    progress
}

/// A step as the root reports it.
fn node(name: &str, status: &str, done: usize, total: usize) -> RunEvent {
    let node = json!({ "wfhost.node": {
        "node": name, "status": status, "total": total, "done": done, "failed": 0, "flying": 0, "attempts": 1,
    } });
    logged(Pid::ROOT, None, "", Some(&node))
}

fn logged(pid: Pid, scope: Option<&str>, text: &str, fields: Option<&serde_json::Value>) -> RunEvent {
    let fields = fields.map(Json::from_value);
    let line = LogLine { level: Level::Info, text: text.to_owned(), fields };
    RunEvent::Logged { pid, scope: scope.map(Into::into), at: system_time(), line }
}

fn spawned(pid: u64, parent: u64, scope: Option<&str>, entry: &str) -> RunEvent {
    let (pid, parent) = (Pid(pid), Some(Pid(parent)));
    RunEvent::Spawned { pid, parent, component: None, entry: entry.into(), scope: scope.map(Into::into) }
}

#[test]
fn what_a_guest_says_of_its_failure_stays_in_its_line() {
    let mut progress = progress(false);
    let node = json!({ "wfhost.node": {
        "node": "a", "status": "failed", "total": 1, "done": 1, "failed": 1, "flying": 0, "attempts": 1,
        "error": { "kind": "x", "title": "no\n✓ b: succeeded in 3 ms" },
    } });
    progress.show_event(logged(Pid::ROOT, None, "", Some(&node)));
    assert_eq!(progress.pending.lines().collect::<Vec<_>>(), ["✗ a: failed: no\\n✓ b: succeeded in 3 ms (x)"]);
}

#[test]
fn a_line_names_the_step_that_it_comes_from() {
    let mut progress = progress(false);
    for event in [
        spawned(2, 1, Some("one/0/0"), "run"),
        spawned(3, 1, Some("list/7/0"), "run"),
        spawned(4, 3, None, "leaf"),
        spawned(5, 4, None, "twig"),
        logged(Pid(2), None, "from a guest", None),
        logged(Pid(3), None, "from an item", Some(&json!({ "n": 1 }))),
        logged(Pid(4), None, "from a child", None),
        logged(Pid(5), None, "from a grandchild", None),
        RunEvent::Ended { pid: Pid(5), ending: Ending::Completed },
        logged(Pid::ROOT, Some("one/0/0"), "by a call", None),
        logged(Pid::ROOT, Some("list/3/1"), "by a call\nof an item", None),
    ] {
        progress.show_event(event);
    }
    let expected = [
        "  one info: from a guest",
        "  list[7] info: from an item {\"n\":1}",
        "  list[7] > leaf info: from a child",
        "  list[7] > twig info: from a grandchild",
        "  one info: by a call",
        "  list[3] info: by a call",
        "    of an item",
    ];
    assert_eq!(progress.pending.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn nobody_but_the_root_tells_of_steps() {
    let mut progress = progress(true);
    let node = json!({ "wfhost.node": {
        "node": "x", "status": "running", "total": 1, "done": 0, "failed": 0, "flying": 0, "attempts": 1,
    } });
    progress.show_event(logged(Pid(2), None, "a guest", Some(&node)));
    progress.show_event(logged(Pid::ROOT, Some("one/0/0"), "a call", Some(&node)));
    assert!(progress.running.is_empty() && progress.pending.contains("a guest") && progress.pending.contains("a call"));
}

#[test]
fn what_runs_is_a_line_each_as_far_as_there_is_room() {
    let mut progress = progress(true);
    progress.show_event(node("list", "running", 12, 1_000));
    for index in 0..20 {
        progress.show_event(node(&format!("a-step-with-a-long-name-{index}"), "running", 0, 1));
    }
    assert_eq!(progress.pending, "");
    let lines = progress.changing(Size { columns: 40, rows: 8 });
    assert_eq!(lines.len(), 7);
    assert!(lines[0].contains(" list                  12/1000  0."), "{}", lines[0]);
    assert!(lines[1].contains(" a-step-with-a-long-…  0."), "{}", lines[1]);
    assert_eq!(lines[6], "  and 15 more");
    progress.show_event(node("list", "succeeded", 1_000, 1_000));
    assert!(progress.pending.starts_with("✓ list: succeeded, 1000 items in "));
    assert!(!progress.changing(Size { columns: 40, rows: 8 })[0].contains("list"));
}

/// A late event does not lengthen a step.
#[test]
fn what_a_step_took_is_what_its_records_say() {
    let mut progress = progress(true);
    for (status, time) in [("running", 5_000_000), ("succeeded", 5_700_000)] {
        let mut event = node("a", status, 1, 1);
        let RunEvent::Logged { at, .. } = &mut event else { unreachable!() };
        *at = Timestamp(time);
        progress.show_event(event);
    }
    assert_eq!(progress.pending, "✓ a: succeeded in 700 ms\n");
}

#[test]
fn durations_are_as_precise_as_they_are_short() {
    let shown = |millis| duration(Duration::from_millis(millis));
    assert_eq!(duration(Duration::from_micros(900)), "under 1 ms");
    assert_eq!([shown(7), shown(999), shown(1_000), shown(59_999)], ["7 ms", "999 ms", "1.0 s", "59.9 s"]);
    assert_eq!([shown(60_000), shown(3_599_999), shown(3_720_000)], ["1 min 00 s", "59 min 59 s", "1 h 02 min"]);
}

/// A step that waits for a signal, as the root reports it.
fn asks(name: &str) -> RunEvent {
    let wait = json!({ "for": { "signal": { "name": "approve" } }, "since": 1, "until": system_time().0 + 90_500_000 });
    let node = json!({ "wfhost.node": {
        "node": name, "status": "running", "total": 1, "done": 0, "failed": 0, "flying": 0, "attempts": 0,
        "waiting": 1, "waits": [wait],
    } });
    logged(Pid::ROOT, None, "", Some(&node))
}

#[test]
fn a_step_that_waits_for_a_signal_says_so_and_once_how_to_send_it() {
    let signal =
        || Invocation::of(["run", "f.yaml", "--data", "d"].map(Into::into), None).for_stored_run("signal", "o1");
    let mut plain = progress(false);
    plain.signal = Some(signal());
    plain.show_event(asks("a"));
    plain.show_event(asks("a"));
    plain.show_event(asks("b"));
    let expected = [
        "a: waits for signal approve, 1 min 30 s left",
        "hint: wfhost signal o1 approve JSON --data d",
        "b: waits for signal approve, 1 min 30 s left",
    ];
    assert_eq!(plain.pending.lines().collect::<Vec<_>>(), expected);

    let mut live = progress(true);
    (live.signal, live.is_in_front) = (Some(signal()), true);
    live.show_event(asks("a"));
    assert_eq!(live.pending, "hint: wfhost signal o1 approve JSON --data d\n");
    let lines = live.changing(Size { columns: 80, rows: 8 });
    assert!(lines[0].ends_with("  waits for signal approve, 1 min 30 s left"), "{}", lines[0]);
}
