//! The texts in queries: times, durations, cursors.

use super::problem::{Answered, ProblemKind, ServeProblem};
use super::service::Service;
use crate::journal::{ListPlace, Stored};
use crate::process::Timestamp;
use crate::workflow::model::{DURATION_FORMS, parse_duration};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::time::Duration;

/// The longest wait of one request.
pub(in crate::serve) const WAIT_MAX: Duration = Duration::from_mins(1);

/// Items of a page, unless the request says otherwise, and at most.
pub(in crate::serve) const PAGE: (u32, u32) = (50, 1_000);

/// The largest number that every reader of JSON has exactly.
const NUMBER_MAX: u64 = (1 << 53) - 1;

/// A parameter that can be read, and breaks a rule.
pub(in crate::serve) fn unfit(name: &str, why: impl Into<String>) -> ServeProblem {
    ServeProblem::new(ProblemKind::DoesNotFit).part(name, why)
}

/// A number below 2^53.
pub(in crate::serve) fn number(name: &str, given: Option<u64>) -> Result<Option<u64>, ServeProblem> {
    match given {
        Some(number) if number > NUMBER_MAX => Err(unfit(name, format!("it is at most {NUMBER_MAX}"))),
        given => Ok(given),
    }
}

/// The time that `wait` asks for: a duration such as `30s`, at most a minute.
pub(in crate::serve) fn wait(text: Option<&str>) -> Result<Option<Duration>, ServeProblem> {
    let Some(text) = text else { return Ok(None) };
    let duration = parse_duration(text).map_err(|why| {
        let mut problem = unfit("wait", why);
        problem.hint = Some(format!("{DURATION_FORMS}; more than a minute is a minute"));
        problem
    })?;
    Ok(Some(Duration::from(duration).min(WAIT_MAX)))
}

/// A time in RFC 3339.
pub(in crate::serve) fn time(name: &str, text: Option<&str>) -> Result<Option<Timestamp>, ServeProblem> {
    let Some(text) = text else { return Ok(None) };
    let at: jiff::Timestamp = text.parse().map_err(|_| unfit(name, "it is no time of RFC 3339"))?;
    // Nothing was before 1970.
    Ok(Some(Timestamp(u64::try_from(at.as_microsecond()).unwrap_or(0))))
}

/// A time as the API writes it: RFC 3339 in UTC, to the microsecond.
pub(in crate::serve) fn rfc3339(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_microsecond(at.0.cast_signed()).unwrap_or_default();
    format!("{at:.6}")
}

/// The number of items that a page may have.
pub(in crate::serve) fn limit(given: Option<u32>) -> Result<u32, ServeProblem> {
    match given {
        None => Ok(PAGE.0),
        Some(limit) if (1..=PAGE.1).contains(&limit) => Ok(limit),
        Some(_) => Err(unfit("limit", format!("it is 1 to {}", PAGE.1))),
    }
}

/// Writes the place behind the last run of a page, for the filter that the page was read by.
///
/// It names the run, and not its row, whose number tells how many runs there are of all workflows.
pub(in crate::serve) fn cursor(last: &Stored, filter: &str) -> String {
    let created = last.created.0.to_be_bytes();
    URL_SAFE_NO_PAD.encode([&created, &digest(filter)[..], last.id.as_bytes()].concat())
}

/// The run behind which a page begins.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::serve) struct LastRun {
    created: Timestamp,
    id: String,
}

impl LastRun {
    /// Its place in lists. If it was removed, those that were created in the same microsecond come
    /// again.
    pub(in crate::serve) fn place(&self, service: &Service) -> Answered<ListPlace> {
        let stored = service.store.run(&self.id)?.filter(|stored| stored.created == self.created);
        let row = stored.map_or(i64::MAX.cast_unsigned(), |stored| stored.row);
        Ok(ListPlace { created: self.created, row })
    }
}

/// Reads what [`cursor`] has written.
pub(in crate::serve) fn last_run(cursor: Option<&str>, filter: &str) -> Answered<Option<LastRun>> {
    let Some(cursor) = cursor else { return Ok(None) };
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
    let read = bytes.as_deref().and_then(|bytes| {
        let (created, rest) = bytes.split_first_chunk::<8>()?;
        let (of, id) = rest.split_first_chunk::<8>()?;
        let id = std::str::from_utf8(id).ok().filter(|id| !id.is_empty())?;
        Some((u64::from_be_bytes(*created).min(i64::MAX.cast_unsigned()), of, id))
    });
    match read {
        Some((created, of, id)) if *of == digest(filter) => {
            Ok(Some(LastRun { created: Timestamp(created), id: id.to_owned() }))
        }
        Some(_) => Err(unfit("cursor", "it is of a list with another filter")),
        None => Err(unfit("cursor", "no page has given it")),
    }
}

fn digest(filter: &str) -> [u8; 8] {
    let digest = blake3::hash(filter.as_bytes());
    *digest.as_bytes().first_chunk().expect("invariant: a digest has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_rfc_3339() {
        let at = time("x", Some("2026-03-29T02:30:00.5Z")).unwrap().unwrap();
        assert_eq!(rfc3339(at), "2026-03-29T02:30:00.500000Z");
        assert!(time("x", Some("tomorrow")).is_err());
        assert_eq!(time("x", Some("1960-01-01T00:00:00Z")).unwrap(), Some(Timestamp(0)));
    }
}
