//! What a program has left: its output, or its problem.
//!
//! `{ stdout, stderr, code, files }`. `stdout` is what `parse` makes of it; `stderr` is text;
//! `files` has the content of files by path: text, or `{ bytes: base64 }` where it is not UTF-8.

use super::invocation::{Expected, Given, Parse};
use crate::guest::wasi::World;
use crate::guest::wasi::files::tree::File;
use crate::process::{Blob, Json, Limits, Payload, Problem, ProblemClass, problem::kind};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// Characters of standard error that a problem quotes: the last ones. Arbitrary.
const QUOTED_MAX: usize = 2_000;

/// Bytes of standard output and of standard error that a problem has as data. Arbitrary.
const DATA_BYTES_MAX: usize = 16 << 10;

/// Makes the output of a program that has ended with this code. `stored` is its standard output, if
/// that became a blob.
///
/// # Errors
/// The problem of a code that was not expected, or of an output that does not fit.
pub(super) fn of(
    code: u8,
    world: &World,
    (given, expected): (&BTreeMap<String, Given>, &Expected),
    limits: &Limits,
    stored: Option<Blob>,
) -> Result<Payload, Problem> {
    let (stdout, stderr) = (world.take_stdout(), world.take_stderr());
    let errors = String::from_utf8_lossy(&stderr).into_owned();
    if !expected.codes.contains(&code) {
        return Err(exit(code, &stdout, &errors));
    }
    let output = json!({
        "stdout": stored.map_or_else(|| parsed(stdout, expected.parse), |blob| Ok(blob.to_value()))?,
        "stderr": errors,
        "code": code,
        "files": files(world, given, expected, limits)?,
    });
    let output = Json::from_value(&output);
    let bytes = output.as_bytes().len() as u64;
    if bytes > limits.payload_bytes {
        return Err(too_large(bytes, limits));
    }
    Ok(Payload::Json(output))
}

fn too_large(bytes: u64, limits: &Limits) -> Problem {
    let detail = format!(
        "{bytes} bytes of at most {}; `outputs` names the files that are wanted, `limits: {{ payload: … }}` allows more",
        limits.payload_bytes
    );
    Problem::new(kind::TOO_LARGE, "The program's output is larger than allowed").with_detail(detail)
}

/// The problem of a program that was not expected to end with this code.
fn exit(code: u8, stdout: &[u8], errors: &str) -> Problem {
    let text = if errors.trim().is_empty() { String::from_utf8_lossy(stdout) } else { errors.into() };
    let mut problem = Problem::new(kind::EXIT, format!("The program exited with code {code}"))
        .with_class(ProblemClass::Definite)
        .with_data(&json!({
            "code": code,
            "stdout": String::from_utf8_lossy(&stdout[..stdout.len().min(DATA_BYTES_MAX)]),
            "stderr": errors.chars().take(DATA_BYTES_MAX).collect::<String>(),
        }));
    let last = last_lines(&text);
    if !last.is_empty() {
        problem = problem.with_detail(last);
    }
    problem
}

/// The same problem with the end of what the program wrote to standard error.
pub(super) fn quoting(problem: Problem, stderr: &[u8]) -> Problem {
    let last = last_lines(&String::from_utf8_lossy(stderr));
    let detail = match &problem.detail {
        Some(detail) if last.is_empty() => detail.clone(),
        Some(detail) => format!("{last}\n{detail}"),
        None => last,
    };
    problem.with_detail(detail)
}

/// The end of a text: whole lines, as far as possible.
fn last_lines(text: &str) -> String {
    let text = text.trim_end();
    let skipped = text.chars().count().saturating_sub(QUOTED_MAX);
    let rest: String = text.chars().skip(skipped).collect();
    match rest.split_once('\n') {
        Some((_, whole)) if skipped > 0 => whole.to_owned(),
        _ => rest,
    }
}

fn parsed(stdout: Vec<u8>, parse: Parse) -> Result<Value, Problem> {
    let unfit = |detail: String| {
        Problem::new("bad-output", "The program's standard output does not fit `parse`").with_detail(detail)
    };
    match parse {
        Parse::Bytes => Ok(json!({ "bytes": STANDARD.encode(stdout) })),
        Parse::Text | Parse::Blob => Ok(text(stdout)),
        Parse::Lines => {
            let text = String::from_utf8(stdout).map_err(|_| unfit("it is not UTF-8; parse: bytes".to_owned()))?;
            Ok(text.lines().map(Value::from).collect())
        }
        Parse::Json => {
            let json = Json::parse(stdout).map_err(|error| unfit(format!("it is not JSON: {error}")))?;
            Ok(json.to_value())
        }
    }
}

/// Text, or bytes where it is not UTF-8.
fn text(bytes: Vec<u8>) -> Value {
    match String::from_utf8(bytes) {
        Ok(text) => Value::String(text),
        Err(error) => json!({ "bytes": STANDARD.encode(error.into_bytes()) }),
    }
}

/// The files that are wanted. No more of them is read than an output may have: a program has files
/// of many times that size, and what is done with them here costs it no fuel.
fn files(
    world: &World,
    given: &BTreeMap<String, Given>,
    expected: &Expected,
    limits: &Limits,
) -> Result<Map<String, Value>, Problem> {
    let all = world.root().files();
    let wanted: Vec<(String, Arc<File>)> = match &expected.outputs {
        None => all
            .into_iter()
            .filter(|(path, file)| !file.is_blob() && given.get(path).is_none_or(|given| !given.is(file)))
            .collect(),
        Some(names) => named(all, names)?,
    };
    let bytes: u64 = wanted.iter().map(|(path, file)| path.len() as u64 + file.len()).sum();
    if bytes > limits.payload_bytes {
        return Err(too_large(bytes, limits));
    }
    Ok(wanted.into_iter().map(|(path, file)| (path, text(file.bytes()))).collect())
}

/// The files that `outputs` names, each once. Names are looked up: there may be many of both.
fn named(all: Vec<(String, Arc<File>)>, names: &[String]) -> Result<Vec<(String, Arc<File>)>, Problem> {
    let all: BTreeMap<String, Arc<File>> = all.into_iter().collect();
    let places: BTreeSet<&str> = names.iter().map(|name| name.strip_prefix('/').unwrap_or(name)).collect();
    let mut found = BTreeMap::new();
    for place in places {
        if place.ends_with('/') || place.is_empty() {
            let below = all
                .range::<str, _>((Bound::Included(place), Bound::Unbounded))
                .take_while(|(path, _)| path.starts_with(place));
            found.extend(below.map(|(path, file)| (path.clone(), Arc::clone(file))));
        } else if let Some(file) = all.get(place) {
            found.insert(place.to_owned(), Arc::clone(file));
        } else {
            let detail = format!("`{place}`, which `outputs` names");
            return Err(Problem::new("missing-file", "The program has not left a file").with_detail(detail));
        }
    }
    Ok(found.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_output_is_read_as_it_is_asked_for() {
        let bytes = |text: &str| text.as_bytes().to_vec();
        assert_eq!(parsed(bytes("a\nb\n"), Parse::Text).unwrap(), json!("a\nb\n"));
        assert_eq!(parsed(bytes("a\r\nb"), Parse::Lines).unwrap(), json!(["a", "b"]));
        assert_eq!(parsed(bytes(" {\"a\": 1} \n"), Parse::Json).unwrap(), json!({ "a": 1 }));
        assert_eq!(parsed(vec![0, 255], Parse::Bytes).unwrap(), json!({ "bytes": "AP8=" }));
        assert_eq!(parsed(vec![255], Parse::Text).unwrap(), json!({ "bytes": "/w==" }));
        for (text, parse) in [(vec![255], Parse::Lines), (bytes("{"), Parse::Json), (bytes(""), Parse::Json)] {
            assert_eq!(parsed(text, parse).unwrap_err().kind, "bad-output");
        }
    }

    #[test]
    fn a_problem_quotes_the_last_whole_lines() {
        assert_eq!(last_lines("one\ntwo\n\n"), "one\ntwo");
        let long = format!("first\n{}\nlast", "x".repeat(QUOTED_MAX - 5));
        assert_eq!(last_lines(&long), "last");
        assert_eq!(exit(2, b"out", "").detail.as_deref(), Some("out"));
        assert_eq!(exit(2, b"", " \n").detail, None);
    }
}
