//! What somebody wrote of a schedule, and the check of it.

use super::cron::Cron;
use super::timetable::{Rule, Timetable};
use crate::process::Micros;
use crate::workflow::expression::{Expression, Jq, References, Scope, ValueTemplate};
use crate::workflow::model::parse_duration;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How far back missed due times are caught up. Arbitrary: what is older is rarely wanted still.
pub const WINDOW: Micros = Micros(24 * 3_600_000_000);

/// The shortest `every`, and the longest. Arbitrary; a run takes longer than a thousandth second.
const EVERY: (Micros, Micros) = (Micros(1_000_000), Micros(366 * 24 * 3_600_000_000));

/// The longest `jitter`. Arbitrary.
const JITTER_MAX: Micros = Micros(12 * 3_600_000_000);

/// The longest specification, in bytes of its JSON. Arbitrary: far above what a person writes.
const SPEC_BYTES_MAX: usize = 64 * 1024;

/// What expressions in `inputs` read.
const ROOTS: [&str; 3] = ["due", "local", "schedule"];

/// When a workflow is started, and with which inputs.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "serve", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ScheduleSpec {
    /// The workflow that is started. A workflow file does not write it: it is that workflow.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workflow: String,
    /// Five fields: minute, hour, day of month, month, day of week; or `@daily` and the like.
    /// Either this or `every`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// A duration such as `15m`, in real time. Either this or `cron`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// From where `every` counts: 1970-01-01T00:00:00Z if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    /// The time zone, such as `Europe/Berlin`. Needed unless the host is in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// What days mean on which clocks change.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dst: Dst,
    /// No due time is before this: a time of RFC 3339, or a local date or time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// No due time is at this or after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Each run starts up to this much later than it is due, always the same for a due time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
    /// Which due times are caught up that passed while no service ran.
    #[serde(default, skip_serializing_if = "is_default")]
    pub catch_up: CatchUp,
    /// What happens while an earlier run of the schedule is unfinished.
    #[serde(default, skip_serializing_if = "is_default")]
    pub overlap: Overlap,
    /// The inputs of each run; `${ }` in texts reads `.due` and `.local` (times of RFC 3339) and
    /// `.schedule` (its name).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[cfg_attr(feature = "serve", schema(value_type = Object))]
    pub inputs: Map<String, Value>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What days mean on which clocks change, where the hours of a cron expression are fixed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "serve", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Dst {
    /// A time that the day does not have.
    pub gap: GapRule,
    /// A time that the day has twice.
    pub fold: FoldRule,
}

/// A time that a day does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "serve", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GapRule {
    /// The first moment after the gap.
    #[default]
    Shift,
    /// Not that day.
    Skip,
}

/// A time that a day has twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "serve", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FoldRule {
    /// The first time.
    #[default]
    First,
    /// The second time.
    Last,
    /// Both times.
    Both,
}

/// Which due times are caught up that passed while no service ran. None is older than a day, and
/// they are at most 1,000.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "serve", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CatchUp {
    /// None of them.
    None,
    /// The last one.
    #[default]
    Last,
    /// All of them.
    All,
}

/// What happens at a due time while an earlier run of the schedule is unfinished.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "serve", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Overlap {
    /// Nothing is started.
    #[default]
    Skip,
    /// One waits until the earlier run has ended; further ones are skipped.
    Queue,
    /// Up to 100 wait.
    QueueAll,
    /// The earlier run is cancelled.
    CancelPrevious,
    /// Both run.
    Allow,
}

/// Something wrong with a specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleFault {
    /// The key that is wrong, or missing.
    pub key: &'static str,
    /// What is wrong.
    pub message: String,
    /// What helps.
    pub hint: Option<String>,
    /// The part of the value that is wrong, if it is not all of it.
    pub part: Option<String>,
}

impl ScheduleFault {
    pub(super) fn new(key: &'static str, message: impl Into<String>, hint: Option<&str>) -> Self {
        Self { key, message: message.into(), hint: hint.map(str::to_owned), part: None }
    }

    pub(super) fn about(mut self, part: &str) -> Self {
        self.part = (!part.is_empty()).then(|| part.to_owned());
        self
    }
}

impl ScheduleSpec {
    /// Checks everything but the expressions in the inputs. Writes the zone down where it was left
    /// to the host, so that the schedule means the same on another one.
    ///
    /// # Errors
    /// Returns everything that is wrong.
    pub fn check(&mut self) -> Result<Timetable, Vec<ScheduleFault>> {
        let mut faults = Vec::new();
        let zone = self.read_zone().map_err(|fault| faults.push(fault)).ok();
        if let (Some(zone), None) = (&zone, &self.zone) {
            self.zone = Some(zone.iana_name().unwrap_or("UTC").to_owned());
        }
        let mut keep = |result: Result<Option<Timestamp>, ScheduleFault>| match result {
            Ok(time) => time,
            Err(fault) => {
                faults.push(fault);
                None
            }
        };
        let in_zone = zone.clone().unwrap_or(TimeZone::UTC);
        let start = keep(time("start", self.start.as_deref(), &in_zone));
        let end = keep(time("end", self.end.as_deref(), &in_zone));
        let anchor = keep(time("anchor", self.anchor.as_deref(), &in_zone));
        if let (Some(start), Some(end)) = (start, end)
            && end <= start
        {
            faults.push(ScheduleFault::new("end", "the schedule ends before it starts", None));
        }
        let rule = self.read_rule(anchor).map_err(|fault| faults.push(fault)).ok();
        let jitter = self.read_jitter(rule.as_ref()).map_err(|fault| faults.push(fault)).ok();
        if serde_json::to_vec(&*self).map_or(0, |text| text.len()) > SPEC_BYTES_MAX {
            faults.push(ScheduleFault::new(
                "inputs",
                format!("a schedule has at most {} KiB", SPEC_BYTES_MAX / 1024),
                None,
            ));
        }
        match (rule, zone, jitter) {
            (Some(rule), Some(zone), Some(jitter)) if faults.is_empty() => {
                Ok(Timetable { rule, zone, dst: self.dst, start, end, jitter })
            }
            _ => Err(faults),
        }
    }

    fn read_zone(&self) -> Result<TimeZone, ScheduleFault> {
        let Some(name) = &self.zone else {
            let host = TimeZone::system();
            let is_utc = ["UTC", "Etc/UTC", "Etc/UCT", "UCT", "Zulu", "Etc/Zulu", "Universal", "Etc/Universal"];
            if self.every.is_some() || host.iana_name().is_none_or(|name| is_utc.contains(&name)) {
                return Ok(TimeZone::UTC);
            }
            let hint = format!("zone: {}", host.iana_name().unwrap_or("UTC"));
            return Err(ScheduleFault::new("zone", "the schedule has no time zone", Some(&hint)));
        };
        let bad = |message: String| ScheduleFault::new("zone", message, Some("zone: Europe/Berlin, or UTC"));
        if name.len() > 64 {
            return Err(bad("it is no name of a time zone".to_owned()));
        }
        TimeZone::get(name).map_err(|_| bad(format!("there is no time zone `{name}`")))
    }

    fn read_rule(&self, anchor: Option<Timestamp>) -> Result<Rule, ScheduleFault> {
        let fault = |key, message: &str, hint| Err(ScheduleFault::new(key, message, hint));
        match (&self.cron, &self.every) {
            (Some(_), Some(_)) => fault("every", "a schedule has `cron` or `every`, not both", None),
            (None, None) => fault(
                "cron",
                "a schedule has `cron` or `every`, and this has neither",
                Some("cron: \"30 9 * * 1-5\", or every: 15m"),
            ),
            (Some(_), None) if self.anchor.is_some() => fault("anchor", "`anchor` belongs to `every`", None),
            (Some(cron), None) => Ok(Rule::Cron(Box::new(Cron::parse(cron)?))),
            (None, Some(_)) if self.dst != Dst::default() => {
                fault("dst", "`dst` belongs to `cron`: `every` counts real time", None)
            }
            (None, Some(every)) => {
                let step = parse_duration(every).map_err(|why| ScheduleFault::new("every", why, Some("every: 15m")))?;
                if step < EVERY.0 || step > EVERY.1 {
                    return fault("every", "`every` is from 1s to 366d", None);
                }
                let step = SignedDuration::from_micros(step.0.cast_signed());
                Ok(Rule::Every { step, anchor: anchor.unwrap_or(Timestamp::UNIX_EPOCH) })
            }
        }
    }

    fn read_jitter(&self, rule: Option<&Rule>) -> Result<Micros, ScheduleFault> {
        let Some(text) = &self.jitter else { return Ok(Micros(0)) };
        let jitter = parse_duration(text).map_err(|why| ScheduleFault::new("jitter", why, Some("jitter: 30s")))?;
        if jitter > JITTER_MAX {
            return Err(ScheduleFault::new("jitter", "`jitter` is at most 12h", None));
        }
        let step = match rule {
            Some(Rule::Every { step, .. }) => *step,
            Some(Rule::Cron(cron)) => cron.step,
            None => return Ok(jitter),
        };
        // Later than the next one, a run would overtake it.
        if i128::from(jitter.0) * 1_000 > step.as_nanos() {
            let why = "`jitter` is longer than the time between two runs";
            return Err(ScheduleFault::new("jitter", why, None));
        }
        Ok(jitter)
    }

    /// Checks the expressions in the inputs.
    ///
    /// # Errors
    /// Returns everything that is wrong.
    pub fn check_inputs(&self, jq: &Jq) -> Result<ValueTemplate, Vec<ScheduleFault>> {
        let inputs = Value::Object(self.inputs.clone());
        let fault = |at: &str, message: String| {
            ScheduleFault::new("inputs", format!("{}: {message}", at.trim_start_matches('/')), None)
        };
        let template = ValueTemplate::parse(&inputs)
            .map_err(|errors| errors.iter().map(|e| fault(&e.pointer, e.error.message.clone())).collect::<Vec<_>>())?;
        let mut faults = Vec::new();
        for (at, placed) in template.expressions() {
            check_expression(jq, &placed.expression, &mut |message| faults.push(fault(at, message)));
        }
        if faults.is_empty() { Ok(template) } else { Err(faults) }
    }

    /// The inputs of the run of a due time.
    ///
    /// # Errors
    /// Says which expression fails, and why.
    pub fn inputs_at(
        &self,
        jq: &Jq,
        table: &Timetable,
        name: &str,
        due: crate::process::Timestamp,
    ) -> Result<Map<String, Value>, String> {
        let local = table.local(due);
        let at = |fault: &ScheduleFault| fault.message.clone();
        let template = self.check_inputs(jq).map_err(|faults| faults.iter().map(at).collect::<Vec<_>>().join("; "))?;
        let text = |text: String| Scope::Owned(Value::String(text));
        let scope = Scope::object([
            ("due", text(local.timestamp().to_string())),
            ("local", text(local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string())),
            ("schedule", text(name.to_owned())),
        ]);
        match template.evaluate(jq, &scope) {
            Ok(Value::Object(inputs)) => Ok(inputs),
            Ok(_) => Err("the inputs are no object".to_owned()),
            Err(problem) => Err(format!("inputs{}: {problem}", problem.pointer)),
        }
    }
}

fn check_expression(jq: &Jq, expression: &Expression, fault: &mut dyn FnMut(String)) {
    for error in jq.check(expression).err().into_iter().flatten() {
        fault(format!("`{}` is not an expression: {}", expression.text(), error.message));
    }
    let References::Paths(paths) = expression.references() else { return };
    for root in paths.iter().filter_map(|reference| reference.path.first()) {
        if !ROOTS.contains(&root.as_str()) {
            fault(format!("there is no `.{root}` here: expressions read `.due`, `.local` and `.schedule`"));
        }
    }
}

/// Reads a time: RFC 3339, or a local date or time of the zone.
fn time(key: &'static str, text: Option<&str>, zone: &TimeZone) -> Result<Option<Timestamp>, ScheduleFault> {
    let Some(text) = text else { return Ok(None) };
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(Some(time));
    }
    let civil = text.parse::<jiff::civil::DateTime>().ok();
    let zoned = civil.and_then(|civil| zone.to_ambiguous_zoned(civil).compatible().ok());
    match zoned {
        Some(zoned) => Ok(Some(zoned.timestamp())),
        None => Err(ScheduleFault::new(
            key,
            format!("`{}` is no time", crate::workflow::model::shorten(text)),
            Some("2027-01-31T09:00:00+01:00, or in the schedule's zone 2027-01-31T09:00 or 2027-01-31"),
        )),
    }
}
