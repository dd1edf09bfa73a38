//! Workflows that are drawn from a seed.

use serde_json::{Value, json};

/// What a step does.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Call,
    Set(usize),
    Wait,
    Group(Vec<Step>),
    /// Whether each case applies; the last one does.
    Switch(Vec<(bool, Vec<Step>)>),
    Workflow,
}

/// A step, as a file says it.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) id: String,
    pub(super) kind: Kind,
    /// Earlier steps of the list.
    pub(super) needs: Vec<usize>,
    pub(super) when: &'static str,
    pub(super) condition: Option<bool>,
    pub(super) items: Option<usize>,
    pub(super) is_parallel: bool,
    pub(super) retries: u32,
    pub(super) turns: Option<u32>,
    pub(super) continue_on_error: bool,
    pub(super) compensate: bool,
}

/// Draws workflows.
pub(super) struct Draw {
    seed: u64,
    drawn: u64,
    next: usize,
    left: usize,
}

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, drawn: 0, next: 0, left: 14 }
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.drawn += 1;
        let hash = blake3::hash(format!("{}/{}", self.seed, self.drawn).as_bytes());
        let number = u64::from_le_bytes(hash.as_bytes()[..8].try_into().unwrap());
        (number % bound as u64) as usize
    }

    fn one_in(&mut self, number: usize) -> bool {
        self.below(number) == 0
    }

    pub(super) fn list(&mut self, depth: usize) -> Vec<Step> {
        let count = 1 + self.below(if depth == 0 { 5 } else { 3 });
        let mut steps: Vec<Step> = Vec::new();
        for _ in 0..count {
            if self.left == 0 && !steps.is_empty() {
                break;
            }
            let step = self.step(&steps, depth);
            steps.push(step);
        }
        steps
    }

    fn step(&mut self, before: &[Step], depth: usize) -> Step {
        self.left = self.left.saturating_sub(1);
        self.next += 1;
        let id = format!("s{}", self.next);
        let needs: Vec<usize> = (0..before.len()).filter(|_| self.one_in(2)).collect();
        let when = ["succeeded", "failed", "unreached", "done", "any"];
        let when = if needs.is_empty() || !self.one_in(4) { "succeeded" } else { when[self.below(5)] };
        let kind = match self.below(if depth < 2 { 9 } else { 5 }) {
            0 => Kind::Set(self.below(100)),
            1 => Kind::Wait,
            5 | 6 => Kind::Group(self.list(depth + 1)),
            7 => {
                let applies = self.one_in(2);
                Kind::Switch(vec![(applies, self.list(depth + 1)), (true, self.list(depth + 1))])
            }
            8 => Kind::Workflow,
            _ => Kind::Call,
        };
        let acts = !matches!(kind, Kind::Set(_) | Kind::Wait);
        let items = self.one_in(3).then(|| self.below(4));
        let is_parallel = items.is_some() && self.one_in(2);
        let continue_on_error = self.one_in(4);
        // Whether another item has failed by then would decide.
        let may_go_on = !is_parallel || continue_on_error;
        Step {
            condition: self.one_in(6).then(|| self.one_in(2)),
            retries: if acts && may_go_on && self.one_in(2) { 1 + self.below(2) as u32 } else { 0 },
            turns: (may_go_on && self.one_in(5)).then(|| 1 + self.below(3) as u32),
            compensate: acts && self.one_in(2),
            id,
            kind,
            needs,
            when,
            items,
            is_parallel,
            continue_on_error,
        }
    }
}

/// The steps of the file that the others run as a workflow.
pub(super) fn child() -> Vec<Step> {
    let plain = |id: &str, kind, needs| Step {
        id: id.to_owned(),
        kind,
        needs,
        when: "succeeded",
        condition: None,
        items: None,
        is_parallel: false,
        retries: 0,
        turns: None,
        continue_on_error: false,
        compensate: id == "one",
    };
    vec![plain("one", Kind::Call, vec![]), plain("two", Kind::Call, vec![0])]
}

impl Step {
    /// The step as JSON, which is YAML.
    pub(super) fn to_json(&self, list: &[Self]) -> Value {
        let outputs = |steps: &[Self]| -> Value {
            steps.iter().map(|step| (step.id.clone(), json!(format!("${{ .steps.{}.output }}", step.id)))).collect()
        };
        let steps = |steps: &[Self]| -> Value { steps.iter().map(|step| step.to_json(steps)).collect() };
        let mut step = json!({ "id": self.id });
        match &self.kind {
            Kind::Call => {
                step["call"] = json!("kv");
                let needs: Vec<String> =
                    self.needs.iter().map(|need| format!(".steps.{}.output", list[*need].id)).collect();
                let item = if self.items.is_some() { ".item" } else { "null" };
                let turn = if self.turns.is_some() { ".turn" } else { "null" };
                step["with"] = json!(format!("${{ [[{}], {item}, {turn}] }}", needs.join(", ")));
            }
            Kind::Set(value) => step["set"] = json!(value),
            Kind::Wait => step["wait"] = json!("1s"),
            Kind::Group(inner) => (step["steps"], step["outputs"]) = (steps(inner), outputs(inner)),
            Kind::Switch(cases) => {
                let case = |(at, (applies, inner)): (usize, &(bool, Vec<Self>))| {
                    let mut case = json!({ "steps": steps(inner), "outputs": outputs(inner) });
                    if at + 1 < cases.len() {
                        case["if"] = json!(format!("${{ {applies} }}"));
                    }
                    case
                };
                step["switch"] = cases.iter().enumerate().map(case).collect();
            }
            Kind::Workflow => step["workflow"] = json!("./child.yaml"),
        }
        let needs: Vec<&str> = self.needs.iter().map(|need| list[*need].id.as_str()).collect();
        if !needs.is_empty() {
            step["needs"] = json!(needs);
            step["when"] = json!(self.when);
        }
        if let Some(condition) = self.condition {
            step["if"] = json!(format!("${{ {condition} }}"));
        }
        if let Some(items) = self.items {
            step["for-each"] = (0..items).collect();
            step["max-parallel"] = json!(if self.is_parallel { 64 } else { 1 });
        }
        if self.retries > 0 {
            step["retry"] = json!({ "max": self.retries, "backoff": "1s" });
        }
        if let Some(turns) = self.turns {
            step["repeat"] = json!({ "max": turns });
        }
        if self.continue_on_error {
            step["continue-on-error"] = json!(true);
        }
        if self.compensate {
            step["compensate"] = json!({ "call": "kv", "with": "${ [.output, .item] }", "retry": { "max": 1 } });
            if self.items.is_none() {
                step["compensate"]["with"] = json!("${ [.output, null] }");
            }
        }
        step
    }
}
