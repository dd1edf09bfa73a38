//! Due times against the oracle, on days when clocks change, and over all zones.

use super::*;
use crate::process::Timestamp as Time;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use std::str::FromStr as _;

fn spec(cron: &str, zone: &str) -> ScheduleSpec {
    ScheduleSpec { cron: Some(cron.to_owned()), zone: Some(zone.to_owned()), ..ScheduleSpec::default() }
}

fn table(mut spec: ScheduleSpec) -> Timetable {
    spec.check().unwrap_or_else(|faults| panic!("{faults:?}"))
}

fn micros(text: &str) -> Time {
    Time(text.parse::<Timestamp>().unwrap().as_microsecond().cast_unsigned())
}

/// The next due times as local texts with their notes.
fn next(table: &Timetable, after: &str, count: usize) -> Vec<String> {
    let due = upcoming(table, micros(after), count);
    let text = |due: &DueTime| due.local.strftime("%m-%d %H:%M%:z").to_string();
    due.iter().map(|due| due.note.as_ref().map_or(text(due), |note| format!("{} ({note})", text(due)))).collect()
}

#[test]
fn a_time_in_a_gap_is_due_after_it_or_not_at_all() {
    let mut spec = spec("30 2 * * *", "Europe/Berlin");
    assert_eq!(
        next(&table(spec.clone()), "2026-03-27T12:00:00Z", 3),
        ["03-28 02:30+01:00", "03-29 03:00+02:00 (29 March has no 02:30: due at 03:00)", "03-30 02:30+02:00"]
    );
    spec.dst.gap = GapRule::Skip;
    assert_eq!(
        next(&table(spec), "2026-03-27T12:00:00Z", 2),
        ["03-28 02:30+01:00", "03-30 02:30+02:00 (29 March has no 02:30: not due that day)"]
    );
}

#[test]
fn many_times_in_a_gap_are_due_once_after_it() {
    let table = table(spec("*/15 2,3 * * *", "Europe/Berlin"));
    assert_eq!(
        next(&table, "2026-03-28T02:40:00Z", 4),
        [
            "03-28 03:45+01:00",
            "03-29 03:00+02:00 (29 March has no 02:00: due at 03:00)",
            "03-29 03:15+02:00",
            "03-29 03:30+02:00"
        ]
    );
}

#[test]
fn a_time_in_a_fold_is_due_once_unless_both_are_wanted() {
    let mut spec = spec("30 2 * * *", "Europe/Berlin");
    let mut fold = |rule| {
        spec.dst.fold = rule;
        next(&table(spec.clone()), "2026-10-24T12:00:00Z", 2)
    };
    assert_eq!(
        fold(FoldRule::First),
        ["10-25 02:30+02:00 (25 October has 02:30 twice: due the first time)", "10-26 02:30+01:00"]
    );
    assert_eq!(
        fold(FoldRule::Last),
        ["10-25 02:30+01:00 (25 October has 02:30 twice: due the second time)", "10-26 02:30+01:00"]
    );
    assert_eq!(
        fold(FoldRule::Both),
        [
            "10-25 02:30+02:00 (25 October has 02:30 twice: due both times, this is the first)",
            "10-25 02:30+01:00 (25 October has 02:30 twice: due both times, this is the second)"
        ]
    );
}

#[test]
fn hours_of_a_star_are_real_time() {
    let hourly = table(spec("0 * * * *", "Europe/Berlin"));
    assert_eq!(
        next(&hourly, "2026-10-24T23:30:00Z", 4),
        [
            "10-25 02:00+02:00",
            "10-25 02:00+01:00 (25 October: clocks go back from 03:00 to 02:00)",
            "10-25 03:00+01:00",
            "10-25 04:00+01:00"
        ]
    );
    assert_eq!(
        next(&hourly, "2026-03-28T23:30:00Z", 3),
        ["03-29 01:00+01:00", "03-29 03:00+02:00 (29 March: clocks go from 02:00 to 03:00)", "03-29 04:00+02:00"]
    );
    // Two hours are two hours: the second 02:00 is only one after the first.
    let two = table(spec("0 */2 * * *", "Europe/Berlin"));
    let due = next(&two, "2026-10-24T21:30:00Z", 4);
    assert_eq!(due[..2], ["10-25 00:00+02:00", "10-25 02:00+02:00"]);
    assert!(due[2].starts_with("10-25 04:00+01:00"), "{due:?}");
}

#[test]
fn a_day_that_a_zone_skipped() {
    // Samoa had no 30 December 2011.
    let daily = table(spec("0 9 * * *", "Pacific/Apia"));
    let due = next(&daily, "2011-12-29T12:00:00Z", 3);
    assert_eq!(due[0], "12-29 09:00-10:00");
    assert_eq!(due[1], "12-31 00:00+14:00 (30 December has no 09:00: due at 00:00)");
    assert_eq!(due[2], "12-31 09:00+14:00");
}

#[test]
fn every_counts_from_its_anchor() {
    let mut every = ScheduleSpec { every: Some("90m".to_owned()), ..ScheduleSpec::default() };
    every.anchor = Some("2026-01-01T00:10:00Z".to_owned());
    every.start = Some("2026-01-01T02:00:00Z".to_owned());
    every.end = Some("2026-01-01T04:41:00Z".to_owned());
    let every = table(every);
    assert_eq!(next(&every, "2025-12-31T00:00:00Z", 9), ["01-01 03:10+00:00", "01-01 04:40+00:00"]);
    assert_eq!(every.next(micros("2026-01-01T03:10:00Z")), Some(micros("2026-01-01T04:40:00Z")));
}

#[test]
fn jitter_is_always_the_same_and_differs_by_schedule() {
    let mut spec = spec("0 * * * *", "UTC");
    spec.jitter = Some("10m".to_owned());
    let table = table(spec);
    let due = micros("2026-01-01T00:00:00Z");
    let offsets: std::collections::BTreeSet<u64> =
        (0..100).map(|number| table.starts_at(&format!("s{number}"), due).0 - due.0).collect();
    assert!(offsets.len() > 95 && offsets.iter().all(|offset| *offset < 600_000_000), "{offsets:?}");
    assert_eq!(table.starts_at("s", due), table.starts_at("s", due));
}

#[test]
fn faults_name_the_key_and_what_helps() {
    let fault = |mut spec: ScheduleSpec| spec.check().unwrap_err().remove(0);
    let bad = fault(spec("0 25 * * *", "UTC"));
    assert_eq!((bad.key, bad.part.as_deref()), ("cron", Some("25")));
    assert!(bad.message.contains("hour") && bad.message.contains("0..=23"), "{}", bad.message);
    assert!(fault(spec("0 0 30 2 *", "UTC")).message.contains("never"));
    assert!(fault(spec("0 0 0 * * *", "UTC")).message.contains("6 fields"));
    assert!(fault(spec("@reboot", "UTC")).message.contains("no time"));
    assert_eq!(fault(spec("0 0 * * *", "Mars/Olympus")).key, "zone");
    let mut both = spec("0 0 * * *", "UTC");
    both.every = Some("5m".to_owned());
    assert_eq!(fault(both).key, "every");
    let mut jitter = spec("*/5 * * * *", "UTC");
    jitter.jitter = Some("6m".to_owned());
    assert_eq!(fault(jitter).key, "jitter");
    let mut ends = spec("0 0 * * *", "UTC");
    (ends.start, ends.end) = (Some("2026-02-01".to_owned()), Some("2026-01-01".to_owned()));
    assert_eq!(fault(ends).key, "end");
}

#[test]
fn rare_days_are_found() {
    let leap = table(spec("0 0 29 2 *", "UTC"));
    assert_eq!(leap.next(micros("2096-03-01T00:00:00Z")), Some(micros("2104-02-29T00:00:00Z")));
    let last_friday = table(spec("0 17 * * FRIL", "UTC"));
    assert_eq!(last_friday.next(micros("2026-01-01T00:00:00Z")), Some(micros("2026-01-30T17:00:00Z")));
    let second_tuesday = table(spec("0 3 * * 2#2", "UTC"));
    assert_eq!(second_tuesday.next(micros("2026-01-01T00:00:00Z")), Some(micros("2026-01-13T03:00:00Z")));
}

/// A name of each zone that there is; of several that change their clocks alike for ten years, one.
fn zones() -> Vec<String> {
    let names: Vec<String> = jiff::tz::db().available().map(|name| name.to_string()).collect();
    assert!(names.len() > 400, "{}", names.len());
    let mut alike = std::collections::HashSet::new();
    let is_first = |name: &String| {
        let zone = TimeZone::get(name).unwrap();
        let offsets = changes(&zone).into_iter().map(|change| (change, zone.to_offset(change)));
        alike.insert((zone.to_offset("2020-01-01T00:00:00Z".parse().unwrap()), offsets.collect::<Vec<_>>()))
    };
    let names: Vec<String> = names.into_iter().filter(is_first).collect();
    assert!(names.len() > 60, "{}", names.len());
    names
}

/// The moments within ten years at which clocks of a zone change.
fn changes(zone: &TimeZone) -> Vec<Timestamp> {
    let (from, until) = ("2020-01-01T00:00:00Z".parse().unwrap(), "2030-01-01T00:00:00Z".parse::<Timestamp>().unwrap());
    zone.following(from).map(|change| change.timestamp()).take_while(|change| *change < until).collect()
}

/// For all zones and all changes in ten years: a fixed time is due once for each date that has it
/// or should have it, in order, and no other.
#[test]
fn fixed_times_are_due_once_for_each_date_in_all_zones() {
    for name in zones() {
        let zone = TimeZone::get(&name).unwrap();
        for change in changes(&zone) {
            let local = zone.to_datetime(change);
            // The time that is skipped or shown twice is around the change; and one that is not.
            for minutes in [-75_i64, -30, 0, 30, 200] {
                let at = local.checked_add(SignedDuration::from_mins(minutes)).unwrap();
                let table = table(spec(&format!("{} {} * * *", at.minute(), at.hour()), &name));
                let mut date = at.date().checked_sub(jiff::Span::new().days(2)).unwrap();
                let mut due = zone.to_ambiguous_zoned(date.to_datetime(at.time())).compatible().unwrap().timestamp();
                for _ in 0..4 {
                    date = date.tomorrow().unwrap();
                    due = table.next_moment(due).unwrap();
                    let wanted = zone.to_ambiguous_zoned(date.to_datetime(at.time()));
                    let wanted = match wanted.offset() {
                        jiff::tz::AmbiguousOffset::Gap { before, .. } => {
                            // The first moment after the gap.
                            let in_gap = before.to_timestamp(date.to_datetime(at.time())).unwrap();
                            zone.preceding(in_gap.checked_add(SignedDuration::from_nanos(1)).unwrap())
                                .next()
                                .unwrap()
                                .timestamp()
                        }
                        _ => wanted.earlier().unwrap().timestamp(),
                    };
                    assert_eq!(due, wanted, "{name} {at} on {date}");
                }
            }
        }
    }
}

/// For all zones and all changes in ten years: in real time no two due times are nearer than on
/// other days, and none is further from the next than the step and the change together.
#[test]
fn real_time_keeps_its_step_in_all_zones() {
    let crons =
        [("*/15 * * * *", 15), ("0 * * * *", 60), ("45 * * * *", 60), ("0 */2 * * *", 120), ("7,37 * * * *", 30)];
    for name in zones() {
        let zone = TimeZone::get(&name).unwrap();
        for (cron, step) in crons {
            let table = table(spec(cron, &name));
            for change in changes(&zone) {
                let before = zone.to_offset(change.checked_sub(SignedDuration::from_nanos(1)).unwrap());
                let changed = before.until(zone.to_offset(change)).total(jiff::Unit::Minute).unwrap().abs();
                let until = change.checked_add(SignedDuration::from_hours(5)).unwrap();
                let mut at = table.next_moment(change.checked_sub(SignedDuration::from_hours(5)).unwrap()).unwrap();
                while at < until {
                    let next = table.next_moment(at).unwrap();
                    let apart = next.duration_since(at).as_mins();
                    assert!(apart >= step, "{name} {cron}: {at} and {next} are {apart} minutes apart");
                    assert!(apart as f64 <= step as f64 * 2.0 + changed, "{name} {cron}: {at} and {next}: {apart}");
                    at = next;
                }
            }
        }
    }
}

fn field(low: u32, high: u32) -> impl Strategy<Value = String> {
    let one = (low..=high).prop_map(|number| number.to_string());
    let range = (low..=high, 0..10_u32).prop_map(move |(from, more)| format!("{from}-{}", (from + more).min(high)));
    let step = (1..=high.max(2) / 2).prop_map(|step| format!("*/{step}"));
    let list = proptest::collection::vec(low..=high, 1..4)
        .prop_map(|items| items.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
    prop_oneof![3 => Just("*".to_owned()), 2 => one, 1 => range, 1 => step, 1 => list]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// In UTC, where no clock changes, the due times are those of another library.
    #[test]
    fn due_times_in_utc_are_those_of_the_oracle(
        minute in field(0, 59), hour in field(0, 23), day in field(1, 28), month in field(1, 12), weekday in field(0, 6),
        after in 1_600_000_000_i64..2_000_000_000,
    ) {
        // Where both days are given, libraries differ in which stars make one of them count alone.
        prop_assume!(day == "*" || weekday == "*" || !(day.contains('*') || weekday.contains('*')));
        let text = format!("{minute} {hour} {day} {month} {weekday}");
        let table = table(spec(&text, "UTC"));
        let oracle = croner::Cron::from_str(&text).unwrap();
        let mut at = chrono::DateTime::from_timestamp(after, 0).unwrap();
        let mut ours = Timestamp::from_second(after).unwrap();
        for _ in 0..5 {
            at = oracle.find_next_occurrence(&at, false).unwrap();
            ours = table.next_moment(ours).unwrap();
            prop_assert_eq!(ours.as_second(), at.timestamp(), "{}", text);
        }
    }

    /// Due times grow, over any zone, and the next one from just before is the same.
    #[test]
    fn due_times_grow_and_do_not_depend_on_where_one_asks(
        minute in field(0, 59), hour in field(0, 23), after in 1_600_000_000_i64..2_000_000_000,
        zone in proptest::sample::select(vec!["Europe/Berlin", "Australia/Lord_Howe", "America/New_York", "Asia/Kolkata", "Africa/Casablanca"]),
        fold in proptest::sample::select(vec![FoldRule::First, FoldRule::Last, FoldRule::Both]),
    ) {
        let mut spec = spec(&format!("{minute} {hour} * * *"), zone);
        spec.dst.fold = fold;
        let table = table(spec);
        let from = Timestamp::from_second(after).unwrap();
        let due = table.next_moment(from).unwrap();
        prop_assert!(due > from);
        let middle = from.checked_add(due.duration_since(from) / 2).unwrap();
        prop_assert_eq!(table.next_moment(middle.min(due - SignedDuration::from_nanos(1))), Some(due));
        prop_assert!(table.next_moment(due).unwrap() > due);
    }

    /// No text makes the check panic or take long.
    #[test]
    fn any_text_is_refused_or_read(text in "[0-9*/,LW#@a-zH -]{0,40}", zone in "[A-Za-z/_+0-9-]{0,20}") {
        let _ = spec(&text, &zone).check();
        let _ = spec(&text, "UTC").check();
        let _ = DateTime::from_str(&text);
    }
}
