//! Steps with `cache`: which outcomes are used again, by whom, and which are not.

use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use wfhost::dispatch::{Declaration, from_inline_fn};
use wfhost::host::{Host, Outcome, RetryOptions, RunOptions, RunProjection, StepCaching, Workflow};
use wfhost::journal::{CacheBounds, Removal, StepCache};
use wfhost::process::Payload;
use wfhost::run::Record;
use wfhost::workflow::interpreter::Rerun;

/// A host of a folder, and how often its handler `shop` was asked.
struct World {
    host: Host,
    asked: Arc<AtomicU32>,
}

/// Runs of all hosts, whose ids differ.
static RUNS: AtomicU32 = AtomicU32::new(0);

impl World {
    fn new(folder: &Path) -> Self {
        Self::with(folder, StepCaching::default())
    }

    fn with(folder: &Path, caching: StepCaching) -> Self {
        let asked = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&asked);
        let declaration = Declaration::new("Answers with its arguments").repeatable();
        let answer = move |args: Payload, _| {
            counter.fetch_add(1, Relaxed);
            Ok(args)
        };
        let host = Host::builder().workers(1).data(folder).step_cache(caching);
        let host = host.handler("shop", from_inline_fn(declaration, answer)).build().unwrap();
        Self { host, asked }
    }

    fn parse(&self, text: &str) -> Workflow {
        self.host.parse("flow.yaml", text, Path::new(".")).unwrap_or_else(|error| panic!("{error}"))
    }

    async fn run(&self, text: &str) -> Outcome {
        self.run_with(text, json!({})).await
    }

    async fn run_with(&self, text: &str, inputs: Value) -> Outcome {
        let id = format!("run-{}", RUNS.fetch_add(1, Relaxed));
        let options = RunOptions { id: Some(id), ..RunOptions::default() };
        let run = self.host.start(&self.parse(text), inputs.as_object().unwrap().clone(), options).unwrap();
        let outcome = run.finished().await;
        self.host.settle_folder();
        outcome
    }

    fn records(&self, run: &str) -> Vec<Record> {
        self.host.journal().unwrap().unwrap().records(run).unwrap()
    }

    /// The steps of a run as JSON, by their ids.
    fn steps(&self, run: &str) -> Value {
        let steps = RunProjection::of(&self.records(run)).steps();
        steps.into_iter().map(|step| (step.node.clone(), json!(step))).collect::<Map<_, _>>().into()
    }

    /// Hits, misses and what was kept.
    fn counts(&self) -> (u64, u64, u64) {
        let counts = self.host.step_cache_counts().unwrap();
        (counts.hits, counts.misses, counts.kept)
    }
}

const PURE: &str = "
name: pure
inputs: { list: { type: array, default: [ 1, 2, 3 ] } }
steps:
  - { id: double, for-each: '${ .inputs.list }', script: 'return { twice: input * 2 }', with: '${ .item }', cache: auto }
outputs: { all: '${ .steps.double.output | map(.twice) }' }
";

#[tokio::test(flavor = "multi_thread")]
async fn what_depends_on_its_input_alone_is_computed_once() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let first = world.run(PURE).await;
    assert_eq!((first.outputs(), first.counts.processes), (Some(json!({ "all": [2, 4, 6] })), 4));
    assert_eq!(world.counts(), (0, 3, 3));
    let second = world.run(PURE).await;
    // The workflow's own process alone: no guest was made.
    assert_eq!((second.outputs(), second.counts.processes), (Some(json!({ "all": [2, 4, 6] })), 1));
    assert_eq!((second.counts.calls, world.counts()), (0, (3, 3, 3)));
    let step = &world.steps(&second.run)["double"];
    assert_eq!(
        (&step["cached"], &step["cached-from"]["run"], &step["attempts"]),
        (&json!(3), &json!(first.run), &json!(0))
    );
    let third = world.run_with(PURE, json!({ "list": [3, 4] })).await;
    assert_eq!((third.outputs(), third.counts.processes), (Some(json!({ "all": [6, 8] })), 2));
    // Another host of the folder has them, too; one without a cache does not ask.
    drop(world);
    let other = World::new(folder.path());
    assert_eq!(other.run(PURE).await.counts.processes, 1);
    drop(other);
    let off = World::with(folder.path(), StepCaching::Off);
    assert_eq!((off.run(PURE).await.counts.processes, off.host.step_cache_counts()), (4, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_read_a_clock_or_random_numbers_or_gave_commands_is_not_kept() {
    for (script, deed) in [
        ("return Date.now()", "read the clock"),
        ("return new Date().getFullYear() > 2000", "read the clock"),
        ("return Math.random() < 2", "read random numbers"),
        ("await ctx.sleep(1); return 1", "received an event and gave commands, such as calls, messages or spawns"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let world = World::new(folder.path());
        let text = format!("steps: [{{ id: a, cache: auto, script: {} }}]", json!(script));
        for _ in 0..2 {
            let outcome = world.run(&text).await;
            assert_eq!(outcome.counts.processes, 2, "{script}: {:?}", outcome.result);
            assert_eq!(world.steps(&outcome.run)["a"]["uncached"], json!(deed), "{script}");
        }
        assert_eq!(world.counts(), (0, 2, 0), "{script}");
        // By the author's word it is kept.
        let text = text.replace("cache: auto", "cache: { ttl: 1h }");
        let first = world.run(&text).await;
        let second = world.run(&text).await;
        assert_eq!((second.outputs(), second.counts.processes), (first.outputs(), 1), "{script}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_not_kept_nor_is_what_another_script_or_limit_gives() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let fails = "steps: [{ id: a, cache: { key: x }, script: 'throw new Error(\"no\")' }]";
    for _ in 0..2 {
        assert!(world.run(fails).await.result.is_err());
    }
    assert_eq!(world.counts(), (0, 2, 0));
    world.run(PURE).await;
    for (from, to) in [("* 2", "* 3"), ("cache: auto", "cache: auto, limits: { memory: 32MiB }")] {
        let outcome = world.run(&PURE.replace(from, to)).await;
        assert_eq!(outcome.counts.processes, 4, "{to}: {:?}", outcome.result);
    }
}

const CALLS: &str = "
name: calls
inputs: { day: { type: string, default: monday }, ask: { default: 1 } }
steps:
  - { id: ask, call: shop, with: [ '${ .inputs.ask }' ], cache: { ttl: 1h, key: '${ .inputs.day }' } }
outputs: { got: '${ .steps.ask.output[0] }' }
";

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_answered_by_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let ask = async |text: &str, inputs: Value| {
        let before = world.asked.load(Relaxed);
        let outcome = world.run_with(text, inputs).await;
        let got = outcome.outputs().map(|outputs| outputs["got"].clone()).unwrap_or_default();
        (got, world.asked.load(Relaxed) - before)
    };
    assert_eq!(ask(CALLS, json!({})).await, (json!(1), 1));
    // The key is the author's: what is asked does not matter.
    assert_eq!(ask(CALLS, json!({ "ask": 2 })).await, (json!(1), 0));
    assert_eq!(ask(CALLS, json!({ "day": "tuesday", "ask": 2 })).await, (json!(2), 1));
    // Another step, and another workflow, have others.
    assert_eq!(ask(&CALLS.replace("name: calls", "name: others"), json!({ "ask": 3 })).await, (json!(3), 1));
    assert_eq!(
        ask(&CALLS.replace("ask,", "ask2,").replace("steps.ask.", "steps.ask2."), json!({ "ask": 4 })).await,
        (json!(4), 1)
    );
    // Without a key the arguments are it.
    let by_input = CALLS.replace(", key: '${ .inputs.day }'", "");
    assert_eq!(ask(&by_input, json!({ "ask": 5 })).await, (json!(5), 1));
    assert_eq!(ask(&by_input, json!({ "ask": 5, "day": "friday" })).await, (json!(5), 0));
    assert_eq!(ask(&by_input, json!({ "ask": 6 })).await, (json!(6), 1));
    // What is too old is asked for again, whatever it was kept with.
    std::thread::sleep(std::time::Duration::from_millis(30));
    assert_eq!(ask(&by_input.replace("1h", "20ms"), json!({ "ask": 5 })).await, (json!(5), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_kept_on_an_authors_word_is_not_found_by_a_step_that_trusts_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let clock = "
name: clock
steps: [{ id: at, script: 'return Date.now() > 0', with: 1, cache: { ttl: 1h } }]
";
    assert_eq!(world.run(clock).await.counts.processes, 2);
    assert_eq!(world.run(clock).await.counts.processes, 1);
    assert_eq!(world.run(&clock.replace("{ ttl: 1h }", "auto")).await.counts.processes, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_of_use_to_its_run_alone_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let digest = format!("blake3:{}", "0a".repeat(32));
    let placeholder = format!("wfhost-secret-KEY-{}", "0a".repeat(16));
    for (ask, kept) in [
        (json!(digest), 0),
        (json!({ "text": format!("at {digest}.") }), 0),
        (json!([placeholder]), 0),
        (json!(&digest[1..]), 1),
        (json!(&digest[..70]), 2),
    ] {
        let inputs = json!({ "ask": ask, "day": ask.to_string() });
        let outcome = world.run_with(CALLS, inputs).await;
        assert_eq!(outcome.outputs(), Some(json!({ "got": ask })));
        assert_eq!(world.counts().2, kept, "{ask}");
    }
    let puts = "
name: puts
steps: [{ id: put, call: blob.put, with: { text: hi }, cache: { ttl: 1h } }]
outputs: { size: '${ .steps.put.output.size }' }
";
    assert_eq!(world.run(puts).await.outputs(), Some(json!({ "size": 2 })));
    assert_eq!(world.counts().2, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_is_run_again_on_purpose_does_not_ask() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let outcome = world.run(CALLS).await;
    let workflow = world.parse(CALLS);
    let records = world.host.journal().unwrap().unwrap().records(&outcome.run).unwrap();
    let options = RetryOptions { again: Rerun::From("ask".to_owned()), ..RetryOptions::default() };
    let prepared = world.host.prepare_retry(&workflow, &records, &workflow, options).unwrap();
    let run = world.host.retry(&workflow, prepared, RunOptions::default()).unwrap();
    let id = run.id().to_string();
    assert_eq!(run.finished().await.outputs(), Some(json!({ "got": 1 })));
    world.host.settle_folder();
    assert_eq!((world.asked.load(Relaxed), world.counts()), (2, (0, 1, 2)));
    // It has kept what it was given.
    let next = world.run(CALLS).await;
    assert_eq!(world.steps(&next.run)["ask"]["cached-from"]["run"], json!(id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_cache_is_an_empty_one() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    world.run(PURE).await;
    drop(world);
    let file = folder.path().join("cache.db");
    for damage in [b"no database".to_vec(), vec![0; 40_000]] {
        std::fs::write(&file, damage).unwrap();
        let _ = std::fs::remove_file(folder.path().join("cache.db-wal"));
        let world = World::new(folder.path());
        let outcome = world.run(PURE).await;
        assert_eq!((outcome.outputs(), outcome.counts.processes), (Some(json!({ "all": [2, 4, 6] })), 4));
        assert_eq!(world.run(PURE).await.counts.processes, 1);
        drop(world);
    }
    // A folder where no file can be.
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(folder.path().join(format!("cache.db{suffix}")));
    }
    std::fs::create_dir(&file).unwrap();
    let world = World::new(folder.path());
    for _ in 0..2 {
        assert_eq!(world.run(PURE).await.counts.processes, 4);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hosts_use_one_cache_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let list: Vec<u32> = (0..200).collect();
    let inputs = json!({ "list": list });
    let worlds = [World::new(folder.path()), World::new(folder.path())];
    let run = async |world: &World| {
        let workflow = world.parse(PURE);
        let run = world.host.start(&workflow, inputs.as_object().unwrap().clone(), RunOptions::default()).unwrap();
        run.finished().await
    };
    let expected = Some(json!({ "all": list.iter().map(|item| item * 2).collect::<Vec<_>>() }));
    let (one, other) = tokio::join!(run(&worlds[0]), run(&worlds[1]));
    assert_eq!((one.outputs(), other.outputs()), (expected.clone(), expected.clone()));
    for world in &worlds {
        world.host.settle_folder();
        let again = run(world).await;
        assert_eq!((again.outputs(), again.counts.processes), (expected.clone(), 1));
    }
    assert_eq!(StepCache::list(folder.path()).unwrap().len(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_holds_no_more_than_it_may() {
    let folder = tempfile::tempdir().unwrap();
    let bounds = CacheBounds { entries: 10, ..CacheBounds::default() };
    let world = World::with(folder.path(), StepCaching::Bounded(bounds));
    world.run_with(PURE, json!({ "list": (0..25).collect::<Vec<_>>() })).await;
    let entries = StepCache::list(folder.path()).unwrap();
    assert_eq!(entries.len(), 10);
    assert!(entries.iter().all(|entry| entry.of == "pure/double"), "{entries:?}");
    assert_eq!(StepCache::remove(folder.path(), &Removal::Workflow("pur".to_owned())).unwrap().0, 0);
    assert_eq!(StepCache::remove(folder.path(), &Removal::Key(entries[0].key[..12].to_owned())).unwrap().0, 1);
    assert_eq!(StepCache::remove(folder.path(), &Removal::Workflow("pure".to_owned())).unwrap().0, 9);
    assert!(StepCache::list(folder.path()).unwrap().is_empty());
}

/// What the cache said is in the records: neither a replay nor a run that goes on asks again.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_on_from_every_record_without_asking_twice() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    world.run(CALLS).await;
    let hit = world.run(CALLS).await;
    let stored = world.host.journal().unwrap().unwrap().records(&hit.run).unwrap();
    let questions = world.counts().0 + world.counts().1;
    StepCache::remove(folder.path(), &Removal::All).unwrap();
    world.host.rebuild(&world.parse(CALLS), &stored).unwrap();
    assert_eq!(world.counts().0 + world.counts().1, questions);
    let asked = world.asked.load(Relaxed);
    let answered = |record: &Record| matches!(record, Record::Arrived(_));
    let at = world.records(&hit.run).iter().position(answered).unwrap() as u64 + 1;
    for at in at..stored.len() as u64 {
        let id = format!("from-{at}");
        let options = wfhost::host::ForkOptions { at, id: Some(id.clone()), ..Default::default() };
        world.host.fork(&world.parse(CALLS), &hit.run, options).unwrap();
        let run = world.host.recover(&world.parse(CALLS), &id, RunOptions::default()).unwrap();
        assert_eq!(run.finished().await.outputs(), hit.outputs(), "from record {at}");
    }
    assert_eq!((world.asked.load(Relaxed), world.counts().0 + world.counts().1), (asked, questions));
}
