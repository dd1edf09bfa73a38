//! Which records of a run, or which lines of its log, a reader is shown.

use super::api::events::LineView;
use super::folds::Folded;
use super::problem::{Answered, ProblemKind, ServeProblem};
use super::query::rfc3339;
use super::service::Service;
use crate::host::{Line, RunProjection, record_json};
use crate::process::{Level, Pid};
use crate::run::Record;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

/// Characters of a text that is searched for.
const TEXT_CHARS_MAX: usize = 200;

/// Records that one request looks through.
const SCANNED_MAX: u64 = 100_000;

/// Bytes after which a page ends.
const PAGE_BYTES: usize = 8 << 20;

/// The words for kinds of records.
const KINDS: &[&str] = &["started", "stepped", "died", "arrived", "leaving"];

/// The words for levels of lines.
const LEVELS: &[&str] = &["trace", "debug", "info", "warn", "error"];

/// What a reader wants.
#[derive(Clone, Default)]
pub(in crate::serve) struct Wanted {
    /// The number of the first record.
    pub(in crate::serve) from: u64,
    /// The number of the last one, if there is one.
    pub(in crate::serve) to: Option<u64>,
    /// Only about this process.
    pub(in crate::serve) pid: Option<Pid>,
    /// Only of these kinds, or of these levels: words, separated by commas.
    pub(in crate::serve) kinds: Option<String>,
    /// Only with this text, in small letters.
    pub(in crate::serve) text: Option<String>,
    /// As the journal has them.
    pub(in crate::serve) encoded: bool,
}

impl Wanted {
    /// Refuses what cannot be wanted.
    pub(in crate::serve) fn checked(self, is_log: bool) -> Answered<Self> {
        let malformed = |name: &str, why: String| ServeProblem::new(ProblemKind::DoesNotFit).part(name, why);
        for (name, number) in [("from", Some(self.from)), ("to", self.to), ("pid", self.pid.map(|pid| pid.0))] {
            super::query::number(name, number)?;
        }
        if let Some(name) = [("from", Some(self.from)), ("to", self.to)]
            .iter()
            .find_map(|(name, number)| (*number == Some(0)).then_some(name))
        {
            return Err(malformed(name, "records are counted from 1".to_owned()));
        }
        let known = if is_log { LEVELS } else { KINDS };
        if let Some(word) = self.words().find(|word| !known.contains(word)) {
            let why = format!("`{word}` is none: there are {}", known.join(", "));
            return Err(malformed("kind", why));
        }
        if self.text.as_ref().is_some_and(|text| text.is_empty() || text.chars().count() > TEXT_CHARS_MAX) {
            return Err(malformed("q", format!("it has 1 to {TEXT_CHARS_MAX} characters")));
        }
        Ok(Self { text: self.text.map(|text| text.to_lowercase()), ..self })
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        self.kinds.iter().flat_map(|kinds| kinds.split(','))
    }

    fn has_kind(&self, word: &str) -> bool {
        self.kinds.is_none() || self.words().any(|wanted| wanted == word)
    }

    fn has_text(&self, text: &str) -> bool {
        self.text.as_ref().is_none_or(|wanted| text.to_lowercase().contains(wanted))
    }
}

/// Takes the records of a run one after the other, and says what is shown of each.
pub(in crate::serve) struct Shown {
    wanted: Wanted,
    /// The number of the record that comes next.
    pub(in crate::serve) next: u64,
    /// For the lines of the log: the run before that record. Lines are named after the steps that
    /// came before them.
    lines: Option<Box<RunProjection>>,
}

impl Shown {
    /// Shows records.
    pub(in crate::serve) fn records(wanted: Wanted) -> Self {
        Self { next: wanted.from, wanted, lines: None }
    }

    /// Shows the lines of the log, to a reader that begins with the first record.
    pub(in crate::serve) fn lines(wanted: Wanted) -> Self {
        Self { next: 1, wanted, lines: Some(Box::default()) }
    }

    /// Whether all of each record is shown, so that all who follow the run are shown the same.
    pub(in crate::serve) fn is_everything(&self) -> bool {
        let Wanted { from: _, to, pid, kinds, text, encoded } = &self.wanted;
        self.lines.is_none() && to.is_none() && pid.is_none() && kinds.is_none() && text.is_none() && !encoded
    }

    /// The number of the last record that is wanted.
    pub(in crate::serve) fn last(&self) -> Option<u64> {
        self.wanted.to
    }

    /// Takes the next record: what is shown of it, as JSON.
    pub(in crate::serve) fn take(&mut self, record: &Record) -> Vec<String> {
        let number = self.next;
        self.next += 1;
        let is_in = number >= self.wanted.from && self.wanted.to.is_none_or(|to| number <= to);
        match &mut self.lines {
            Some(projection) => lines_of(projection, record, number, is_in.then_some(&self.wanted)),
            None if is_in => record_of(record, number, &self.wanted).into_iter().collect(),
            None => Vec::new(),
        }
    }
}

/// A record, if it is wanted.
fn record_of(record: &Record, number: u64, wanted: &Wanted) -> Option<String> {
    let (kind, pid) = match record {
        Record::Started(_) => ("started", Some(Pid::ROOT)),
        Record::Stepped(stepped) => ("stepped", Some(stepped.pid)),
        Record::Died(died) => ("died", Some(died.pid)),
        Record::Arrived(arrived) => ("arrived", record_json::pid_of(&arrived.news)),
        Record::Leaving { pid, .. } => ("leaving", Some(*pid)),
        Record::Upgraded(_) => ("upgraded", None),
    };
    if !wanted.has_kind(kind) || wanted.pid.is_some_and(|wanted| pid != Some(wanted)) {
        return None;
    }
    if wanted.encoded {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        return Some(json!({ "number": number, "record": STANDARD.encode(bytes) }).to_string());
    }
    let text = record_json::record(usize::try_from(number).unwrap_or(usize::MAX), record).to_string();
    wanted.has_text(&text).then_some(text)
}

/// Applies a record, and returns its lines that are wanted. `None` wants none.
fn lines_of(projection: &mut RunProjection, record: &Record, number: u64, wanted: Option<&Wanted>) -> Vec<String> {
    let mut lines = Vec::new();
    projection.apply(record, &mut |line| {
        let Some(wanted) = wanted else { return };
        let fits = line.progress().is_none()
            && wanted.pid.is_none_or(|pid| pid == line.pid)
            && wanted.has_kind(level(line.line.level));
        if fits {
            let text = json!(view(line, number)).to_string();
            if wanted.has_text(&text) {
                lines.push(text);
            }
        }
    });
    lines
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Trace => "trace",
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Warn => "warn",
        Level::Error => "error",
    }
}

fn view(line: Line, record: u64) -> LineView {
    LineView {
        at: rfc3339(line.at),
        pid: line.pid.0,
        step: line.process,
        level: level(line.line.level).to_owned(),
        text: line.line.text,
        fields: line.line.fields.map(|fields| fields.to_value()),
        record,
    }
}

/// A page: an object with what is shown under `name`, and with `next` if there is more.
fn body(name: &str, shown: &[String], next: Option<u64>) -> String {
    let next = next.map_or_else(String::new, |next| format!(",\"next\":{next}"));
    format!("{{\"{name}\":[{}]{next}}}", shown.join(","))
}

impl Service {
    /// A page of records of which at most `limit` are shown.
    pub(in crate::serve) fn record_page(&self, id: &str, wanted: Wanted, limit: usize) -> Answered<String> {
        let mut shown = Shown::records(wanted);
        let (texts, next) = self.page(id, &mut shown, limit)?;
        Ok(body("records", &texts, next))
    }

    /// A page of the lines of at most `limit` records. The page after it does not read again what
    /// came before.
    pub(in crate::serve) fn line_page(&self, id: &str, wanted: Wanted, limit: usize) -> Answered<String> {
        let stored = self.store.run(id)?.ok_or_else(|| ServeProblem::unknown(format_args!("run `{id}`")))?;
        let mut folded: Folded<'_> = self.log_folds.take(&stored);
        if folded.records >= wanted.from {
            (folded.records, folded.projection) = Default::default();
        }
        let projection = Box::new(std::mem::take(&mut folded.projection));
        let mut shown = Shown { next: folded.records + 1, wanted, lines: Some(projection) };
        let page = self.page(id, &mut shown, limit);
        folded.records = shown.next - 1;
        folded.projection = shown.lines.map(|projection| *projection).unwrap_or_default();
        let (texts, next) = page?;
        Ok(body("lines", &texts, next))
    }

    fn page(&self, id: &str, shown: &mut Shown, limit: usize) -> Answered<(Vec<String>, Option<u64>)> {
        let begins = shown.next.max(shown.wanted.from);
        let most = begins.saturating_add(SCANNED_MAX - 1);
        let to = shown.wanted.to.map_or(most, |to| to.min(most));
        let (mut texts, mut records, mut bytes, mut next) = (Vec::new(), 0, 0, None);
        // One more than is shown says whether there is a next page.
        self.each_record(id, shown.next, Some(to.saturating_add(1)), |number, record| {
            if number > to || records == limit || bytes > PAGE_BYTES {
                next = Some(number).filter(|number| shown.wanted.to.is_none_or(|to| *number <= to));
                return false;
            }
            let found = shown.take(record);
            records += usize::from(!found.is_empty());
            bytes += found.iter().map(String::len).sum::<usize>();
            texts.extend(found);
            true
        })?;
        Ok((texts, next))
    }
}
