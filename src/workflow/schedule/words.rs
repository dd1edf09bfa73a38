//! Due times in words: what clocks show, and what a change of clocks does to them.

use super::spec::{FoldRule, GapRule};
use super::timetable::{Rule, Segment, Timetable};
use crate::process::Timestamp as Time;
use jiff::{SignedDuration, Timestamp, Zoned};

/// A due time, for people.
#[derive(Clone, PartialEq, Debug)]
pub struct DueTime {
    /// The time.
    pub at: Time,
    /// What clocks in the zone show.
    pub local: Zoned,
    /// What a change of clocks does to it, or did to one before it.
    pub note: Option<String>,
}

/// Returns the next due times after a time, at most `count`.
#[must_use]
pub fn upcoming(table: &Timetable, after: Time, count: usize) -> Vec<DueTime> {
    let mut found = Vec::new();
    let mut at = after;
    while found.len() < count
        && let Some(due) = table.next(at)
    {
        let note = note(table, at, due);
        found.push(DueTime { at: due, local: table.local(due), note });
        at = due;
    }
    found
}

/// What a change of clocks does to a due time, or did to those that would have been between it and
/// the one before.
fn note(table: &Timetable, before: Time, due: Time) -> Option<String> {
    let Rule::Cron(cron) = &table.rule else { return None };
    let moment = Timestamp::from_microsecond(due.0.cast_signed()).ok()?;
    let since = Timestamp::from_microsecond(before.0.cast_signed()).ok()?;
    let segment = Segment::of(&table.zone, moment);
    let civil = segment.offset.to_datetime(moment);
    let clock = |civil: jiff::civil::DateTime| civil.strftime("%H:%M").to_string();
    if let (Some((start, _)), Some((skipped, shown))) = (segment.start, segment.gap())
        && start > since
        && start <= moment
    {
        let day = skipped.strftime("%-d %B").to_string();
        if !cron.is_wall_time {
            return Some(format!("{day}: clocks go from {} to {}", clock(skipped), clock(shown)));
        }
        let just_before = skipped.checked_sub(SignedDuration::from_nanos(1)).ok()?;
        if let Some(missing) = cron.next(just_before).filter(|missing| *missing < shown) {
            let missing = clock(missing);
            return match table.dst.gap {
                GapRule::Shift if start == moment => Some(format!("{day} has no {missing}: due at {}", clock(civil))),
                GapRule::Shift => None,
                GapRule::Skip => Some(format!("{day} has no {missing}: not due that day")),
            };
        }
    }
    if !cron.is_wall_time {
        let (start, _) = segment.start.filter(|(start, _)| *start > since && *start <= moment)?;
        let until = segment.start.map(|(_, offset)| offset.to_datetime(start))?;
        let day = civil.strftime("%-d %B").to_string();
        return Some(format!(
            "{day}: clocks go back from {} to {}",
            clock(until),
            clock(segment.offset.to_datetime(start))
        ));
    }
    let which = match (segment.comes_again(civil), segment.came_before(civil)) {
        (false, false) => return None,
        (true, _) if table.dst.fold == FoldRule::Both => "due both times, this is the first",
        (true, _) => "due the first time",
        (_, true) if table.dst.fold == FoldRule::Both => "due both times, this is the second",
        (_, true) => "due the second time",
    };
    Some(format!("{} has {} twice: {which}", civil.strftime("%-d %B"), clock(civil)))
}
