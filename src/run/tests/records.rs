//! Records as bytes: what is written is read back, and what is no record is refused with its
//! reason.

use crate::process::{
    Action, Answer, Blob, CacheKey, Call, Command, Ending, Grants, Json, Level, Limits, LogLine, Message, Micros,
    Payload, Pid, Placement, Problem, ProblemClass, Send, Sender, Spawn, Status, Tag, Target, Timestamp,
};
use crate::run::record::former_keys::FormerKey;
use crate::run::{
    ActId, Arrived, Bounds, Damaged, DamagedRecord, Decided, Decision, Died, Digest, FORMAT, FormerKeys, News, Origin,
    Record, RunVersion, Started, Stepped, Upgraded,
};
use bytes::Bytes;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::sync::Arc;

/// Numbers of all lengths on the wire.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..200, any::<u64>(), (0_u32..64).prop_map(|bit| 1 << bit), Just(u64::MAX)]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z/:-]{0,9}", "\\PC{0,6}", "é{100}"]
}

fn name() -> impl Strategy<Value = Arc<str>> {
    text().prop_map(Into::into)
}

fn pid() -> impl Strategy<Value = Pid> {
    number().prop_map(Pid)
}

fn tag() -> impl Strategy<Value = Tag> {
    number().prop_map(Tag)
}

fn micros() -> impl Strategy<Value = Micros> {
    number().prop_map(Micros)
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    number().prop_map(Timestamp)
}

fn json() -> impl Strategy<Value = Json> {
    let texts =
        ["null", " [1.50, {\"é\": []}] ", "\"\\u00e9\"", "-0", "{\"b\":1,\"a\":123456789012345678901234567890}"];
    prop_oneof![
        select(texts.to_vec()).prop_map(|text| Json::parse(text).unwrap()),
        text().prop_map(|text| Json::from_value(&text))
    ]
}

fn payload() -> impl Strategy<Value = Payload> {
    let blob = (text(), number(), text()).prop_map(|(digest, size, media_type)| Blob { digest, size, media_type });
    prop_oneof![
        json().prop_map(Payload::Json),
        vec(any::<u8>(), 0..20).prop_map(|bytes| Payload::Bytes(bytes.into())),
        blob.prop_map(|blob| Payload::Blob(blob.into())),
    ]
}

fn problem() -> impl Strategy<Value = Arc<Problem>> {
    let class = select(vec![ProblemClass::Definite, ProblemClass::Retryable, ProblemClass::Uncertain]);
    let rest = (option::of(text()), class, option::of(micros()), option::of(json()));
    (text(), text(), any::<u16>(), rest).prop_map(|(kind, title, status, (detail, class, retry_after, data))| {
        let (kind, title) = (kind.into(), title.into());
        let may_have_happened = status % 2 == 1;
        Arc::new(Problem { kind, title, status, detail, class, may_have_happened, retry_after, data })
    })
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![payload().prop_map(Ok), problem().prop_map(Err)]
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![Just(Ending::Completed), problem().prop_map(Ending::Failed), name().prop_map(Ending::Cancelled)]
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        pid().prop_map(Target::Process),
        tag().prop_map(Target::Child),
        name().prop_map(Target::Name),
        (name(), name()).prop_map(|(run, name)| Target::Run { run, name }),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let sender = prop_oneof![
        tag().prop_map(Sender::Child),
        pid().prop_map(Sender::Process),
        tag().prop_map(Sender::Call),
        text().prop_map(Sender::Outside),
    ];
    (sender, name(), payload()).prop_map(|(sender, topic, body)| Message { sender, topic, body })
}

/// Every field another number, so that none takes the place of another.
fn limits() -> impl Strategy<Value = Limits> {
    (any::<[u64; 9]>(), any::<[u32; 7]>()).prop_map(|(long, short)| Limits {
        memory_bytes: long[0],
        table_elements: long[1],
        fuel_per_step: long[2],
        fuel_total: long[3],
        commands_per_step: short[0],
        outstanding: short[1],
        outstanding_bytes: long[4],
        mailbox: short[2],
        mailbox_bytes: long[5],
        payload_bytes: long[6],
        output_bytes: long[7],
        spawn_depth: short[3],
        processes: short[4],
        links: short[5],
        log_bytes_per_step: short[6],
        grace: Micros(long[8]),
    })
}

fn grants() -> impl Strategy<Value = Grants> {
    btree_map(text(), vec(text(), 0..3), 0..3).prop_map(|grants| Grants(grants.into()))
}

fn placement() -> impl Strategy<Value = Arc<Placement>> {
    let cache = (name(), name(), option::of(any::<u64>().prop_map(Micros)), any::<bool>());
    let cache = cache.prop_map(|(key, of, ttl, if_pure)| Arc::new(CacheKey { key, of, ttl, if_pure }));
    let parts = (name(), option::of(limits().prop_map(Arc::new)), option::of(grants()), option::of(cache));
    parts.prop_map(|(scope, limits, grants, cache)| Placement { scope, limits, grants, cache }.into())
}

fn spawn() -> impl Strategy<Value = Spawn> {
    let names = (option::of(name()), name(), option::of(name()));
    (names, payload(), any::<(bool, bool)>(), option::of(json()), option::of(placement())).prop_map(
        |((component, entry, name), input, (link, detached), narrow, placement)| Spawn {
            component,
            entry,
            input,
            name,
            link,
            detached,
            narrow,
            placement,
        },
    )
}

fn call() -> impl Strategy<Value = Call> {
    (name(), payload(), option::of(micros()), option::of(name()), option::of(placement())).prop_map(
        |(handler, args, timeout, idempotency_key, placement)| Call {
            handler,
            args,
            timeout,
            idempotency_key,
            placement,
        },
    )
}

fn action() -> impl Strategy<Value = Action> {
    let send = (target(), name(), payload()).prop_map(|(to, topic, body)| Send::new(to, topic, body));
    prop_oneof![
        micros().prop_map(Action::Sleep),
        spawn().prop_map(|spawn| Action::Spawn(spawn.into())),
        call().prop_map(|call| Action::Call(call.into())),
        send.prop_map(Action::Send),
        tag().prop_map(Action::Cancel),
        target().prop_map(Action::Stop),
        target().prop_map(Action::Monitor),
        target().prop_map(Action::Link),
        target().prop_map(Action::Unlink),
        name().prop_map(Action::Register),
        (name(), payload()).prop_map(|(query, value)| Action::Expose { query, value }),
    ]
}

fn status() -> impl Strategy<Value = Status> {
    prop_oneof![
        Just(Status::Ready),
        Just(Status::Blocked),
        Just(Status::Idle),
        payload().prop_map(Status::Complete),
        problem().prop_map(Status::Failed),
        (name(), payload()).prop_map(|(entry, input)| Status::Renew { entry, input }),
    ]
}

fn decision() -> impl Strategy<Value = Decision> {
    prop_oneof![
        Just(Decision::Done),
        answer().prop_map(Decision::Answered),
        timestamp().prop_map(Decision::Due),
        pid().prop_map(Decision::Spawned),
        name().prop_map(Decision::Called),
        pid().prop_map(Decision::Delivered),
        pid().prop_map(Decision::Meant),
        Just(Decision::Waits),
        answer().prop_map(Decision::Took),
        (pid(), ending()).prop_map(|(pid, ending)| Decision::Gone { pid, ending }),
    ]
}

fn log() -> impl Strategy<Value = Vec<LogLine>> {
    let level = select(vec![Level::Trace, Level::Debug, Level::Info, Level::Warn, Level::Error]);
    vec((level, text(), option::of(json())).prop_map(|(level, text, fields)| LogLine { level, text, fields }), 0..3)
}

fn started() -> impl Strategy<Value = Started> {
    let bounds = any::<[u64; 8]>().prop_map(|n| Bounds {
        bytes: n[0],
        ties: n[1],
        exposed: n[2],
        exposed_bytes: n[3],
        kv_keys: n[4],
        kv_bytes: n[5],
        signals: n[6],
        item_bytes: n[7],
    });
    let names = (name(), name(), name(), vec((name(), name()), 0..3));
    (names, any::<[u8; 32]>(), timestamp(), payload(), limits(), grants(), bounds, option::of(origin())).prop_map(
        |((run, root, entry, programs), seed, at, input, limits, grants, bounds, origin)| Started {
            run,
            seed,
            at,
            root,
            programs,
            entry,
            input,
            limits,
            grants,
            bounds,
            origin,
        },
    )
}

fn stepped() -> impl Strategy<Value = Stepped> {
    let decided = (tag(), action(), decision())
        .prop_map(|(tag, action, decision)| Decided { command: Command { tag, action }, decision });
    let head = (pid(), number(), timestamp(), any::<u32>(), number(), any::<u128>());
    (head, (status(), any::<bool>()), vec(decided, 0..4), log(), number()).prop_map(
        |((pid, step, at, took, fuel, digest), (status, owes), decided, log, log_dropped)| Stepped {
            pid,
            step,
            at,
            took,
            fuel,
            digest: Digest(digest),
            status,
            owes,
            decided,
            log,
            log_dropped,
        },
    )
}

fn news() -> impl Strategy<Value = News> {
    prop_oneof![
        (pid(), tag(), answer()).prop_map(|(pid, tag, answer)| News::Answered { pid, tag, answer }),
        (pid(), tag()).prop_map(|(pid, tag)| News::Due { pid, tag }),
        (pid(), message()).prop_map(|(pid, message)| News::Message { pid, message }),
        (pid(), name(), option::of(micros())).prop_map(|(pid, reason, grace)| News::Cancel { pid, reason, grace }),
        (name(), payload()).prop_map(|(name, body)| News::Signal { name, body }),
        any::<bool>().prop_map(News::Paused),
        micros().prop_map(|after| News::TimedOut { after }),
        Just(News::GraceAgain),
        (pid(), tag()).prop_map(|(pid, tag)| News::Again { pid, tag }),
    ]
}

fn act() -> impl Strategy<Value = ActId> {
    (name(), any::<u128>()).prop_map(|(id, digest)| ActId { id, digest: Digest(digest) })
}

fn origin() -> impl Strategy<Value = Origin> {
    let digest = || any::<u128>().prop_map(Digest);
    let known = (name(), option::of(digest())).prop_map(|(beginning, asked)| FormerKey { beginning, asked });
    let former_keys = btree_map(digest(), known, 0..4).prop_map(FormerKeys::of);
    (name(), number(), name(), name(), vec(number(), 0..3), former_keys).prop_map(
        |(run, record, keys, seen_as, held, former_keys)| Origin { run, record, keys, seen_as, held, former_keys },
    )
}

fn upgraded() -> impl Strategy<Value = Upgraded> {
    let version = || {
        (option::of(number()), name(), vec((name(), name()), 0..3), grants())
            .prop_map(|(number, root, programs, grants)| RunVersion { number, root, programs, grants })
    };
    (name(), timestamp(), version(), version()).prop_map(|(run, at, from, to)| Upgraded { run, at, from, to })
}

fn record() -> impl Strategy<Value = Record> {
    let died = ((pid(), number(), timestamp(), number()), ending(), log(), number()).prop_map(
        |((pid, step, at, fuel), ending, log, log_dropped)| Died { pid, step, at, fuel, ending, log, log_dropped },
    );
    // In boxes: otherwise the values of a tree of strategies all lie on the stack side by side.
    prop_oneof![
        1 => started().prop_map(|started| Record::Started(started.into())).boxed(),
        4 => stepped().prop_map(|stepped| Record::Stepped(stepped.into())).boxed(),
        1 => died.prop_map(|died| Record::Died(died.into())).boxed(),
        3 => (timestamp(), option::of(act()), news())
            .prop_map(|(at, act, news)| Record::Arrived(Arrived { at, act, news }.into()))
            .boxed(),
        1 => (pid(), tag()).prop_map(|(pid, tag)| Record::Leaving { pid, tag }).boxed(),
        1 => upgraded().prop_map(|upgraded| Record::Upgraded(upgraded.into())).boxed(),
    ]
}

fn encoded(record: &Record) -> Vec<u8> {
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    bytes
}

fn decode(bytes: &[u8]) -> Result<Record, Damaged> {
    Record::decode(Bytes::copy_from_slice(bytes))
}

/// Any bytes are either a record, which can be written and read back, or are refused with their
/// fault.
fn survives(bytes: &[u8]) -> Result<(), TestCaseError> {
    match decode(bytes) {
        Ok(record) => prop_assert_eq!(decode(&encoded(&record)), Ok(record)),
        Err(error) => prop_assert!(!error.to_string().is_empty()),
    }
    Ok(())
}

proptest! {
    // PROPTEST_CASES can ask for more.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_again(record in record()) {
        prop_assert_eq!(decode(&encoded(&record)), Ok(record));
    }

    #[test]
    fn what_ends_too_early_or_goes_on_is_refused_as_such(record in record()) {
        let mut bytes = encoded(&record);
        for length in 0..bytes.len() {
            prop_assert_eq!(decode(&bytes[..length]), Err(Damaged::Short), "{} of {} bytes", length, bytes.len());
        }
        bytes.extend([0, 0]);
        prop_assert_eq!(decode(&bytes), Err(Damaged::Trailing(2)));
    }

    #[test]
    fn damaged_records_are_survived(
        record in record(),
        edits in vec((any::<Index>(), any::<u8>(), any::<bool>()), 1..4),
        cut in option::of(any::<Index>()),
    ) {
        let mut bytes = encoded(&record);
        for (place, byte, is_flip) in edits {
            let place = place.index(bytes.len());
            bytes[place] = if is_flip { bytes[place] ^ (1 << (byte % 8)) } else { byte };
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        survives(&bytes)?;
    }

    #[test]
    fn any_bytes_are_survived(kind in 0_u8..8, bytes in vec(prop_oneof![0_u8..4, any::<u8>()], 0..200)) {
        survives(&bytes)?;
        survives(&[&[FORMAT, kind], bytes.as_slice()].concat())?;
    }
}

#[test]
fn it_is_said_what_is_wrong() {
    let message = |bytes: &[u8]| decode(bytes).unwrap_err().to_string();
    assert_eq!(message(&[]), "the bytes end too early");
    assert_eq!(message(&[FORMAT + 1, 4, 1, 1]), format!("format {} is not known to this release", FORMAT + 1));
    assert_eq!(message(&[FORMAT, 7]), "there is no kind of record with the number 7");
    assert_eq!(message(&[FORMAT, 3, 0, 0, 9]), "there is no piece of news with the number 9");
    assert_eq!(message(&[FORMAT, 3, 0, 0, 5, 2]), "there is no truth value with the number 2");
    assert_eq!(message(&[FORMAT, 4, 1, 1, 0]), "1 bytes follow the value");
    // A number has at most 64 bits.
    let longest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    assert_eq!(
        decode(&[&[FORMAT, 4][..], &longest, &[1]].concat()),
        Ok(Record::Leaving { pid: Pid(u64::MAX), tag: Tag(1) })
    );
    let mut too_long = longest;
    too_long[9] = 2;
    assert_eq!(message(&[&[FORMAT, 4][..], &too_long, &[1]].concat()), "a number is too large");
    // A signal's name is text, its body JSON.
    assert!(message(&[FORMAT, 3, 0, 0, 4, 1, 0xff]).starts_with("a text is damaged: invalid utf-8"));
    assert!(message(&[FORMAT, 3, 0, 0, 4, 0, 0, 1, b'[']).starts_with("a text is damaged: EOF while parsing"));
}

#[test]
fn the_first_record_that_cannot_be_read_is_reported_by_its_number() {
    let leaving = |pid| Record::Leaving { pid: Pid(pid), tag: Tag(1) };
    let good = |pid| Bytes::from(encoded(&leaving(pid)));
    assert_eq!(Record::decode_all(vec![good(1), good(2)]), Ok(vec![leaving(1), leaving(2)]));
    let damaged = Record::decode_all(vec![good(1), Bytes::new(), Bytes::new()]);
    assert_eq!(damaged, Err(DamagedRecord { number: 2, why: Damaged::Short }));
}
