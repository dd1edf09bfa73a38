//! Cron expressions: matches in civil time, without a zone.

use super::spec::ScheduleFault;
use cronexpr::{Crontab, FallbackTimezoneOption, ParseOptions, parse_crontab_with};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// The longest cron expression, in bytes. Arbitrary: a list of all minutes has 169.
pub const CRON_BYTES_MAX: usize = 512;

/// How far the library looks for a match: four years. A 29 February on a certain weekday is up to
/// 40 years away.
const LOOKS_MAX: usize = 11;

/// Names of schedules, as crontab(5) has them.
const NAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// A cron expression.
#[derive(Clone, Debug)]
pub(super) struct Cron {
    /// In UTC: its timestamps stand for civil times.
    table: Crontab,
    /// Its hours are fixed: it means what clocks on the wall show.
    pub(super) is_wall_time: bool,
    /// The shortest time between two matches on a day without a change of clocks.
    pub(super) step: SignedDuration,
}

impl Cron {
    pub(super) fn parse(text: &str) -> Result<Self, ScheduleFault> {
        let fault = |message: String, hint: &str| Err(ScheduleFault::new("cron", message, Some(hint)));
        let text = text.trim();
        if text.len() > CRON_BYTES_MAX {
            return fault(format!("a cron expression has at most {CRON_BYTES_MAX} bytes"), FORM);
        }
        let text = if text.starts_with('@') {
            match NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
                Some((_, meant)) => meant,
                None if text.eq_ignore_ascii_case("@reboot") => {
                    return fault("`@reboot` is no time".to_owned(), "`wfhost run FILE` starts it once");
                }
                None => return fault(format!("there is no `{text}`"), "@hourly, @daily, @weekly, @monthly, @yearly"),
            }
        } else {
            text
        };
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        match fields.len() {
            5 => {}
            6 | 7 => return fault(format!("it has {} fields, not five", fields.len()), MORE),
            count => return fault(format!("it has {count} fields, not five"), FORM),
        }
        let table = parse(&fields.join(" "))?;
        let mut hours = fields[1].split(',');
        let is_wall_time = !hours.any(|item| item.starts_with('*'));
        let day = parse(&format!("{} {} * * *", fields[0], fields[1]))?;
        let cron = Self { table, is_wall_time, step: shortest(&day) };
        if cron.next(DateTime::constant(2000, 1, 1, 0, 0, 0, 0)).is_none() {
            return fault(format!("`{text}` never comes: no month has that day"), FORM);
        }
        Ok(cron)
    }

    /// The first match after a civil time.
    pub(super) fn next(&self, after: DateTime) -> Option<DateTime> {
        let mut from = as_utc(after)?;
        for _ in 0..LOOKS_MAX {
            if let Ok(found) = self.table.find_next(from) {
                return Some(found.datetime());
            }
            from = as_utc(TimeZone::UTC.to_datetime(from).checked_add(jiff::Span::new().years(4)).ok()?)?;
        }
        None
    }

    /// Whether a civil time in `from..before` matches.
    pub(super) fn has_match(&self, from: DateTime, before: DateTime) -> bool {
        let Ok(just_before) = from.checked_sub(SignedDuration::from_nanos(1)) else { return false };
        self.next(just_before).is_some_and(|found| found < before)
    }
}

/// The hints for fields.
const FORM: &str = "minute, hour, day of month, month, day of week: \"30 9 * * 1-5\"";
const MORE: &str = "seconds and years are no fields: `every: 30s` counts seconds; the zone is a key of its own, `zone`";

fn as_utc(civil: DateTime) -> Option<Timestamp> {
    TimeZone::UTC.to_timestamp(civil).ok()
}

fn parse(text: &str) -> Result<Crontab, ScheduleFault> {
    let mut options = ParseOptions::default();
    options.fallback_timezone_option = FallbackTimezoneOption::UTC;
    parse_crontab_with(text, options).map_err(|error| {
        let said = error.to_string();
        // Its last line is `    ^ reason`: the column tells the field.
        let last = said.lines().last().unwrap_or_default();
        let column = last.find('^').unwrap_or(0);
        let reason = last.trim_start().trim_start_matches('^').trim();
        let number = text.as_bytes().iter().take(column).filter(|byte| **byte == b' ').count();
        let field = text.split(' ').nth(number).unwrap_or_default();
        let names = ["minute", "hour", "day of month", "month", "day of week"];
        let name = names.get(number).unwrap_or(&"last");
        ScheduleFault::new("cron", format!("the {name} field `{field}`: {reason}"), Some(FORM)).about(field)
    })
}

/// The shortest time between two matches of fields of a day, over midnight too.
fn shortest(day: &Crontab) -> SignedDuration {
    const WHOLE: SignedDuration = SignedDuration::from_hours(24);
    let Some(begin) = as_utc(DateTime::constant(2000, 1, 1, 0, 0, 0, 0)) else { return WHOLE };
    let mut step = WHOLE;
    let mut before: Option<Timestamp> = None;
    // Two days: the second has every match of the first one again.
    while let Ok(found) = day.find_next(before.unwrap_or(begin)) {
        let found = found.timestamp();
        if let Some(before) = before {
            step = step.min(found.duration_since(before));
        }
        if step <= SignedDuration::from_mins(1) || found.duration_since(begin) >= WHOLE * 2 {
            break;
        }
        before = Some(found);
    }
    step
}
