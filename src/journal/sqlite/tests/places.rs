//! Places in concurrency groups, against a model of them.

use super::*;
use crate::journal::GroupEntry;
use crate::run::{Act, OnLimit};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn entry(id: &str, group: &str, limit: u32, on_limit: OnLimit, queue_max: u32) -> GroupEntry {
    let reason = format!("{id} takes its place");
    let cancel = Act::Cancel { reason: reason.into(), grace: None }.to_mail("superseded");
    GroupEntry { group: group.into(), limit, on_limit, queue_max, cancel }
}

/// A run of the model, in the order of rows.
#[derive(Clone, Debug)]
struct Modelled {
    id: String,
    group: u8,
    limit: u32,
    state: ModelState,
    asked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ModelState {
    Placed,
    Waiting,
    Superseded,
}

#[derive(Default, Debug)]
struct Model(Vec<Modelled>);

impl Model {
    fn of(&mut self, group: u8, state: ModelState) -> Vec<&mut Modelled> {
        self.0.iter_mut().filter(|run| run.group == group && run.state == state).collect()
    }

    /// Returns whether the run begins.
    fn begin(&mut self, id: &str, group: u8, limit: u32, on_limit: OnLimit, queue_max: u32) -> bool {
        let placed = self.of(group, ModelState::Placed).len();
        let waiting = self.of(group, ModelState::Waiting).len();
        let mut state = ModelState::Waiting;
        if placed < limit as usize && waiting == 0 {
            state = ModelState::Placed;
        } else {
            match on_limit {
                OnLimit::Queue if waiting >= queue_max as usize => return false,
                OnLimit::Skip => return false,
                OnLimit::Queue => {}
                OnLimit::ReplaceQueued | OnLimit::CancelPrevious => {
                    for run in self.of(group, ModelState::Waiting) {
                        (run.state, run.asked) = (ModelState::Superseded, true);
                    }
                    if on_limit == OnLimit::CancelPrevious {
                        let oldest = (placed + 1).saturating_sub(limit as usize);
                        self.of(group, ModelState::Placed)[..oldest].iter_mut().for_each(|run| run.asked = true);
                    }
                }
            }
        }
        // One that replaced all that waited, of a lower limit than its own, may find a place.
        self.0.push(Modelled { id: id.to_owned(), group, limit, state, asked: false });
        self.admit(group);
        true
    }

    fn end(&mut self, at: usize) -> String {
        let run = self.0.remove(at);
        self.admit(run.group);
        run.id
    }

    fn admit(&mut self, group: u8) {
        loop {
            let placed = self.of(group, ModelState::Placed).len();
            match self.of(group, ModelState::Waiting).first_mut() {
                Some(first) if placed < first.limit as usize => first.state = ModelState::Placed,
                _ => return,
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Begin {
        group: u8,
        limit: u32,
        on_limit: OnLimit,
        queue_max: u32,
    },
    End(usize),
    /// The run is released, and removed.
    Remove(usize),
    /// The run is released, and recovered.
    Recover(usize),
    /// What was done since the last flush is in one transaction.
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let on_limit = prop_oneof![
        4 => Just(OnLimit::Queue),
        1 => Just(OnLimit::Skip),
        1 => Just(OnLimit::CancelPrevious),
        1 => Just(OnLimit::ReplaceQueued),
    ];
    let begin = (0..2_u8, 1..4_u32, on_limit, 1..4_u32).prop_map(|(group, limit, on_limit, queue_max)| Step::Begin {
        group,
        limit,
        on_limit,
        queue_max,
    });
    prop_oneof![
        5 => begin,
        4 => (0..20_usize).prop_map(Step::End),
        1 => (0..20_usize).prop_map(Step::Remove),
        1 => (0..20_usize).prop_map(Step::Recover),
        4 => Just(Step::Flush),
    ]
}

/// Compares what the store says with the model.
fn compare(store: &Sqlite, model: &Model) {
    let unfinished = store.unfinished().unwrap();
    let found: BTreeSet<_> = unfinished.iter().map(|run| (run.id.to_string(), run.queued)).collect();
    let expected: BTreeSet<_> = model.0.iter().map(|run| (run.id.clone(), run.state != ModelState::Placed)).collect();
    assert_eq!(found, expected, "{model:?}");
    let mut numbers = [0; 2];
    for run in &model.0 {
        let place = store.queue_place(&run.id).unwrap();
        let number = match run.state {
            ModelState::Placed => None,
            ModelState::Superseded => Some(0),
            ModelState::Waiting => {
                numbers[usize::from(run.group)] += 1;
                Some(numbers[usize::from(run.group)])
            }
        };
        assert_eq!(place.map(|place| place.number), number, "{} of {model:?}", run.id);
        assert_eq!(!store.inbox_of(&run.id).unwrap().is_empty(), run.asked, "{} of {model:?}", run.id);
    }
    let queued: BTreeSet<_> = store.queued().unwrap().into_iter().map(|(id, _)| id.to_string()).collect();
    assert_eq!(queued, expected.into_iter().filter(|(_, waits)| *waits).map(|(id, _)| id).collect());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Places are given as the model gives them, whatever is in one transaction with what. The
    /// model
    /// never leaves a place free while a run waits that may have it.
    #[test]
    fn places_are_given_as_in_the_model(steps in proptest::collection::vec(step(), 1..60)) {
        let folder = tempfile::tempdir().unwrap();
        let (store, listener) = open(folder.path());
        let (mut model, mut logs, mut refused) = (Model::default(), BTreeMap::new(), BTreeSet::new());
        for (number, step) in steps.into_iter().chain([Step::Flush]).enumerate() {
            match step {
                Step::Begin { group, limit, on_limit, queue_max } => {
                    let id = format!("run {number}");
                    let group_entry = entry(&id, &format!("group {group}"), limit, on_limit, queue_max);
                    let mut log = store.begin(&NewRun { group: Some(group_entry), ..new(&id) }).unwrap();
                    let _ = log.append(b"first");
                    // Runs that ended since the last flush are in this transaction, and before it.
                    store.flush().unwrap();
                    if model.begin(&id, group, limit, on_limit, queue_max) {
                        logs.insert(id, log);
                    } else {
                        refused.insert(id);
                    }
                }
                Step::End(at) if at < model.0.len() => {
                    let id = model.end(at);
                    ended(&mut *logs.remove(&id).unwrap(), EndStatus::Succeeded);
                }
                Step::Remove(at) if at < model.0.len() => {
                    let id = model.end(at);
                    drop(logs.remove(&id));
                    store.flush().unwrap();
                    store.remove(&id).unwrap();
                }
                Step::Recover(at) if at < model.0.len() => {
                    let run = &model.0[at];
                    drop(logs.remove(&run.id));
                    store.flush().unwrap();
                    let recovered = store.recover(&run.id).unwrap();
                    prop_assert_eq!(recovered.log.waits_for_place(), run.state != ModelState::Placed);
                    logs.insert(run.id.clone(), recovered.log);
                }
                Step::Flush => {
                    store.flush().unwrap();
                    compare(&store, &model);
                }
                _ => {}
            }
        }
        let lost: BTreeSet<_> = listener.lost.lock().iter().map(|(run, _)| run.clone()).collect();
        prop_assert_eq!(lost, refused);
        // Who waits in the end, by what was reported.
        let placed = listener.placed.lock();
        for run in &model.0 {
            let place = if run.state == ModelState::Placed { Place::Has } else { Place::Waits };
            prop_assert_eq!(placed.get(&run.id), Some(&place), "{}", run.id);
        }
    }
}

#[test]
fn a_run_that_is_refused_leaves_nothing_and_names_the_run_in_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let (store, listener) = open(folder.path());
    let begin = |id: &str, on_limit| {
        let group = Some(entry(id, "deploys", 1, on_limit, 1));
        let mut log = store.begin(&NewRun { group, ..new(id) }).unwrap();
        let _ = log.append(b"first");
        store.flush().unwrap();
        log
    };
    let first = begin("first", OnLimit::Queue);
    let second = begin("second", OnLimit::Skip);
    let _third = begin("third", OnLimit::Queue);
    let _fourth = begin("fourth", OnLimit::Queue);
    let lost = listener.lost.lock().clone();
    assert_eq!(lost[0].1, "the concurrency group \"deploys\" has no place: \"first\" has it");
    assert_eq!(lost[1].1, "1 runs wait for a place in the concurrency group \"deploys\", as many as may");
    assert_eq!(lost.len(), 2);
    assert!(store.run("second").unwrap().is_none() && store.run("fourth").unwrap().is_none());
    let place = store.queue_place("third").unwrap().unwrap();
    assert_eq!((place.number, place.waiting, place.ahead), (1, 1, vec!["first".into()]));
    // Its name is free again.
    drop(second);
    store.flush().unwrap();
    drop(first);
    store.flush().unwrap();
    assert!(store.queue_place("third").unwrap().is_some(), "a run that nobody owns keeps its place");
}

/// Whatever the number of runs, a place costs a look into the index.
#[test]
fn queries_of_places_read_the_index_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let db = store.0.reader();
    for query in [
        "SELECT count(*) FROM (SELECT 1 FROM run WHERE grp = 'g' AND status IS NULL AND queued = 0 LIMIT 5)",
        "SELECT run, id, owner, places FROM run WHERE grp = 'g' AND status IS NULL AND queued = 1 ORDER BY run LIMIT 1",
        "SELECT run FROM run WHERE grp = 'g' AND status IS NULL AND queued = 0 ORDER BY run DESC LIMIT -1 OFFSET 2",
    ] {
        let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
        let rows = plan.query_map([], |row| row.get::<_, String>(3)).unwrap();
        let lines: Vec<String> = rows.map(Result::unwrap).collect();
        assert!(lines.iter().any(|line| line.contains("run_group (grp=? AND queued=?)")), "{lines:?}");
        assert!(!lines.iter().any(|line| line.contains("B-TREE")), "{lines:?}");
    }
}
