//! What a user could do about a problem of a run, by its kind: the flag to give, or the line to add
//! to the file. There is no hint if none is known to help.

use crate::cli::report::invocation::{Invocation, PLAIN_SECRETS, shell_quoted};
use crate::cli::report::units::{amount, exact_duration, size};
use crate::dispatch::kind as call;
use crate::guest::OUT_OF_FUEL;
use crate::host::ChangedScript;
use crate::process::Limits;
use crate::process::problem::kind;
use crate::workflow::expression::TOO_EXPENSIVE;
use crate::workflow::plan::{Action, Node};
use serde_json::Value;
use std::time::Duration;

/// The problem that a run ended with, or the one below it that a step failed with.
pub(in crate::cli) struct Failure<'a> {
    /// As JSON: `kind`, `title`, `class`, `data`.
    pub(in crate::cli) problem: &'a Value,
    /// The step that failed.
    pub(in crate::cli) node: Option<&'a Node>,
    /// The command that was given.
    pub(in crate::cli) invocation: &'a Invocation,
    /// The slots that the host has.
    pub(in crate::cli) slots: u32,
}

impl Failure<'_> {
    /// The hint, if one is known.
    pub(in crate::cli) fn hint(&self) -> Option<String> {
        let text = |key: &str| self.problem[key].as_str().unwrap_or_default();
        match text("kind") {
            call::ADDRESS_REFUSED => self.address(),
            call::SECRET_REFUSED => self.plain_secret(),
            kind::NOT_GRANTED => self.grant(),
            kind::NO_CAPACITY | kind::IMAGES_EXHAUSTED => self.slots(),
            kind::TIMED_OUT => self.timeout(),
            kind::CANCELLED => None,
            kind::JOURNAL_FAILED => Some(
                "what was recorded is safe: when the disk works again, `wfhost resume` continues the run".to_owned(),
            ),
            TOO_EXPENSIVE => Some(
                "the budget grows with what the expression reads: pass a long list as an input, or build it \
                in a guest (`uses`)"
                    .to_owned(),
            ),
            kind => match self.node.and_then(|node| raised(kind, text("title"), &node.limits)) {
                Some((key, now, more)) => {
                    let step = self.step()?;
                    Some(format!("if it needs more than {now}, add under the step {step}: limits: {{ {key}: {more} }}"))
                }
                None => self.by_class(text("class")),
            },
        }
    }

    fn step(&self) -> Option<String> {
        self.node.map(|node| format!("`{}`", node.id))
    }

    fn address(&self) -> Option<String> {
        let host = self.problem["data"]["host"].as_str()?;
        // A single word is a name only with a dot at its end.
        let is_word = host != "localhost" && !host.contains(['.', ':']);
        let place = if is_word { format!("{host}.") } else { host.to_owned() };
        // A guest can fail with this kind too and put anything into it.
        place.parse::<crate::dispatch::http::Permission>().ok()?;
        Some(match self.invocation.with_addresses(std::slice::from_ref(&place)) {
            Some(command) => format!("if it should be reachable: {command}"),
            None => format!("if it should be reachable, add --allow-address {place}"),
        })
    }

    /// Of a secret that a server would receive without TLS.
    fn plain_secret(&self) -> Option<String> {
        let url: url::Url = self.problem["data"]["without-tls"].as_str()?.parse().ok()?;
        let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
        match url.host()? {
            url::Host::Domain("localhost") => {
                let place = format!("127.0.0.1{port}");
                Some(format!(
                    "if it is this machine, write {place} in the URL, `allow` and the secret's `hosts`, and add \
                     --plain-secrets"
                ))
            }
            url::Host::Domain(_) => None,
            host => {
                let is_loopback = match host {
                    url::Host::Ipv4(address) => address.is_loopback(),
                    url::Host::Ipv6(address) => address.is_loopback(),
                    url::Host::Domain(_) => false,
                };
                let command = self.invocation.with_switch(PLAIN_SECRETS).filter(|_| is_loopback)?;
                Some(format!("if this machine may receive it: {command}"))
            }
        }
    }

    fn grant(&self) -> Option<String> {
        let step = self.step()?;
        let data = &self.problem["data"];
        let is_name = |text: &&str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        let capability = data["capability"].as_str().filter(is_name)?;
        let pattern = data["pattern"].as_str().unwrap_or("*");
        // A pattern is a string of YAML as it is one of JSON.
        let pattern = serde_json::to_string(pattern).ok()?;
        Some(format!("if the step {step} should have it, add under it: allow: {{ {capability}: [ {pattern} ] }}"))
    }

    fn slots(&self) -> Option<String> {
        let more = self.slots.saturating_mul(2).min(crate::guest::slots_max());
        if more <= self.slots {
            return None;
        }
        self.invocation.with("--slots", &more.to_string(), false).map(|command| format!("with more slots: {command}"))
    }

    /// Of a step, or of the whole run.
    fn timeout(&self) -> Option<String> {
        let Some(node) = self.node else {
            // A retry has no timeout.
            let Some(timeout) = self.invocation.timeout() else { return self.by_class("retryable") };
            let longer = exact_duration(timeout.saturating_mul(2));
            let command = self.invocation.with("--timeout", &longer, false);
            return command.map(|command| format!("to give it longer: {command}"));
        };
        let longer = exact_duration(Duration::from(node.timeout?).saturating_mul(2));
        let retry = if node.retry.is_none() { ", or retry: { max: 3 }" } else { "" };
        Some(format!("add under the step `{}`: timeout: {longer}{retry}", node.id))
    }

    fn by_class(&self, class: &str) -> Option<String> {
        match class {
            "retryable" => {
                let invocation = self.invocation.text().map_or_else(String::new, |command| format!(": {command}"));
                let hint = format!("this may be temporary; run it again{invocation}");
                let can_retry = |node: &&Node| {
                    node.retry.is_none() && matches!(node.action, Action::Uses { .. } | Action::Call { .. })
                };
                Some(match self.node.filter(can_retry) {
                    Some(node) => format!("{hint}\nor add under the step `{}`: retry: {{ max: 3 }}", node.id),
                    None => hint,
                })
            }
            "uncertain" => {
                Some(check_first(self.invocation.text().filter(|_| self.invocation.is_command("retry")).as_deref()))
            }
            _ => None,
        }
    }
}

/// The hint for a call whose outcome is unknown, with the command that repeats it.
pub(in crate::cli) fn check_first(retry: Option<&str>) -> String {
    let look = "whether it happened is unknown: check before you run it again";
    retry.map_or_else(|| look.to_owned(), |retry| format!("{look}: {retry} (with its former key)"))
}

/// The flag with which a retry takes a script as it is now.
pub(in crate::cli) fn with_changed(workflow: &str, script: &ChangedScript) -> String {
    match &script.source {
        Some(path) => {
            let path = path.display().to_string();
            format!("--with {}", shell_quoted(&format!("{}={}", script.component, plain(&path))))
        }
        None => format!("--workflow {}", shell_quoted(workflow)),
    }
}

/// A path without `./` in it.
fn plain(path: &str) -> String {
    path.trim_start_matches("./").replace("/./", "/")
}

/// How to go on with a run that did not succeed.
pub(in crate::cli) fn retry_hint(id: &str) -> String {
    format!("to run the steps that did not succeed again: wfhost retry {id}")
}

/// The key under `limits:` that a problem comes from, what it is now, and twice as much.
fn raised(kind: &str, title: &str, limits: &Limits) -> Option<(&'static str, String, String)> {
    let bytes = |key, now: u64| Some((key, size(now), size(now.saturating_mul(2))));
    let count = |key, now: u64| Some((key, amount(now), amount(now.saturating_mul(2))));
    match kind {
        kind::MEMORY_EXHAUSTED => bytes("memory", limits.memory_bytes),
        // A guest that has used up the fuel of a step trapped; the fuel of all steps is counted by
        // the run. No limit sets the fuel outside of steps.
        kind::FUEL_EXHAUSTED if title == OUT_OF_FUEL => count("fuel-per-step", limits.fuel_per_step),
        kind::FUEL_EXHAUSTED if title.contains("process") => count("fuel", limits.fuel_total),
        kind::TOO_LARGE if title.contains("step may give") => bytes("output", limits.output_bytes),
        // Anything else that is too large, such as a name or an exposed value, has no limit of a
        // step.
        kind::TOO_LARGE if is_payload(title) && limits.payload_bytes < PAYLOAD_BYTES_MAX => {
            bytes("payload", limits.payload_bytes)
        }
        kind::TOO_MANY_COMMANDS => count("commands-per-step", limits.commands_per_step.into()),
        kind::TOO_MANY_OUTSTANDING => count("outstanding", limits.outstanding.into()),
        kind::MAILBOX_FULL => count("mailbox", limits.mailbox.into()),
        kind::TOO_DEEP => count("spawn-depth", limits.spawn_depth.into()),
        kind::TOO_MANY_PROCESSES => count("processes", limits.processes.into()),
        kind::TOO_MANY_LINKS => count("links", limits.links.into()),
        _ => None,
    }
}

/// Returns whether a problem with this title is about the size of a payload.
fn is_payload(title: &str) -> bool {
    ["payload", "value is too large", "larger than allowed"].iter().any(|part| title.contains(part))
}

/// Payloads beyond it do not fit between steps, whatever the limit.
const PAYLOAD_BYTES_MAX: u64 = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Micros;
    use serde_json::json;

    fn hint(problem: &Value) -> Option<String> {
        hint_of(problem, None)
    }

    #[test]
    fn an_expression_that_makes_too_much_of_nothing() {
        let hint = hint(&json!({ "kind": TOO_EXPENSIVE, "title": "", "class": "definite" })).unwrap();
        assert!(hint.contains("as an input"), "{hint}");
    }

    fn hint_of(problem: &Value, node: Option<&Node>) -> Option<String> {
        let invocation =
            Invocation::of(["run", "f.yaml", "--timeout=5s"].map(Into::into), Some(Duration::from_secs(5)));
        Failure { problem, node, invocation: &invocation, slots: 64 }.hint()
    }

    /// An ordinary step `s`.
    fn node() -> Node {
        Node {
            id: "s".into(),
            pointer: "/steps/0".to_owned(),
            action: Action::Call {
                handler: "http".into(),
                with: crate::workflow::plan::Template::Literal(Value::Null),
            },
            needs: Vec::new(),
            condition: None,
            when: crate::workflow::model::When::Succeeded,
            for_each: None,
            max_parallel: 64,
            retry: None,
            repeat: None,
            cache: None,
            timeout: Some(Micros(30_000_000)),
            continue_on_error: false,
            limits: std::sync::Arc::default(),
            grants: crate::process::Grants::default(),
            compensate: None,
            secrets: Vec::new(),
        }
    }

    #[test]
    fn a_refused_address_is_named_as_the_flag_wants_it() {
        let refused = |host: &str| hint(&json!({ "kind": "address-refused", "data": { "host": host } })).unwrap();
        assert_eq!(
            refused("127.0.0.1"),
            "if it should be reachable: wfhost run f.yaml --timeout=5s --allow-address 127.0.0.1"
        );
        assert!(refused("localhost").ends_with("--allow-address localhost"));
        assert!(refused("db.internal").ends_with("--allow-address db.internal"));
        for host in ["db", "::1", "10.0.0.1", "localhost"] {
            let hint = refused(host);
            let place = hint.rsplit(' ').next().unwrap();
            assert!(place.parse::<crate::dispatch::http::Permission>().is_ok(), "{place}");
        }
    }

    #[test]
    fn a_secret_in_plain_text_is_for_an_address_of_this_machine() {
        let refused = |origin: &str| hint(&json!({ "kind": "secret-refused", "data": { "without-tls": origin } }));
        let command = "if this machine may receive it: wfhost run f.yaml --timeout=5s --plain-secrets";
        assert_eq!(refused("http://127.0.0.1:8731").as_deref(), Some(command));
        assert_eq!(refused("http://[::1]:8731").as_deref(), Some(command));
        let localhost = refused("http://localhost:8731").unwrap();
        assert!(localhost.contains("write 127.0.0.1:8731 in the URL"), "{localhost}");
        for other in ["http://a.example", "http://10.0.0.1", "no URL", ""] {
            assert_eq!(refused(other), None, "{other}");
        }
    }

    #[test]
    fn a_missing_grant_is_the_line_to_write() {
        let problem =
            json!({ "kind": "not-granted", "data": { "capability": "http", "pattern": "GET https://a.b/c" } });
        let expected = r#"if the step `s` should have it, add under it: allow: { http: [ "GET https://a.b/c" ] }"#;
        assert_eq!(hint_of(&problem, Some(&node())).as_deref(), Some(expected));
    }

    #[test]
    fn a_limit_is_named_with_twice_as_much() {
        let raised = |kind: &str, title: &str| {
            hint_of(&json!({ "kind": kind, "title": title, "class": "definite" }), Some(&node())).unwrap()
        };
        assert_eq!(
            raised("memory-exhausted", ""),
            "if it needs more than 64MiB, add under the step `s`: limits: { memory: 128MiB }"
        );
        assert!(raised("fuel-exhausted", "The guest used up its fuel").ends_with("limits: { fuel-per-step: 2G }"));
        assert!(raised("too-large", "A payload is too large").ends_with("limits: { payload: 2MiB }"));
        assert!(raised("too-many-commands", "").contains("more than 10k"));
        assert!(raised("too-large", "Something is larger than allowed").ends_with("limits: { payload: 2MiB }"));
        assert!(raised("fuel-exhausted", "The process used more fuel than it may").contains("limits: { fuel: "));
    }

    #[test]
    fn what_no_limit_sets_has_no_hint() {
        for (kind, title) in [
            ("too-large", "A name is longer than allowed"),
            ("too-large", "The run exposes too much"),
            ("fuel-exhausted", "The guest used up the fuel that there is outside of steps"),
        ] {
            let problem = json!({ "kind": kind, "title": title, "class": "definite" });
            assert_eq!(hint_of(&problem, Some(&node())), None, "{title}");
        }
    }

    #[test]
    fn a_timeout_is_that_of_the_step_or_that_of_the_run() {
        let problem = json!({ "kind": "timed-out", "class": "retryable" });
        assert_eq!(hint(&problem).as_deref(), Some("to give it longer: wfhost run f.yaml --timeout 10s"));
        let invocation = Invocation::of(["retry", "it"].map(Into::into), None);
        let rest = Failure { problem: &problem, node: None, invocation: &invocation, slots: 64 }.hint();
        assert_eq!(rest.as_deref(), Some("this may be temporary; run it again: wfhost retry it"));
        assert_eq!(
            hint_of(&problem, Some(&node())).as_deref(),
            Some("add under the step `s`: timeout: 1m, or retry: { max: 3 }")
        );
    }

    #[test]
    fn again_is_said_only_of_what_may_pass() {
        let class = |class: &str| hint_of(&json!({ "kind": "x", "class": class }), Some(&node()));
        assert_eq!(class("definite"), None);
        assert!(class("uncertain").unwrap().contains("check before you run it again"));
        let retryable = class("retryable").unwrap();
        assert!(
            retryable.starts_with("this may be temporary; run it again: wfhost run f.yaml --timeout=5s\nor add under")
        );
        assert_eq!(hint(&json!({ "kind": "cancelled", "class": "retryable" })), None);
    }

    #[test]
    fn too_few_slots_lead_to_more_of_them() {
        let hint = hint(&json!({ "kind": "no-capacity", "class": "retryable" })).unwrap();
        assert_eq!(hint, "with more slots: wfhost run f.yaml --timeout=5s --slots 128");
    }
}
