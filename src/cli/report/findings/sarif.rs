//! SARIF 2.1.0 (OASIS), the form of findings that code scanning and editors read.

use super::rules::rule_text;
use super::{Finding, Findings, Level, Place, Range};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Value, json};
use std::path::Path;

const SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// What is not itself in the path of a URI.
const IN_PATHS: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A log with one run, over all files.
pub(super) fn log(all: &[Findings]) -> Value {
    let mut rules: Vec<(&'static str, Level)> = Vec::new();
    let mut results = Vec::new();
    for finding in all.iter().flat_map(|findings| &findings.found) {
        let known = rules.iter().position(|(code, _)| *code == finding.code);
        let index = known.unwrap_or_else(|| {
            rules.push((finding.code, finding.level));
            rules.len() - 1
        });
        results.push(result(finding, index));
    }
    let rules: Vec<Value> = rules.into_iter().map(|(code, level)| rule(code, level)).collect();
    let mut invocation = json!({ "executionSuccessful": true });
    let more: Vec<Value> = all
        .iter()
        .filter_map(Findings::more)
        .map(|text| json!({ "level": "error", "message": { "text": text } }))
        .collect();
    if !more.is_empty() {
        invocation["toolExecutionNotifications"] = json!(more);
    }
    let artifacts: Vec<Value> =
        all.iter().map(|findings| json!({ "location": { "uri": uri(&findings.file) } })).collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "wfhost",
                "version": env!("CARGO_PKG_VERSION"),
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": rules,
            } },
            "invocations": [invocation],
            "columnKind": "unicodeCodePoints",
            "artifacts": artifacts,
            "results": results,
        }],
    })
}

fn rule(code: &str, level: Level) -> Value {
    json!({
        "id": code,
        "shortDescription": { "text": rule_text(code) },
        "helpUri": concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/workflows.md"),
        "defaultConfiguration": { "level": level.name() },
    })
}

fn result(finding: &Finding, rule: usize) -> Value {
    let mut result = json!({
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": finding.level.name(),
        "message": { "text": finding.text() },
        "locations": [location(&finding.place)],
    });
    if !finding.related.is_empty() {
        let related = finding.related.iter().enumerate().map(|(id, (label, place))| {
            let mut location = location(place);
            location["id"] = json!(id);
            location["message"] = json!({ "text": label });
            location
        });
        result["relatedLocations"] = related.collect();
    }
    if let (Some(text), Some(range)) = (&finding.replacement, &finding.place.range) {
        let hint = finding.hint.as_deref().unwrap_or_default();
        result["fixes"] = json!([{
            "description": { "text": hint },
            "artifactChanges": [{
                "artifactLocation": { "uri": uri(&finding.place.file) },
                "replacements": [{ "deletedRegion": region(range), "insertedContent": { "text": text } }],
            }],
        }]);
    }
    result
}

fn location(place: &Place) -> Value {
    let mut physical = json!({ "artifactLocation": { "uri": uri(&place.file) } });
    if let Some(range) = &place.range {
        physical["region"] = region(range);
    }
    json!({ "physicalLocation": physical })
}

fn region(Range { start, end, .. }: &Range) -> Value {
    json!({
        "startLine": start.line, "startColumn": start.column, "endLine": end.line, "endColumn": end.column,
    })
}

/// The path of a file as a URI, relative if the path is.
fn uri(file: &str) -> String {
    let path = file.strip_prefix("./").unwrap_or(file);
    let path_uri = utf8_percent_encode(path, IN_PATHS).to_string();
    if Path::new(path).is_absolute() {
        return format!("file://{path_uri}");
    }
    // The first part of a relative URI has no colon: it would be a scheme.
    match path_uri.split_once('/') {
        Some((first, rest)) => format!("{}/{rest}", first.replace(':', "%3A")),
        None => path_uri.replace(':', "%3A"),
    }
}

#[cfg(test)]
mod tests {
    use super::uri;

    #[test]
    fn paths_are_uris() {
        assert_eq!(uri("./a b/ü#%.yaml"), "a%20b/%C3%BC%23%25.yaml");
        assert_eq!(uri("/tmp/a?.yaml"), "file:///tmp/a%3F.yaml");
        assert_eq!(uri("c:x/y:z.yaml"), "c%3Ax/y:z.yaml");
    }
}
