//! Due times: from civil matches to moments, over the changes of clocks in a zone.
//!
//! Between two changes of its offset a zone is a constant offset; such a stretch is a *segment*. In
//! a segment, moments are civil times minus the offset, so the whole question of gaps and folds is
//! which matches count near the ends of segments:
//!
//! - at the beginning of a segment after a gap, the matches in the gap count as one, there;
//! - matches near the end of a segment before a fold come a first time, those near the beginning of
//!   the segment after it a second time;
//! - in real time, a match counts only if none of the segment before it was less than a step ago.

use super::cron::Cron;
use super::spec::{Dst, FoldRule, GapRule};
use crate::process::{Micros, Timestamp as Time};
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, Zoned};

/// How far a due time is looked for. A cron expression that has a match at all has one in it.
const HORIZON: SignedDuration = SignedDuration::from_hours(24 * 366 * 45);

/// Longer than any offset and any gap: Samoa skipped a whole day.
const FAR: SignedDuration = SignedDuration::from_hours(72);

const NANO: SignedDuration = SignedDuration::from_nanos(1);

/// When a schedule is due.
#[derive(Clone, Debug)]
pub struct Timetable {
    pub(super) rule: Rule,
    pub(super) zone: TimeZone,
    pub(super) dst: Dst,
    pub(super) start: Option<Timestamp>,
    pub(super) end: Option<Timestamp>,
    pub(super) jitter: Micros,
}

/// What makes times due.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    Cron(Box<Cron>),
    Every { step: SignedDuration, anchor: Timestamp },
}

/// A stretch of time in which the offset of a zone is constant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// Its first moment, and the offset before it.
    pub(super) start: Option<(Timestamp, Offset)>,
    pub(super) offset: Offset,
    /// The first moment after it, and the offset from there.
    end: Option<(Timestamp, Offset)>,
}

impl Segment {
    pub(super) fn of(zone: &TimeZone, at: Timestamp) -> Self {
        let offset = zone.to_offset(at);
        let just_after = at.checked_add(NANO).unwrap_or(Timestamp::MAX);
        let mut start = None;
        for change in zone.preceding(just_after) {
            let before = zone.to_offset(change.timestamp().checked_sub(NANO).unwrap_or(Timestamp::MIN));
            if before != offset {
                start = Some((change.timestamp(), before));
                break;
            }
        }
        let end = zone.following(at).find(|change| change.offset() != offset);
        Self { start, offset, end: end.map(|change| (change.timestamp(), change.offset())) }
    }

    fn moment(&self, civil: DateTime) -> Option<Timestamp> {
        self.offset.to_timestamp(civil).ok()
    }

    /// The civil times that clocks skip at its start, if they do.
    pub(super) fn gap(&self) -> Option<(DateTime, DateTime)> {
        let (start, before) = self.start?;
        (self.offset > before).then(|| (before.to_datetime(start), self.offset.to_datetime(start)))
    }

    /// Whether clocks show this time again after the segment.
    pub(super) fn comes_again(&self, civil: DateTime) -> bool {
        self.end.is_some_and(|(end, after)| after < self.offset && civil >= after.to_datetime(end))
    }

    /// Whether clocks showed this time already before the segment.
    pub(super) fn came_before(&self, civil: DateTime) -> bool {
        self.start.is_some_and(|(start, before)| before > self.offset && civil < before.to_datetime(start))
    }
}

impl Timetable {
    /// Returns the first due time after a time; `None` if there is none any more.
    #[must_use]
    pub fn next(&self, after: Time) -> Option<Time> {
        let after = Timestamp::from_microsecond(after.0.cast_signed()).ok()?;
        let found = self.next_moment(after)?;
        u64::try_from(found.as_microsecond()).ok().map(Time)
    }

    /// Returns the due times after `after` and until `until`, the last `most` of them, and whether
    /// there are more before these.
    #[must_use]
    pub fn between(&self, after: Time, until: Time, most: usize) -> (Vec<Time>, bool) {
        let mut found = std::collections::VecDeque::new();
        let mut are_more = false;
        let mut at = after;
        while let Some(due) = self.next(at).filter(|due| *due <= until) {
            if found.len() == most {
                found.pop_front();
                are_more = true;
            }
            found.push_back(due);
            at = due;
        }
        (found.into(), are_more)
    }

    /// Returns when the run of a due time starts: later than it by its share of the jitter, which
    /// the name of the schedule and the due time decide.
    #[must_use]
    pub fn starts_at(&self, schedule: &str, due: Time) -> Time {
        if self.jitter.0 == 0 {
            return due;
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(schedule.as_bytes()).update(&due.0.to_le_bytes());
        let mut bytes = [0; 8];
        hasher.finalize_xof().fill(&mut bytes);
        Time(due.0 + u64::from_le_bytes(bytes) % self.jitter.0)
    }

    /// Returns what clocks in its zone show at a time.
    #[must_use]
    pub fn local(&self, at: Time) -> Zoned {
        Timestamp::from_microsecond(at.0.cast_signed()).unwrap_or(Timestamp::MAX).to_zoned(self.zone.clone())
    }

    /// Returns the name of its zone.
    #[must_use]
    pub fn zone(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    pub(super) fn next_moment(&self, after: Timestamp) -> Option<Timestamp> {
        let after = match self.start {
            Some(start) => after.max(start.checked_sub(NANO).ok()?),
            None => after,
        };
        let found = match &self.rule {
            Rule::Every { step, anchor } => {
                let passed = after.duration_since(*anchor).as_nanos();
                let count = passed.div_euclid(step.as_nanos()) + 1;
                let nanos = anchor.as_nanosecond() + count * step.as_nanos();
                Timestamp::from_nanosecond(nanos).ok()
            }
            Rule::Cron(cron) => self.next_of_cron(cron, after),
        };
        found.filter(|found| self.end.is_none_or(|end| *found < end))
    }

    fn next_of_cron(&self, cron: &Cron, after: Timestamp) -> Option<Timestamp> {
        let mut segment = Segment::of(&self.zone, after);
        let mut from = after;
        loop {
            let beyond = match self.next_in(cron, &segment, from)? {
                Ok(found) => return Some(found),
                Err(beyond) => beyond,
            };
            let (end, _) = segment.end?;
            if end.duration_since(after) > HORIZON {
                return None;
            }
            // Offsets and gaps are shorter than this: nothing is due before.
            let near = TimeZone::UTC.to_timestamp(beyond).ok()?.checked_sub(FAR).ok()?;
            if near > end {
                (from, segment) = (near, Segment::of(&self.zone, near));
            } else {
                from = end.checked_sub(NANO).ok()?;
                segment = Segment::of(&self.zone, end);
            }
        }
    }

    /// The first due time of a segment that is after a time; else the first match beyond it. `None`
    /// if there is no match at all.
    fn next_in(&self, cron: &Cron, segment: &Segment, after: Timestamp) -> Option<Result<Timestamp, DateTime>> {
        if let (Some((start, _)), Some((skipped, shown))) = (segment.start, segment.gap())
            && start > after
            && cron.is_wall_time
            && self.dst.gap == GapRule::Shift
            && cron.has_match(skipped, shown)
        {
            return Some(Ok(start));
        }
        let mut civil = segment.offset.to_datetime(after);
        loop {
            let found = cron.next(civil)?;
            let moment = segment.moment(found)?;
            if segment.end.is_some_and(|(end, _)| moment >= end) {
                return Some(Err(found));
            }
            if moment > after && self.counts(cron, segment, found, moment) {
                return Some(Ok(moment));
            }
            civil = found;
        }
    }

    /// Whether a match in a segment counts.
    fn counts(&self, cron: &Cron, segment: &Segment, civil: DateTime, moment: Timestamp) -> bool {
        if cron.is_wall_time {
            return match self.dst.fold {
                FoldRule::Both => true,
                FoldRule::First => !segment.came_before(civil),
                FoldRule::Last => !segment.comes_again(civil),
            };
        }
        let Some((start, before)) = segment.start else { return true };
        let Ok(step_ago) = moment.checked_sub(cron.step) else { return true };
        if step_ago >= start {
            return true;
        }
        let (from, until) = (before.to_datetime(step_ago), before.to_datetime(start));
        // Exactly one step ago is far enough.
        cron.next(from).is_none_or(|found| found >= until)
    }
}
