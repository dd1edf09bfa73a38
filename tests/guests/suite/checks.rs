//! What a scenario expects of a run that has ended.

use super::handlers::Seen;
use super::running::Verdict;
use super::scenario::{Scenario, expanded};
use base64::Engine as _;
use serde_json::{Map, Value, json};
use wfhost::host::{Outcome, Status};
use wfhost::process::LogLine;

pub(super) fn check(scenario: &Scenario, outcome: &Outcome, seen: &Seen) -> Verdict {
    if scenario.cancelled {
        same("the status", &outcome.status, &Status::Cancelled)?;
    } else {
        let outputs = outcome.outputs().ok_or_else(|| format!("it has no outputs: {}", outcome.to_json()))?;
        for n in 0..scenario.copies {
            result(scenario, &outputs[format!("s{n}")])?;
        }
    }
    if let Some(notes) = &scenario.notes {
        same("its notes", &seen.notes, notes)?;
    }
    for (handler, calls) in &scenario.calls {
        same(&format!("calls of {handler}"), seen.begun.get(handler).unwrap_or(&0), calls)?;
    }
    if scenario.in_flight_max.is_some_and(|max| seen.in_flight_max > max) {
        return Err(format!("{} calls of delay were in flight", seen.in_flight_max));
    }
    counted(seen)?;
    logged(&scenario.logs, &seen.lines)
}

fn result(scenario: &Scenario, found: &Value) -> Verdict {
    if let Some(problem) = &scenario.problem {
        if found["status"] != "failed" {
            return Err(format!("it should have failed: {found}"));
        }
        return fits(problem, &found["error"]);
    }
    if found["status"] != "succeeded" {
        return Err(format!("it should have succeeded: {}", shortened(found)));
    }
    let wanted = match (&scenario.output, &scenario.output_bytes) {
        (Some(output), None) => expanded(output),
        (None, Some(_)) => {
            let bytes: Vec<u8> = (0..=255).rev().collect();
            json!(base64::engine::general_purpose::STANDARD.encode(bytes))
        }
        _ => return Err("the scenario has neither an output nor a problem".into()),
    };
    if same_value(&found["output"], &wanted) {
        return Ok(());
    }
    Err(format!("its output is {} and not {}", shortened(&found["output"]), shortened(&wanted)))
}

/// Numbers are compared as numbers: `1` is `1.0`.
fn same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || (one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| same_value(a, b))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len() && one.iter().all(|(key, a)| other.get(key).is_some_and(|b| same_value(a, b)))
        }
        _ => a == b,
    }
}

/// Whether a problem has what is wanted of it.
fn fits(wanted: &Map<String, Value>, found: &Value) -> Verdict {
    for (member, value) in wanted {
        let is_so = match (member.as_str(), value) {
            ("kind", Value::Array(kinds)) => kinds.contains(&found["kind"]),
            ("title-has" | "detail-has", Value::String(part)) => {
                let text = found[member.trim_end_matches("-has")].as_str();
                text.is_some_and(|text| text.contains(part.as_str()))
            }
            ("data", Value::Object(_)) => same_value(&without_place(&found["data"]), value),
            _ => same_value(&found[member], value),
        };
        if !is_so {
            return Err(format!("{member} should be {value} in {found}"));
        }
    }
    Ok(())
}

/// A script engine adds where the problem came from.
fn without_place(data: &Value) -> Value {
    let mut data = data.clone();
    if let Some(members) = data.as_object_mut() {
        members.retain(|member, _| member != "at" && member != "stack");
    }
    data
}

/// Each key had one effect, whose value is always the same.
fn counted(seen: &Seen) -> Verdict {
    let mut values: Vec<&Value> = seen.counted.values().map(|values| &values[0]).collect();
    let effects = values.len();
    values.sort_by_key(|value| value.as_u64());
    values.dedup();
    if values.len() != effects || seen.counted.values().any(|values| values.iter().any(|value| *value != values[0])) {
        return Err(format!("an effect has two keys, or a key two effects: {:?}", seen.counted));
    }
    Ok(())
}

/// The lines are there in this order; others may be between.
fn logged(wanted: &[Value], lines: &[LogLine]) -> Verdict {
    let mut lines = lines.iter();
    for wanted in wanted {
        let is_line = |line: &LogLine| {
            let level = format!("{:?}", line.level).to_lowercase();
            let fields = line.fields.as_ref().map(wfhost::process::Json::to_value).unwrap_or_default();
            wanted["level"] == level
                && wanted.get("text").is_none_or(|text| *text == line.text)
                && wanted["text-has"].as_str().is_none_or(|part| line.text.contains(part))
                && wanted.get("fields").is_none_or(|wanted| same_value(&fields, wanted))
        };
        if !lines.any(is_line) {
            return Err(format!("its log lacks {wanted}"));
        }
    }
    Ok(())
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, wanted: &T) -> Verdict {
    if found == wanted { Ok(()) } else { Err(format!("{what}: {found:?} and not {wanted:?}")) }
}

fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(600) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
