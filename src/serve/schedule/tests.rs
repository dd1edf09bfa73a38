//! Turns of a real service at chosen times: what fires, what is skipped, and that nothing fires
//! twice.

use super::turn::{Turn, turn};
use super::{outcome, run_id, sync};
use crate::host::Host;
use crate::journal::catalog::{Firing, Schedule, ScheduleWrite};
use crate::process::Timestamp;
use crate::serve::{Service, ServiceOptions};
use crate::workflow::schedule::ScheduleSpec;
use std::sync::Arc;
use std::time::{Duration, Instant};

const QUICK: &str = "name: quick\ninputs: { due: { type: string, required: false } }\n\
    steps: [{ id: a, set: \"${ .inputs.due }\" }]\noutputs: { due: \"${ .steps.a.output }\" }\n";
const SLOW: &str = "name: slow\nsteps: [{ id: a, wait: { signal: go } }]\n";

struct Bench {
    service: Arc<Service>,
    _runtime: tokio::runtime::Runtime,
    _folder: tempfile::TempDir,
}

fn at(text: &str) -> Timestamp {
    Timestamp(text.parse::<jiff::Timestamp>().unwrap().as_microsecond().cast_unsigned())
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let builder = Host::builder().workers(1).data(folder.path()).runtime(runtime.handle().clone());
        let host = builder.build().unwrap();
        let service = Service::new(host, ServiceOptions::default()).unwrap();
        let bench = Self { service, _runtime: runtime, _folder: folder };
        bench.deploy("quick.yaml", QUICK);
        bench.deploy("slow.yaml", SLOW);
        bench
    }

    fn deploy(&self, file: &str, text: &str) {
        let workflow = self.service.host().parse(file, text, ".").unwrap();
        let (deployed, _) = self.service.deploy(workflow, "test", None).unwrap();
        self.service.activate(&deployed.version.name, deployed.version.number, "test", None).unwrap();
    }

    /// Writes a schedule at a time.
    fn put(&self, name: &str, spec: ScheduleSpec, now: &str) {
        let schedule = Schedule {
            name: name.to_owned(),
            origin: "api".to_owned(),
            workflow: spec.workflow.clone(),
            spec: serde_json::json!(spec).to_string(),
            author: "test".to_owned(),
        };
        let written = self.service.store().put_schedule(&schedule, None, at(now)).unwrap();
        assert!(matches!(written, ScheduleWrite::Stored { .. }));
        self.service.schedules.mark_stale();
    }

    fn turn(&self, now: &str) -> Turn {
        turn(&self.service, at(now)).unwrap()
    }

    /// The history as `time outcome`, the earliest first.
    fn history(&self, name: &str) -> Vec<String> {
        let firings = self.service.store().firings(name, None, 1_000).unwrap();
        let text = |firing: &Firing| {
            let due = jiff::Timestamp::from_microsecond(firing.due.0.cast_signed()).unwrap();
            format!("{} {}", due.strftime("%d %H:%M"), firing.outcome)
        };
        firings.iter().rev().map(text).collect()
    }

    fn runs(&self) -> u64 {
        self.service.store().count(&crate::journal::Filter::default()).unwrap()
    }

    fn ended(&self, run: &str) {
        let begins = Instant::now();
        while self.service.store().run(run).unwrap().is_none_or(|run| run.status.is_none()) {
            assert!(begins.elapsed() < Duration::from_secs(20), "{run} does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn spec(workflow: &str, cron: &str, more: &str) -> ScheduleSpec {
    let mut spec: serde_json::Value = serde_json::from_str(more).unwrap();
    spec["workflow"] = workflow.into();
    spec["cron"] = cron.into();
    spec["zone"] = spec.get("zone").cloned().unwrap_or("UTC".into());
    serde_json::from_value(spec).unwrap()
}

#[test]
fn each_due_time_fires_once_with_its_inputs() {
    let bench = Bench::new();
    let more = r#"{ "overlap": "allow", "inputs": { "due": "${ .due }" } }"#;
    bench.put("s", spec("quick", "*/10 * * * *", more), "2026-05-01T09:55:00Z");
    assert_eq!(bench.turn("2026-05-01T09:59:59Z").wake, Some(at("2026-05-01T10:00:00Z")));
    assert_eq!(bench.runs(), 0);
    for _ in 0..3 {
        assert_eq!(bench.turn("2026-05-01T10:00:01Z").wake, Some(at("2026-05-01T10:10:00Z")));
    }
    bench.turn("2026-05-01T10:10:00Z");
    assert_eq!(bench.history("s"), ["01 10:00 fired", "01 10:10 fired"]);
    assert_eq!(bench.runs(), 2);
    let run = run_id("s", at("2026-05-01T10:10:00Z"));
    bench.ended(&run);
    let manifest = bench.service.store().manifest(&run).unwrap().unwrap();
    assert!(manifest.contains(r#""started_by":"schedule""#), "{manifest}");
    let records = bench.service.store().records(&run).unwrap().concat();
    assert!(String::from_utf8_lossy(&records).contains("2026-05-01T10:10:00Z"));
}

#[test]
fn a_crash_between_start_and_note_gives_one_run() {
    let bench = Bench::new();
    bench.put("s", spec("quick", "0 * * * *", "{}"), "2026-05-01T09:55:00Z");
    bench.turn("2026-05-01T10:00:00Z");
    assert_eq!(bench.runs(), 1);
    // As if the service had ended before the note, and another one had begun much later.
    bench.put("s", spec("quick", "0 * * * *", r#"{ "jitter": "1s" }"#), "2026-05-01T09:56:00Z");
    let firing = bench.service.store().firing("s", at("2026-05-01T10:00:00Z")).unwrap().unwrap();
    bench.service.store().remove_schedule("s", None).unwrap().unwrap();
    bench.put("s", spec("quick", "0 * * * *", r#"{ "catch-up": "none" }"#), "2026-05-01T09:56:00Z");
    assert_eq!(bench.history("s"), [""; 0]);
    bench.turn("2026-05-01T10:30:00Z");
    assert_eq!(bench.history("s"), ["01 10:00 fired"]);
    assert_eq!(bench.service.store().firing("s", firing.due).unwrap().unwrap().run, firing.run);
    assert_eq!(bench.runs(), 1);
}

#[test]
fn a_clock_that_is_set_back_and_forth_fires_nothing_twice() {
    let bench = Bench::new();
    bench.put("s", spec("quick", "*/10 * * * *", r#"{ "overlap": "allow" }"#), "2026-05-01T09:55:00Z");
    for now in ["10:00:00", "10:10:00", "10:20:30"] {
        bench.turn(&format!("2026-05-01T{now}Z"));
    }
    // Back by 25 minutes: the same times come again, and are known.
    bench.service.schedules.mark_stale();
    assert_eq!(bench.turn("2026-05-01T09:55:30Z").wake, Some(at("2026-05-01T10:00:00Z")));
    for now in ["10:00:00", "10:10:00", "10:20:00"] {
        bench.turn(&format!("2026-05-01T{now}Z"));
    }
    assert_eq!(bench.runs(), 3);
    // Forth by an hour: the last due time is caught up, the others are missed.
    bench.service.schedules.mark_stale();
    bench.turn("2026-05-01T11:25:00Z");
    let history = bench.history("s");
    assert_eq!(history[..3], ["01 10:00 fired", "01 10:10 fired", "01 10:20 fired"]);
    assert_eq!(history[3], "01 10:30 missed");
    assert_eq!(history.last().unwrap(), "01 11:20 caught-up");
    assert_eq!((history.len(), bench.runs()), (9, 4));
}

#[test]
fn a_long_stop_is_caught_up_within_a_day() {
    let bench = Bench::new();
    let more = r#"{ "catch-up": "all", "overlap": "allow" }"#;
    bench.put("s", spec("quick", "0 */6 * * *", more), "2026-05-01T00:00:00Z");
    bench.turn("2026-05-04T01:00:00Z");
    let history = bench.history("s");
    assert_eq!(history[0], "01 06:00 missed");
    let firing = bench.service.store().firing("s", at("2026-05-01T06:00:00Z")).unwrap().unwrap();
    assert!(firing.reason.unwrap().contains("not caught up"));
    assert_eq!(history[1..], ["03 06:00", "03 12:00", "03 18:00", "04 00:00"].map(|due| format!("{due} caught-up")));
    assert_eq!(bench.runs(), 4);
}

#[test]
fn days_on_which_clocks_change_fire_once() {
    let bench = Bench::new();
    let more = r#"{ "zone": "Europe/Berlin", "overlap": "allow" }"#;
    for (name, day) in [("spring", "2026-03-28"), ("autumn", "2026-10-24")] {
        bench.put(name, spec("quick", "30 2 * * *", more), &format!("{day}T12:00:00Z"));
        let mut now = at(&format!("{day}T12:00:00Z"));
        // Each half hour of three days, as a clock passes.
        for _ in 0..144 {
            now = Timestamp(now.0 + 1_800_000_000);
            turn(&bench.service, now).unwrap();
        }
    }
    assert_eq!(bench.history("spring")[..3], ["29 01:00 fired", "30 00:30 fired", "31 00:30 fired"]);
    assert_eq!(bench.history("autumn"), ["25 00:30 fired", "26 01:30 fired", "27 01:30 fired"]);
}

#[test]
fn an_earlier_run_that_has_not_ended_holds_the_next_as_the_schedule_says() {
    let bench = Bench::new();
    for overlap in ["skip", "queue", "queue-all", "cancel-previous", "allow"] {
        let more = format!(r#"{{ "overlap": "{overlap}" }}"#);
        bench.put(overlap, spec("slow", "0 * * * *", &more), "2026-05-01T09:30:00Z");
    }
    for hour in 10..14 {
        bench.turn(&format!("2026-05-01T{hour}:00:00Z"));
        if hour == 10 {
            continue;
        }
        // The run that was cancelled has a moment to end.
        bench.ended(&run_id("cancel-previous", at(&format!("2026-05-01T{}:00:00Z", hour - 1))));
    }
    let outcomes = |name: &str| bench.history(name).iter().map(|line| line[9..].to_owned()).collect::<Vec<_>>();
    assert_eq!(outcomes("skip"), ["fired", "skipped", "skipped", "skipped"]);
    assert_eq!(outcomes("queue"), ["fired", "queued", "skipped", "skipped"]);
    assert_eq!(outcomes("queue-all"), ["fired", "queued", "queued", "queued"]);
    assert_eq!(outcomes("cancel-previous"), ["fired"; 4]);
    assert_eq!(outcomes("allow"), ["fired"; 4]);
    // When the first has ended, the next of the queue starts, and only that.
    let first = run_id("queue-all", at("2026-05-01T10:00:00Z"));
    let turn = bench.turn("2026-05-01T13:00:01Z");
    assert!(turn.awaited.contains(&first));
    bench.service.host().signal(&first, "go", &serde_json::json!(1), None).unwrap();
    bench.ended(&first);
    bench.turn("2026-05-01T13:00:02Z");
    assert_eq!(outcomes("queue-all"), ["fired", "fired", "queued", "queued"]);
    let counts = bench.service.schedules.counts();
    let count = |outcome| counts.iter().find(|(name, found, _)| name == "skip" && *found == outcome).unwrap().2;
    assert_eq!((count(outcome::FIRED), count(outcome::SKIPPED)), (1, 3));
}

#[test]
fn a_new_version_replaces_the_schedule_of_a_workflow() {
    let bench = Bench::new();
    let file = |schedule: &str| format!("{schedule}{QUICK}");
    bench.deploy("quick.yaml", &file("schedule: { cron: \"0 9 * * *\", zone: UTC }\n"));
    let stored = bench.service.store().schedule("quick").unwrap().unwrap();
    assert!(stored.schedule.spec.contains("0 9 * * *"));
    assert_eq!(stored.schedule.origin, "workflow");
    bench.deploy("quick.yaml", &file("schedule: { cron: \"0 10 * * *\", zone: UTC }\n"));
    let stored = bench.service.store().schedule("quick").unwrap().unwrap();
    assert!(stored.schedule.spec.contains("0 10 * * *") && stored.revision == 2);
    // The same again changes nothing.
    sync(&bench.service, "quick").unwrap();
    assert_eq!(bench.service.store().schedule("quick").unwrap().unwrap(), stored);
    bench.deploy("quick.yaml", QUICK);
    assert_eq!(bench.service.store().schedule("quick").unwrap(), None);
}

#[test]
fn what_cannot_be_started_is_noted_with_its_reason() {
    let bench = Bench::new();
    bench.put("gone", spec("nothing", "0 * * * *", "{}"), "2026-05-01T09:30:00Z");
    bench.put("unfit", spec("quick", "0 * * * *", r#"{ "inputs": { "due": 7 } }"#), "2026-05-01T09:30:00Z");
    bench.turn("2026-05-01T10:00:00Z");
    for (name, why) in [("gone", "nothing"), ("unfit", "due")] {
        let firing = bench.service.store().firings(name, None, 1).unwrap().remove(0);
        assert_eq!((firing.outcome.as_str(), firing.run), ("failed", None));
        assert!(firing.reason.as_ref().unwrap().contains(why), "{:?}", firing.reason);
    }
    // They are not tried again, and the next due time is.
    assert_eq!(bench.turn("2026-05-01T10:00:01Z").wake, Some(at("2026-05-01T11:00:00Z")));
}

#[test]
fn the_history_is_bounded_and_a_paused_schedule_is_not_due() {
    let bench = Bench::new();
    bench.put("s", spec("quick", "* * * * *", r#"{ "catch-up": "none" }"#), "2026-05-01T00:00:00Z");
    bench.turn("2026-05-01T23:00:30Z");
    let history = bench.history("s");
    assert_eq!((history.len(), history[0].as_str()), (1_000, "01 00:01 missed"));
    let first = bench.service.store().firing("s", at("2026-05-01T00:01:00Z")).unwrap().unwrap();
    assert!(first.reason.unwrap().contains("before 2026-05-01T06:22:00"));
    bench.service.store().pause_schedule("s", true, at("2026-05-01T23:00:40Z")).unwrap().unwrap();
    bench.service.schedules.mark_stale();
    assert_eq!(bench.turn("2026-05-02T12:00:00Z").wake, None);
    bench.service.store().pause_schedule("s", false, at("2026-05-02T12:00:10Z")).unwrap().unwrap();
    bench.service.schedules.mark_stale();
    assert_eq!(bench.turn("2026-05-02T12:00:10Z").wake, Some(at("2026-05-02T12:01:00Z")));
    assert_eq!(bench.history("s").last().unwrap(), "01 23:00 fired");
}

#[test]
fn what_was_skipped_does_not_fire_when_the_clock_is_set_back() {
    let bench = Bench::new();
    bench.put("s", spec("slow", "0 * * * *", r#"{ "overlap": "skip" }"#), "2026-05-01T09:30:00Z");
    bench.turn("2026-05-01T10:00:00Z");
    bench.turn("2026-05-01T11:00:00Z");
    let first = run_id("s", at("2026-05-01T10:00:00Z"));
    bench.service.host().signal(&first, "go", &serde_json::json!(1), None).unwrap();
    bench.ended(&first);
    bench.service.schedules.mark_stale();
    assert_eq!(bench.turn("2026-05-01T10:59:30Z").wake, Some(at("2026-05-01T11:00:00Z")));
    bench.turn("2026-05-01T11:00:00Z");
    assert_eq!(bench.history("s"), ["01 10:00 fired", "01 11:00 skipped"]);
    assert_eq!(bench.runs(), 1);
}

#[test]
fn a_due_time_does_not_overtake_those_that_are_queued() {
    let bench = Bench::new();
    bench.put("s", spec("slow", "0 * * * *", r#"{ "overlap": "queue-all" }"#), "2026-05-01T09:30:00Z");
    bench.turn("2026-05-01T10:00:00Z");
    bench.turn("2026-05-01T11:00:00Z");
    let first = run_id("s", at("2026-05-01T10:00:00Z"));
    bench.service.host().signal(&first, "go", &serde_json::json!(1), None).unwrap();
    bench.ended(&first);
    bench.turn("2026-05-01T12:00:00Z");
    assert_eq!(bench.history("s"), ["01 10:00 fired", "01 11:00 fired", "01 12:00 queued"]);
}
