use super::*;
use crate::journal::layout;
use std::sync::mpsc::channel;

fn entry(key: &str, at: u64, output: &str) -> NewEntry {
    let (of, run) = ("flow/step".into(), format!("run-{at}").into());
    NewEntry { key: key.into(), of, run, at: Timestamp(at), ttl: None, output: output.to_owned().into() }
}

/// What the cache has under a key at a time, if it is no older than that.
fn found(cache: &StepCache, key: &str, at: u64, ttl: Option<u64>) -> Option<(String, String)> {
    let (sender, answer) = channel();
    let question = Question { key: key.into(), at: Timestamp(at), ttl: ttl.map(Micros) };
    cache.find(question, move |found| sender.send(found).unwrap());
    let found = answer.recv().unwrap()?;
    Some((found.run, String::from_utf8(found.output.to_vec()).unwrap()))
}

fn is_there(cache: &StepCache, key: &str) -> bool {
    found(cache, key, 1_000, None).is_some()
}

#[test]
fn what_was_kept_is_found_and_the_last_one_counts() {
    let cache = StepCache::in_memory(CacheBounds::default());
    assert_eq!(found(&cache, "a", 1, None), None);
    cache.keep(entry("a", 1, "[1]"));
    cache.keep(entry("a", 2, "[2]"));
    cache.keep(entry("b", 3, "[3]"));
    assert_eq!(found(&cache, "a", 9, None), Some(("run-2".to_owned(), "[2]".to_owned())));
    assert_eq!(found(&cache, "b", 9, None), Some(("run-3".to_owned(), "[3]".to_owned())));
    cache.settle();
    let counts = CacheCounts { hits: 2, misses: 1, kept: 3, dropped: 0, damaged: 0 };
    assert_eq!(cache.counts(), counts);
}

/// Time is that of the runs: no clock is read.
#[test]
fn what_is_too_old_is_not_found() {
    let cache = StepCache::in_memory(CacheBounds::default());
    cache.keep(NewEntry { ttl: Some(Micros(100)), ..entry("a", 1_000, "1") });
    cache.keep(entry("b", 1_000, "2"));
    let is_found = |key, at, ttl| found(&cache, key, at, ttl).is_some();
    assert!(is_found("a", 1_099, None) && is_found("b", u64::MAX, None));
    // As it was kept, and as it is asked for.
    assert!(!is_found("a", 1_100, None) && !is_found("a", 1_051, Some(50)) && is_found("a", 1_050, Some(50)));
    assert!(is_found("b", 2_000, Some(1_000)) && !is_found("b", 2_001, Some(1_000)));
    // A clock that is behind.
    assert!(is_found("a", 5, None) && is_found("b", 5, Some(1)));
    // What has expired goes when something else comes.
    cache.keep(entry("c", 1_200, "3"));
    assert!(!is_found("a", 1_050, None));
}

#[test]
fn the_entries_that_were_not_used_for_longest_go_first() {
    let cache = StepCache::in_memory(CacheBounds { entries: 3, ..CacheBounds::default() });
    for (key, at) in [("a", 1), ("b", 2), ("c", 3)] {
        cache.keep(entry(key, at, "1"));
    }
    assert!(found(&cache, "a", 4, None).is_some());
    cache.settle();
    cache.keep(entry("d", 5, "1"));
    assert_eq!(["a", "b", "c", "d"].map(|key| is_there(&cache, key)), [true, false, true, true]);
    // By bytes too; one that is larger than all is not kept.
    let cache = StepCache::in_memory(CacheBounds { bytes: 3_000, entries: 100 });
    let text = format!("\"{}\"", "x".repeat(1_200));
    for (key, at) in [("a", 1), ("b", 2), ("c", 3)] {
        cache.keep(entry(key, at, &text));
    }
    cache.keep(entry("d", 4, &format!("\"{}\"", "x".repeat(3_000))));
    assert_eq!(["a", "b", "c", "d"].map(|key| is_there(&cache, key)), [false, true, true, false]);
    cache.settle();
    assert_eq!((cache.counts().kept, cache.counts().dropped), (3, 1));
}

#[test]
fn an_entry_that_was_changed_is_not_there_and_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let cache = StepCache::in_folder(folder.path(), CacheBounds::default());
    let db = || rusqlite::Connection::open(folder.path().join(layout::CACHE)).unwrap();
    let changes = [
        "UPDATE entry SET output = CAST('[2]' AS BLOB)",
        "UPDATE entry SET run = 'other'",
        "UPDATE entry SET at = at + 1",
        "UPDATE entry SET key = 'b'",
        "UPDATE entry SET digest = x'00'",
    ];
    for (number, change) in changes.into_iter().enumerate() {
        cache.keep(entry("a", 1, "[1]"));
        cache.settle();
        assert_eq!(db().execute(change, []).unwrap(), 1);
        let key = if change.contains("key") { "b" } else { "a" };
        assert!(!is_there(&cache, key), "{change}");
        cache.settle();
        assert_eq!(cache.counts().damaged, number as u64 + 1, "{change}");
        assert_eq!(StepCache::list(folder.path()).unwrap(), [], "{change}");
    }
}

#[test]
fn processes_share_a_file_and_a_damaged_one_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let open = || StepCache::in_folder(folder.path(), CacheBounds::default());
    assert_eq!(StepCache::list(folder.path()).unwrap(), []);
    assert!(!folder.path().join(layout::CACHE).exists());
    let (one, other) = (open(), open());
    std::thread::scope(|scope| {
        for (cache, from) in [(&one, 0), (&other, 50)] {
            scope.spawn(move || (from..from + 100).for_each(|at| cache.keep(entry(&format!("{at}"), at, "1"))));
        }
    });
    one.settle();
    other.settle();
    assert!((0..150).all(|at| is_there(&one, &format!("{at}")) && is_there(&other, &format!("{at}"))));
    drop((one, other));
    let listed = StepCache::list(folder.path()).unwrap();
    assert_eq!((listed.len(), listed.iter().map(|entry| entry.hits).sum::<u64>()), (150, 300));
    let path = folder.path().join(layout::CACHE);
    let mut bytes = std::fs::read(&path).unwrap();
    let most = bytes.len() - 4_096;
    bytes[4_096..].iter_mut().take(most).for_each(|byte| *byte = 7);
    std::fs::write(&path, bytes).unwrap();
    let cache = open();
    assert!(!is_there(&cache, "1"));
    cache.keep(entry("1", 1, "1"));
    assert!(is_there(&cache, "1"));
}

#[test]
fn some_of_it_can_be_removed() {
    let folder = tempfile::tempdir().unwrap();
    let cache = StepCache::in_folder(folder.path(), CacheBounds::default());
    for (key, at, of) in [("aa1", 10, "x/one"), ("aa2", 20, "x/two"), ("b", 30, "xy/one"), ("c", 40, "z/one")] {
        cache.keep(NewEntry { of: of.into(), ..entry(key, at, "1") });
    }
    cache.settle();
    let remove = |which: &Removal| StepCache::remove(folder.path(), which).unwrap().0;
    assert_eq!(remove(&Removal::Key("%".to_owned())), 0);
    assert_eq!(remove(&Removal::Before(Timestamp(10))), 0);
    assert_eq!(remove(&Removal::Key("aa1".to_owned())), 1);
    assert_eq!(remove(&Removal::Workflow("x".to_owned())), 1);
    assert_eq!(remove(&Removal::Before(Timestamp(31))), 1);
    assert_eq!(remove(&Removal::All), 1);
    assert!(!is_there(&cache, "c"));
}
