//! The webhooks of a service: as they are stored, checked and ready.

use super::delivery_log::DeliveryLog;
use super::secret::{Reach, VARIABLE_PREFIX};
use super::spec::{CheckedWebhook, Fault, WebhookSpec, check_webhook_name};
use crate::journal::StoreError;
use crate::journal::catalog::{Expected, StoredWebhook, Webhook, WebhookWrite};
use crate::run::system_time;
use crate::serve::problem::{Answered, PartProblem, ProblemKind, ServeProblem};
use crate::serve::service::Service;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Where a webhook was described that the server's configuration file has.
pub(in crate::serve) const CONFIG: &str = "config";
/// Where a webhook was described that a request has written.
pub(in crate::serve) const API: &str = "api";

/// What is said of a secret to others than the operator.
pub(super) const UNUSABLE: &str = "the secret cannot be used: the log of the server says why";

/// Checked webhooks that are retained. Arbitrary.
const CHECKED_MAX: usize = 1_000;

/// A webhook that is ready for deliveries, and its revision.
type Ready = (u64, Arc<CheckedWebhook>);

/// The webhooks of a service.
pub(in crate::serve) struct Hooks {
    /// By their names.
    checked: Mutex<HashMap<Arc<str>, Ready>>,
    pub(in crate::serve) deliveries: DeliveryLog,
}

impl Hooks {
    pub(in crate::serve) fn new(deliveries: DeliveryLog) -> Self {
        Self { checked: Mutex::default(), deliveries }
    }
}

impl Service {
    /// How many deliveries there were since the service began, by webhook and outcome.
    pub fn delivery_counts(&self) -> BTreeMap<(Arc<str>, Arc<str>), u64> {
        self.hooks.deliveries.counts()
    }

    /// Returns a webhook that is ready for deliveries.
    pub(in crate::serve) fn hook(&self, name: &str) -> Answered<Arc<CheckedWebhook>> {
        let unknown = || ServeProblem::unknown(format_args!("webhook `{name}`"));
        let stored = self.store.webhook(name)?.ok_or_else(unknown)?;
        if let Some((revision, checked)) = self.hooks.checked.lock().get(name)
            && *revision == stored.revision
        {
            return Ok(Arc::clone(checked));
        }
        let broken = |why: String| {
            tracing::error!(webhook = name, why, "a webhook cannot be used any more");
            ServeProblem::new(ProblemKind::HostFault)
        };
        let spec: WebhookSpec =
            serde_json::from_str(&stored.webhook.spec).map_err(|error| broken(error.to_string()))?;
        let checked = spec.check(self.host.expressions()).map_err(|faults| broken(format!("{faults:?}")))?;
        let checked = Arc::new(CheckedWebhook { is_trusted: &*stored.webhook.origin == CONFIG, ..checked });
        let mut all = self.hooks.checked.lock();
        if all.len() >= CHECKED_MAX {
            all.clear();
        }
        all.insert(Arc::clone(&stored.webhook.name), (stored.revision, Arc::clone(&checked)));
        Ok(checked)
    }

    /// What a webhook may name.
    pub(super) fn reach(&self, is_trusted: bool) -> Reach<'_> {
        Reach { folder: self.options.secrets.as_deref(), is_trusted }
    }

    /// Checks a webhook and writes it. Returns it, and whether it is new.
    pub(in crate::serve) fn put_hook(
        &self,
        name: &str,
        spec: WebhookSpec,
        origin: &str,
        author: &str,
        expected: Expected,
    ) -> Answered<(StoredWebhook, bool)> {
        let checked = self.checked_hook(name, spec, origin)?;
        let spec = serde_json::to_string(&checked.spec).expect("invariant: a description can be written as JSON");
        let webhook = Webhook { name: name.into(), origin: origin.into(), spec: spec.into(), author: author.into() };
        match self.store.put_webhook(&webhook, expected, system_time())? {
            WebhookWrite::Stored { webhook, is_new } => Ok((webhook, is_new)),
            WebhookWrite::Mismatch(found) => Err(mismatch(found)),
        }
    }

    /// Checks a webhook.
    fn checked_hook(&self, name: &str, spec: WebhookSpec, origin: &str) -> Answered<CheckedWebhook> {
        let unfit = |errors| {
            let mut problem = ServeProblem::new(ProblemKind::DoesNotFit);
            problem.errors = errors;
            problem
        };
        check_webhook_name(name).map_err(|why| ServeProblem::new(ProblemKind::DoesNotFit).detail(why))?;
        let checked = spec.check(self.host.expressions()).map_err(|faults| unfit(parts(faults)))?;
        let is_trusted = origin == CONFIG;
        let sources = checked.spec.verify.secrets().iter().enumerate();
        let unreadable = sources.filter_map(|(number, source)| {
            let why = checked.spec.verify.check_secret(source, self.reach(is_trusted)).err()?;
            let message = if is_trusted {
                why
            } else {
                tracing::warn!(webhook = name, why, "a secret of a webhook cannot be used");
                format!(
                    "{UNUSABLE}; it is a variable `{VARIABLE_PREFIX}…` of the server's environment, or a file in the \
                     folder that `wfhost serve --secrets` names"
                )
            };
            Some(Fault { pointer: format!("/verify/secrets/{number}"), message })
        });
        let unreadable: Vec<_> = unreadable.collect();
        if unreadable.is_empty() { Ok(checked) } else { Err(unfit(parts(unreadable))) }
    }

    /// What is wrong with each webhook of the server's configuration file that cannot be used.
    /// Nothing is stored.
    pub(in crate::serve) fn faulty_webhooks(&self, webhooks: BTreeMap<String, WebhookSpec>) -> Vec<(String, String)> {
        let why = |(name, spec): (String, WebhookSpec)| {
            let problem = self.checked_hook(&name, spec, CONFIG).err()?;
            Some((name, in_words(problem)))
        };
        webhooks.into_iter().filter_map(why).collect()
    }

    /// What is wrong with each webhook that was written by the API and cannot be used now: mostly
    /// that its secret is not where it was.
    ///
    /// # Errors
    /// Fails if the folder cannot be read.
    pub(in crate::serve) fn unreadable_webhooks(&self) -> Result<Vec<(String, String)>, StoreError> {
        let of_api = self.store.webhooks()?.into_iter().filter(|stored| &*stored.webhook.origin != CONFIG);
        let why = |stored: StoredWebhook| {
            let name = stored.webhook.name.to_string();
            let spec: WebhookSpec = match serde_json::from_str(&stored.webhook.spec) {
                Ok(spec) => spec,
                Err(error) => return Some((name, error.to_string())),
            };
            let secrets = spec.verify.secrets();
            let why = secrets.iter().find_map(|source| spec.verify.check_secret(source, self.reach(false)).err())?;
            Some((name, why))
        };
        Ok(of_api.filter_map(why).collect())
    }

    /// Makes the webhooks of the server's configuration file those that are stored as such.
    /// Returns what is wrong with each that cannot be used: it stays as it was before.
    ///
    /// # Errors
    /// Fails if the folder cannot be read or written.
    pub fn set_webhooks(
        &self,
        webhooks: BTreeMap<String, WebhookSpec>,
    ) -> Result<BTreeMap<String, String>, StoreError> {
        let mut faulty = BTreeMap::new();
        for stored in self.store.webhooks()? {
            let name = &*stored.webhook.name;
            if &*stored.webhook.origin == CONFIG && !webhooks.contains_key(name) {
                let _ = self.store.remove_webhook(name, Expected::Revision(stored.revision))?;
            }
        }
        for (name, spec) in webhooks {
            if let Err(problem) = self.put_hook(&name, spec, CONFIG, CONFIG, Expected::Any) {
                faulty.insert(name, in_words(problem));
            }
        }
        Ok(faulty)
    }
}

/// What is wrong, in one line.
fn in_words(problem: ServeProblem) -> String {
    let parts = problem.errors.into_iter().map(|part| match part.pointer.as_str() {
        "" => part.message,
        pointer => format!("{pointer}: {}", part.message),
    });
    let whys: Vec<_> = problem.detail.into_iter().chain(parts).collect();
    if whys.is_empty() { problem.title } else { whys.join("; ") }
}

/// The problem of a revision that is not the one that the caller knows.
pub(in crate::serve) fn mismatch(found: Option<u64>) -> ServeProblem {
    ServeProblem::new(ProblemKind::Precondition).detail(match found {
        Some(revision) => format!("the present revision is \"{revision}\""),
        None => "there is none of this name".to_owned(),
    })
}

fn parts(faults: Vec<Fault>) -> Vec<PartProblem> {
    let part = |Fault { pointer, message }| PartProblem { pointer, message, line: None, column: None, hint: None };
    faults.into_iter().map(part).collect()
}
