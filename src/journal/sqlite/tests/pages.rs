//! Reading the records of unfinished runs forward, a page at a time.

use super::*;

/// Reads all records from a number on, in pages.
fn paged(store: &Sqlite, run: &str, from: u64, limit: usize, bytes_max: usize) -> Vec<bytes::Bytes> {
    let mut all = Vec::new();
    loop {
        let page = store.records_within(run, from + all.len() as u64, limit, bytes_max).unwrap();
        if page.is_empty() {
            return all;
        }
        assert!(page.len() <= limit);
        all.extend(page);
    }
}

#[test]
fn pages_are_what_was_appended_however_large_they_are_and_wherever_they_begin() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let (other, _) = open(folder.path());
    let mut logs: Vec<_> = (0..2).map(|run| store.begin(&new(&format!("run {run}"))).unwrap()).collect();
    let mut expected = vec![Vec::new(); 2];
    for round in 0..12 {
        for number in 0..10 {
            for (run, log) in logs.iter_mut().enumerate() {
                // Rows of one record and of several.
                for of_row in 0..=(round + number) % 3 {
                    let record = record(run, round * 100 + number * 10 + of_row);
                    let _ = log.append(&record);
                    expected[run].push(record);
                }
            }
            if number % 2 == 0 {
                store.flush().unwrap();
            }
        }
        store.flush().unwrap();
        for (run, expected) in expected.iter().enumerate() {
            let name = format!("run {run}");
            let all = expected.len();
            for (from, limit, bytes_max) in
                [(1, 7, 1 << 20), (1, 1_000, 700), (all / 2, 3, 1 << 20), (all - 1, 5, 1 << 20), (all + 1, 5, 1 << 20)]
            {
                for store in [&store, &other] {
                    let found = paged(store, &name, from as u64, limit, bytes_max);
                    assert_eq!(found, expected[from - 1..], "{name} from {from} of {all}");
                }
            }
        }
    }
    ended(&mut *logs[0], EndStatus::Succeeded);
    store.flush().unwrap();
    assert_eq!(paged(&store, "run 0", 1, 7, 1 << 20)[..expected[0].len()], expected[0]);
}

#[test]
fn a_row_that_is_missing_is_told_wherever_reading_begins() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let mut log = store.begin(&new("run")).unwrap();
    for number in 0..40 {
        let _ = log.append(&record(1, number));
        store.flush().unwrap();
    }
    assert_eq!(paged(&store, "run", 1, 5, 1 << 20).len(), 40);
    let db = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    db.execute("DELETE FROM log WHERE seq = 21", []).unwrap();
    let failed = (1..=20).filter(|from| match store.records_within("run", *from, 40, 1 << 20) {
        Ok(page) => panic!("{} records from {from} on", page.len()),
        Err(error) => error.to_string().contains("missing"),
    });
    assert_eq!(failed.count(), 20);
    assert_eq!(paged(&store, "run", 22, 5, 1 << 20).len(), 19);
}
