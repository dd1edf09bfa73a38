//! What a retry would do, as JSON.

use super::PreparedRetry;
use crate::workflow::interpreter::{ItemKeys, RerunReason};
use serde_json::{Value, json};

impl PreparedRetry {
    /// What a retry of a run would do, for programs: the shape that `wfhost retry --help`
    /// documents.
    pub fn to_json(&self, run: &str) -> Value {
        let key = |ItemKeys { item, key, reuse }: &ItemKeys| json!({ "item": item, "key": key, "reuse": reuse });
        let steps = self.repetition.steps.iter().map(|step| {
            let mut view = json!({
                "id": &*step.id,
                "before": step.before,
                "now": if step.reason.is_some() { "runs-again" } else { "taken-over" },
            });
            if let Some(why) = &step.reason {
                view["why"] = match why {
                    RerunReason::NotSucceeded => json!({ "kind": "ended" }),
                    RerunReason::Requested => json!({ "kind": "asked" }),
                    RerunReason::Needs(step) => json!({ "kind": "needs", "step": &**step }),
                    RerunReason::Changed(keys) => json!({ "kind": "changed", "keys": keys }),
                    RerunReason::Inputs(names) => json!({ "kind": "inputs", "inputs": names }),
                    RerunReason::Store => json!({ "kind": "store" }),
                    RerunReason::Undone => json!({ "kind": "undone" }),
                    RerunReason::New => json!({ "kind": "new" }),
                };
            }
            if let Some((taken, total)) = step.items {
                view["items"] = json!({ "taken-over": taken, "total": total });
            }
            if !step.keys.is_empty() {
                view["keys"] = step.keys.iter().map(key).collect();
                view["keys-total"] = step.keys_total.into();
            }
            view
        });
        let gone = self.repetition.gone.iter().map(|(id, status)| json!({ "id": &**id, "before": status }));
        json!({
            "run": run,
            "steps": steps.collect::<Vec<_>>(),
            "gone": gone.collect::<Vec<_>>(),
            "undeclared": self.undeclared,
            "signals": self.repetition.signals,
        })
    }
}
