//! Reports secrets that cannot be used as the file says, before anything runs.

use super::environment::Handlers;
use crate::process::handler::HTTP;
use crate::workflow::diagnostics::{Diagnostic, Diagnostics, all_of, closest};
use crate::workflow::model::{Action, SecretDecl, Spanned, Step, Workflow, shorten};

/// Names that a hint lists at most. Arbitrary.
const NAMES_SHOWN_MAX: usize = 20;

/// Checks the secrets of a workflow and of its steps.
pub(super) fn check(workflow: &Workflow, handlers: Option<&dyn Handlers>, problems: &mut Diagnostics) {
    let mut good = Vec::new();
    for secret in &workflow.secrets {
        let before = problems.count();
        for host in &secret.hosts {
            if let Some(Err(why)) = handlers.map(|handlers| handlers.check_secret_host(&host.value)) {
                let problem = Diagnostic::new("secret-host", format!("not a pattern of hosts: {why}"), host.span);
                problems.push(problem.hint("hosts: [ api.example.com, \"*.example.com\", \"localhost:8443\" ]"));
            }
        }
        if problems.count() == before {
            good.push(secret);
        }
    }
    for step in workflow.all_steps() {
        for name in &step.secrets {
            check_used(step, name, workflow, &good, handlers, problems);
        }
    }
}

fn check_used(
    step: &Step,
    name: &Spanned<String>,
    workflow: &Workflow,
    good: &[&SecretDecl],
    handlers: Option<&dyn Handlers>,
    problems: &mut Diagnostics,
) {
    let declared = || workflow.secrets.iter().map(|secret| secret.name.value.as_str());
    if workflow.unread_secrets.contains(&name.value) {
        return;
    }
    if !declared().any(|known| known == name.value) {
        let shown = shorten(&name.value);
        let hint = match closest(&name.value, declared()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if declared().next().is_none() => format!(
                "declare it at the top of the file: secrets: {{ {shown}: {{ from: env, hosts: [ api.example.com ] }} }}"
            ),
            None => format!("the secrets are {}", all_of(declared().take(NAMES_SHOWN_MAX))),
        };
        problems.push(Diagnostic::new("unknown-secret", format!("there is no secret `{shown}`"), name.span).hint(hint));
        return;
    }
    if !matches!(step.action, Action::Uses { .. } | Action::Script(_) | Action::Call { .. }) {
        return;
    }
    if let Action::Call { handler } = &step.action
        && handler.value != HTTP
    {
        let message = format!("`{}` cannot use a secret: only `{HTTP}` sends them", shorten(&handler.value));
        let problem = Diagnostic::new("secret-handler", message, name.span).related(handler.span, "called here");
        problems.push(problem.hint("any other handler gets the placeholder, which is of no use to it"));
        return;
    }
    let (Some(secret), Some(handlers), Some(allow)) =
        (good.iter().find(|secret| secret.name.value == name.value), handlers, &step.allow)
    else {
        return;
    };
    let allowed = allow.iter().find(|allowed| allowed.capability.value == HTTP);
    if allowed.is_some_and(|allowed| !allowed.is_whole) {
        return;
    }
    let patterns: Vec<String> =
        allowed.iter().flat_map(|allowed| &allowed.patterns).map(|pattern| pattern.value.clone()).collect();
    if !secret.hosts.iter().any(|host| handlers.reaches(&patterns, &host.value)) {
        let hosts = all_of(secret.hosts.iter().map(|host| host.value.as_str()));
        let id = &step.id.value;
        let message = format!("`{id}` can never send the secret `{}`: its `allow` reaches none of {hosts}", name.value);
        let mut problem = Diagnostic::new("secret-unreachable", message, name.span);
        if let Some(host) = secret.hosts.first() {
            problem = problem.related(host.span, "the hosts of the secret");
            let with_port = secret.hosts.iter().find_map(|host| with_port(&host.value, &patterns));
            problem = problem.hint(match with_port {
                Some(host) => format!("a host without a port is port 443 alone: hosts: [ \"{host}\" ]"),
                None => format!("allow: {{ http: [ \"GET https://{}\" ] }}", host.value.replace('"', "")),
            });
        }
        problems.push(problem);
    }
}

/// A host with the port that a pattern of a grant has for it.
fn with_port<'p>(host: &str, patterns: &'p [String]) -> Option<&'p str> {
    patterns.iter().find_map(|pattern| {
        let (_, place) = pattern.split_once("://")?;
        let place = place.split('/').next().unwrap_or_default();
        let (name, port) = place.rsplit_once(':')?;
        let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        (is_port && name.eq_ignore_ascii_case(host)).then_some(place)
    })
}
