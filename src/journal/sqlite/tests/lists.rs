//! Lists of many runs: each is read by an index, a page at a time.
//!
//! `WFHOST_LISTED_RUNS=1000000 cargo test --release --lib lists_of_many -- --nocapture` measures.

use super::{Sqlite, open};
use crate::journal::{Filter, ListPlace};
use crate::process::Timestamp;
use crate::run::EndStatus;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// When the first run was created, in microseconds.
const BEGINS: u64 = 1_700_000_000_000_000;

/// A page of the API, and whether there is more.
const PAGE: u32 = 51;

/// Makes runs as the writer does, but for their records.
fn fill(store: &Sqlite, runs: u64) {
    let db = store.0.reader();
    let numbers = format!("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {runs})");
    db.execute_batch(&format!(
        "BEGIN;
         {numbers} INSERT INTO run (id, name, status, created, ended, records, version, grp, queued, damage)
         SELECT 'k' || hex(i * 2654435761 % 4294967296) || '-' || i,
             CASE WHEN i % ({runs} / 10) = 7 THEN 'rare' ELSE 'w' || (i * i % 50) END,
             CASE WHEN i % 1000 = 1 THEN 'timed-out' WHEN i % 50 = 3 THEN 'cancelled' WHEN i % 20 = 5 THEN 'failed'
                 WHEN i % 33 = 0 THEN NULL ELSE 'succeeded' END,
             {BEGINS} + i * 1000, CASE WHEN i % 33 = 0 THEN NULL ELSE {BEGINS} + i * 1000 + 500 END, 5, i % 40,
             CASE WHEN i % 330 = 0 THEN 'g' || (i % 5) END, i % 660 = 0,
             CASE WHEN i % ({runs} / 5) = 3 THEN 'broken' END
         FROM n;
         INSERT INTO label SELECT run, 'team', 't' || (run % 10), created FROM run;
         INSERT INTO label SELECT run, 'tenant', 'n' || (run % ({runs} / 100)), created FROM run;
         INSERT INTO waiting SELECT run, 'signal', 'approve', created, NULL FROM run WHERE status IS NULL;
         COMMIT;"
    ))
    .unwrap();
}

/// Every filter of a list, with its name.
fn filters(runs: u64) -> Vec<(&'static str, Filter)> {
    let all = || Filter { limit: Some(PAGE), ..Filter::default() };
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let half = Timestamp(BEGINS + runs * 500);
    let place = ListPlace { created: half, row: runs / 2 };
    let mut filters = vec![
        ("all", all()),
        ("ended", Filter { ended: Some(true), ..all() }),
        ("unfinished", Filter { ended: Some(false), ..all() }),
        ("queued", Filter { queued: true, ..all() }),
        ("damaged", Filter { damaged: true, ..all() }),
        ("workflow", Filter { name: Some("w1".into()), ..all() }),
        ("workflow, rare", Filter { name: Some("rare".into()), ..all() }),
        ("workflows", Filter { workflows: vec!["w1*".into(), "w4".into()], ..all() }),
        ("workflows, rare", Filter { workflows: vec!["ra*".into()], ..all() }),
        ("workflows, none", Filter { workflows: vec!["*-eu".into()], ..all() }),
        ("version", Filter { version: Some(7), ..all() }),
        ("label", Filter { labels: vec![label("team", "t1")], ..all() }),
        ("label, rare", Filter { labels: vec![label("tenant", "n7")], ..all() }),
        ("label, none", Filter { labels: vec![label("tenant", "x")], ..all() }),
        ("labels", Filter { labels: vec![label("team", "t7"), label("tenant", "n7")], ..all() }),
        ("label, page", Filter { labels: vec![label("team", "t1")], after: Some(place), ..all() }),
        ("label, time", Filter { labels: vec![label("team", "t1")], created_before: Some(half), ..all() }),
        ("id", Filter { id_prefix: Some("k32363534".into()), ..all() }),
        ("id, many", Filter { id_prefix: Some("k".into()), ..all() }),
        ("id, none", Filter { id_prefix: Some("x".into()), ..all() }),
        ("created", Filter { created_min: Some(half), ..all() }),
        ("created before", Filter { created_before: Some(Timestamp(BEGINS + 2_000)), ..all() }),
        ("page", Filter { after: Some(place), ..all() }),
        ("page, failed", Filter { after: Some(place), status: Some(EndStatus::Failed), ..all() }),
    ];
    filters.extend(EndStatus::ALL.iter().map(|status| (status.name(), Filter { status: Some(*status), ..all() })));
    filters
}

/// The lines of the plan of a query.
fn plan(store: &Sqlite, query: &str, values: &[rusqlite::types::Value]) -> Vec<String> {
    let db = store.0.reader();
    let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN SELECT run.run FROM {query}")).unwrap();
    let rows = explain.query_map(rusqlite::params_from_iter(values), |row| row.get(3)).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn lists_of_many_runs_are_read_by_an_index() {
    let runs = std::env::var("WFHOST_LISTED_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(5_000);
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    fill(&store, runs);
    let mut slowest = ("", Duration::ZERO);
    for (name, filter) in filters(runs) {
        for part in store.parts(&filter).unwrap() {
            let (query, values) = store.page(&part).unwrap();
            let lines = plan(&store, &query, &values);
            // An order that no index has is that of few.
            let may_sort = name.starts_with("id") || name == "queued";
            let is_by_index = |line: &String| {
                line.contains("USING INDEX")
                    || line.contains("USING COVERING INDEX")
                    || line.contains("PRIMARY KEY")
                    || line.contains("CORRELATED SCALAR SUBQUERY")
                    || (may_sort && line.contains("B-TREE"))
            };
            assert!(lines.iter().all(is_by_index), "{name}: {lines:?}");
        }
        let mut times: Vec<Duration> = (0..100)
            .map(|_| {
                let begun = Instant::now();
                let found = store.list(&filter).unwrap();
                assert!(found.is_sorted_by_key(|run| std::cmp::Reverse((run.created, run.row))));
                assert!(found.len() <= PAGE as usize && (found.is_empty() == name.ends_with("none")), "{name}");
                begun.elapsed()
            })
            .collect();
        times.sort_unstable();
        println!("{name:<16} p50 {:>6} µs, p99 {:>6} µs", times[49].as_micros(), times[98].as_micros());
        slowest = if times[98] > slowest.1 { (name, times[98]) } else { slowest };
    }
    println!("{runs} runs: the slowest is {} with {:?}", slowest.0, slowest.1);
}

/// However it is read, a list has the runs that fit, in its order.
#[test]
fn pages_of_each_filter_have_every_run_that_fits_once() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    fill(&store, 3_000);
    let every = store.list(&Filter::default()).unwrap();
    assert_eq!(every.len(), 3_000);
    for (name, filter) in filters(3_000) {
        let labelled: BTreeSet<u64> = {
            let db = store.0.reader();
            let has = |(key, value): &(String, String)| {
                let mut select = db.prepare("SELECT run FROM label WHERE key = ?1 AND value = ?2").unwrap();
                let rows = select.query_map([key, value], |row| row.get::<_, i64>(0)).unwrap();
                rows.map(|row| row.unwrap().cast_unsigned()).collect::<BTreeSet<_>>()
            };
            let all: BTreeSet<u64> = every.iter().map(|run| run.row).collect();
            filter.labels.iter().fold(all, |left, label| left.intersection(&has(label)).copied().collect())
        };
        let whole = Filter { limit: None, labels: Vec::new(), version: None, ..filter.clone() };
        let is_of_version = |row: u64| filter.version.is_none_or(|version| row % 40 == version);
        let new = crate::journal::NewRun { labels: Vec::new(), ..super::new("x") };
        let fits = |run: &&crate::journal::Stored| {
            let is_queued = run.queued && run.status.is_none() && run.group.is_some();
            whole.fits(run, &new)
                && labelled.contains(&run.row)
                && is_of_version(run.row)
                && (!filter.queued || is_queued)
        };
        let expected: Vec<u64> = every.iter().filter(fits).map(|run| run.row).collect();
        let (mut found, mut after) = (Vec::new(), filter.after);
        loop {
            let page = store.list(&Filter { after, limit: Some(50), ..filter.clone() }).unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.place());
            found.extend(page.iter().map(|run| run.row));
        }
        assert!(found == expected, "{name}: {} runs, and not {}", found.len(), expected.len());
        assert_eq!(store.list(&Filter { limit: None, ..filter.clone() }).unwrap().len(), expected.len(), "{name}");
    }
}
