//! Bytes that claim to be a record get no more memory than their number justifies.

use crate::ALLOCATOR;
use bytes::Bytes;
use stats_alloc::Region;
use std::collections::BTreeMap;
use std::sync::Arc;
use wfhost::process::{
    Action, Command, Ending, Grants, Level, Limits, LogLine, Payload, Pid, Placement, Problem, Spawn, Status, Tag,
    Timestamp,
};
use wfhost::run::{Bounds, Decided, Decision, Died, Digest, FORMAT, Record, Started, Stepped};

/// Bytes of memory for each byte of a record, and a constant. A list grows by doubling, and each
/// growth is counted in full; its smallest items take one byte here, and 24 in memory.
const BYTES_PER_BYTE_MAX: usize = 200;
const BYTES_BASE: usize = 4096;

fn records() -> Vec<Record> {
    let grants = Grants(Arc::new(BTreeMap::from([("http".into(), vec!["GET https://example.com".into()])])));
    let line = LogLine { level: Level::Info, text: "text".into(), fields: None };
    let spawn = Spawn {
        component: Some("child".into()),
        entry: "run".into(),
        input: Payload::NULL,
        name: None,
        link: true,
        detached: false,
        narrow: None,
        placement: Some(Arc::new(Placement {
            scope: "a/0/0".into(),
            limits: None,
            grants: Some(grants.clone()),
            cache: None,
        })),
    };
    let command = Command { tag: Tag(1), action: Action::Spawn(spawn.into()) };
    let problem = Problem::new("trap", "The guest trapped").with_detail("detail");
    let (pid, at) = (Pid(3), Timestamp(1_000_000));
    vec![
        Record::Started(Box::new(Started {
            run: "r1".into(),
            seed: [7; 32],
            at,
            root: "blake3:00".into(),
            programs: vec![("child".into(), "blake3:11".into())],
            entry: "run".into(),
            input: Payload::NULL,
            limits: Limits::default(),
            grants,
            bounds: Bounds::default(),
            origin: None,
        })),
        Record::Stepped(Box::new(Stepped {
            pid,
            step: 2,
            at,
            took: 1,
            fuel: 9,
            digest: Digest(5),
            status: Status::Failed(problem.clone().into()),
            owes: false,
            decided: vec![Decided { command, decision: Decision::Spawned(Pid(4)) }],
            log: vec![line.clone()],
            log_dropped: 0,
        })),
        Record::Died(Box::new(Died {
            pid,
            step: 2,
            at,
            fuel: 1,
            ending: Ending::Failed(problem.into()),
            log: vec![line],
            log_dropped: 1,
        })),
    ]
}

fn allocated(bytes: Vec<u8>) -> usize {
    let bytes = Bytes::from(bytes);
    let region = Region::new(ALLOCATOR);
    let decoded = Record::decode(bytes);
    let change = region.change();
    drop(decoded);
    change.bytes_allocated
}

/// Every byte of records in turn, replaced by numbers that claim much: every length field is among
/// them.
pub(crate) fn a_record_gets_what_its_bytes_are_worth() {
    let check = |bytes: Vec<u8>| {
        let (length, allocated) = (bytes.len(), allocated(bytes));
        assert!(allocated <= BYTES_BASE + BYTES_PER_BYTE_MAX * length, "{allocated} bytes for {length}");
    };
    for record in records() {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        check(bytes.clone());
        for place in 0..bytes.len() {
            for claim in [&[0xff, 0xff, 0x03][..], &[0xff, 0xff, 0xff, 0xff, 0x0f], &[0xff; 9], &[0x7f]] {
                let mut claiming = bytes.clone();
                claiming.splice(place..=place, claim.iter().copied());
                check(claiming);
            }
        }
    }
    // Lists of the smallest possible items: commands, patterns of a grant, lines of a log.
    let length = [0xd0, 0x86, 0x03]; // 50,000
    let head = [&[FORMAT, 1][..], &[0; 24], &[1, 1, 0, 0]].concat();
    check([&head[..], &[0], &length, &[0, 4, 0].repeat(50_000), &vec![0; 50_000]].concat());
    check([&head[..], &[0, 0], &length, &vec![0; 3 * 50_000]].concat());
    let start = [&[FORMAT, 0, 0][..], &[0; 32]].concat();
    check([&start[..], &[0, 0], &length, &vec![0; 2 * 50_000]].concat());
    check([&start[..], &[0, 0, 0, 0, 1, 0], &[0; 16], &[1, 0], &length, &vec![0; 50_000]].concat());
}
