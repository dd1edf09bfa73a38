//! Workflows that are drawn from a seed.

use serde_json::{Value, json};

/// The handlers that steps call. The second is not repeatable: whether a call whose outcome is
/// unknown is sent again, an operator decides.
pub(crate) const HANDLER: &str = "shop";
pub(crate) const CAREFUL: &str = "bank";

/// Whether the step with this id calls the second.
pub(crate) fn is_careful(id: &str) -> bool {
    id.ends_with(['1', '4', '7'])
}

/// What a step does.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Call,
    Set(usize),
    Wait,
    /// A wait for the signal with the name of the step, which it is sent with [`body_of`].
    Signal,
    Group(Vec<Step>),
    /// Whether each case applies; the last one does.
    Switch(Vec<(bool, Vec<Step>)>),
    Workflow,
}

/// A step, as a file says it.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    /// Earlier steps of the list.
    pub(crate) needs: Vec<usize>,
    pub(crate) when: &'static str,
    pub(crate) condition: Option<bool>,
    pub(crate) items: Option<usize>,
    pub(crate) is_parallel: bool,
    pub(crate) retries: u32,
    pub(crate) turns: Option<u32>,
    pub(crate) continue_on_error: bool,
    pub(crate) compensate: bool,
    /// Whether its arguments have the outputs of the steps that it needs.
    pub(crate) sees_needs: bool,
    /// Whether what the cache has of it is found by its input. `None` without a cache.
    pub(crate) cache: Option<CacheKey>,
}

/// What an outcome in the cache is found by.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum CacheKey {
    /// The arguments of the call.
    Input,
    /// The item.
    Item,
}

/// A workflow, as a file says it.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) steps: Vec<Step>,
    /// The steps below `on`, by when they run: `failure`, `cancel`, `always`.
    pub(crate) on: Vec<(&'static str, Vec<Step>)>,
}

/// Draws workflows.
pub(crate) struct Draw {
    seed: u64,
    drawn: u64,
    next: usize,
    left: usize,
    /// Whether the next step runs beside itself, as an item of a list, or within such a step.
    is_parallel: bool,
    /// Whether the next step runs after those of the workflow.
    is_after: bool,
    sees_needs: bool,
}

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, drawn: 0, next: 0, left: 14, is_parallel: false, is_after: false, sees_needs: true }
    }

    /// Draws workflows whose calls are made with the same arguments whatever else has happened.
    pub(crate) fn of_fixed_calls(seed: u64) -> Self {
        Self { sees_needs: false, ..Self::new(seed) }
    }

    pub(crate) fn flow(&mut self) -> Flow {
        let steps = self.list(0);
        self.is_after = true;
        let mut on = Vec::new();
        for occasion in ["failure", "cancel", "always"] {
            if self.one_in(3) {
                self.left = 4;
                on.push((occasion, self.list(1)));
            }
        }
        Flow { steps, on }
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.drawn += 1;
        let hash = blake3::hash(format!("{}/{}", self.seed, self.drawn).as_bytes());
        let number = u64::from_le_bytes(hash.as_bytes()[..8].try_into().unwrap());
        (number % bound as u64) as usize
    }

    fn one_in(&mut self, number: usize) -> bool {
        self.below(number) == 0
    }

    fn list(&mut self, depth: usize) -> Vec<Step> {
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
        let items = self.one_in(3).then(|| self.below(4));
        let is_parallel = items.is_some() && self.one_in(2);
        let is_parallel_before = self.is_parallel;
        self.is_parallel |= is_parallel;
        let kind = self.kind(depth);
        let has_races = std::mem::replace(&mut self.is_parallel, is_parallel_before);
        let acts = !matches!(kind, Kind::Set(_) | Kind::Wait | Kind::Signal);
        // What failed within a step that succeeded all the same is not run again in a retry.
        let continue_on_error = self.one_in(4) && (self.sees_needs || depth == 0);
        // Whether another item has failed by then would decide.
        let may_go_on = !is_parallel || continue_on_error;
        let compensate = acts && !self.is_after && self.one_in(2);
        // Of two that run side by side, both may run, or one has the outcome of the other.
        let may_be_cached = matches!(kind, Kind::Call) && !compensate && !has_races && self.sees_needs;
        Step {
            condition: self.one_in(6).then(|| self.one_in(2)),
            retries: if acts && may_go_on && self.one_in(2) { 1 + self.below(2) as u32 } else { 0 },
            turns: (may_go_on && self.one_in(5)).then(|| 1 + self.below(3) as u32),
            cache: (may_be_cached && self.one_in(2))
                .then(|| if self.one_in(2) { CacheKey::Input } else { CacheKey::Item }),
            sees_needs: self.sees_needs,
            compensate,
            id,
            kind,
            needs,
            when,
            items,
            is_parallel,
            continue_on_error,
        }
    }

    fn kind(&mut self, depth: usize) -> Kind {
        // A step below `on` is not undone, and neither is what it runs.
        let kinds = if self.is_after { 9 } else { 10 };
        match self.below(if depth < 2 { kinds } else { 6 }) {
            0 => Kind::Set(self.below(100)),
            1 => Kind::Wait,
            2 => Kind::Signal,
            6 | 7 => Kind::Group(self.list(depth + 1)),
            8 => {
                let applies = self.one_in(2);
                Kind::Switch(vec![(applies, self.list(depth + 1)), (true, self.list(depth + 1))])
            }
            9 => Kind::Workflow,
            _ => Kind::Call,
        }
    }
}

/// The names of all signals that are waited for.
pub(crate) fn signals_of(flow: &Flow) -> Vec<String> {
    fn add(steps: &[Step], names: &mut Vec<String>) {
        for step in steps {
            match &step.kind {
                Kind::Signal => names.push(step.id.clone()),
                Kind::Group(steps) => add(steps, names),
                Kind::Switch(cases) => cases.iter().for_each(|(_, steps)| add(steps, names)),
                _ => {}
            }
        }
    }
    let mut names = Vec::new();
    flow.on.iter().map(|(_, steps)| steps).chain([&flow.steps]).for_each(|steps| add(steps, &mut names));
    names
}

/// The seeds of the workflows to draw: so many unless the environment says another number, or names
/// one seed.
pub(crate) fn seeds(count: u64) -> std::ops::Range<u64> {
    let of = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    of("WFHOST_GRAPH").map_or(0..of("WFHOST_GRAPHS").unwrap_or(count), |seed: u64| seed..seed + 1)
}

/// What the signal of a step carries.
pub(crate) fn body_of(signal: &str) -> Value {
    json!(format!("signal {signal}"))
}

/// The text of the workflow, and of the file that steps of it run as `child.yaml`. The outputs have
/// the status and the output of each step.
pub(crate) fn texts(flow: &Flow) -> (String, String) {
    let outputs: Value = flow
        .steps
        .iter()
        .map(|step| (step.id.clone(), json!(format!("${{ .steps.{0} | [.status, .output] }}", step.id))))
        .collect();
    let list = |steps: &[Step]| -> Value { steps.iter().map(|step| step.to_json(steps)).collect() };
    let mut text = json!({ "steps": list(&flow.steps), "outputs": outputs });
    if !flow.on.is_empty() {
        text["on"] = flow.on.iter().map(|(occasion, steps)| ((*occasion).to_owned(), list(steps))).collect();
    }
    let outputs = json!({ "one": "${ .steps.one.output }", "two": "${ .steps.two.output }" });
    (text.to_string(), json!({ "steps": list(&child()), "outputs": outputs }).to_string())
}

/// The steps of the file that the others run as a workflow.
pub(crate) fn child() -> Vec<Step> {
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
        sees_needs: true,
        cache: None,
    };
    vec![plain("one", Kind::Call, vec![]), plain("two", Kind::Call, vec![0])]
}

impl Step {
    /// The handler of a call.
    pub(crate) fn handler(&self) -> &'static str {
        if is_careful(&self.id) { CAREFUL } else { HANDLER }
    }

    /// The step as JSON, which is YAML.
    fn to_json(&self, list: &[Self]) -> Value {
        let outputs = |steps: &[Self]| -> Value {
            steps.iter().map(|step| (step.id.clone(), json!(format!("${{ .steps.{}.output }}", step.id)))).collect()
        };
        let steps = |steps: &[Self]| -> Value { steps.iter().map(|step| step.to_json(steps)).collect() };
        let mut step = json!({ "id": self.id });
        match &self.kind {
            Kind::Call => {
                step["call"] = json!(self.handler());
                let needs = self.needs.iter().filter(|_| self.sees_needs);
                let needs: Vec<String> = needs.map(|need| format!(".steps.{}.output", list[*need].id)).collect();
                let item = if self.items.is_some() { ".item" } else { "null" };
                let turn = if self.turns.is_some() { ".turn" } else { "null" };
                step["with"] = json!(format!("${{ [[{}], {item}, {turn}] }}", needs.join(", ")));
            }
            Kind::Set(value) => step["set"] = json!(value),
            Kind::Wait => step["wait"] = json!("1s"),
            Kind::Signal => step["wait"] = json!({ "signal": self.id }),
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
        match self.cache {
            Some(CacheKey::Input) => step["cache"] = json!({ "ttl": "9h" }),
            Some(CacheKey::Item) if self.items.is_some() => step["cache"] = json!({ "key": "${ .item }" }),
            Some(CacheKey::Item) => step["cache"] = json!({ "key": "always" }),
            None => {}
        }
        if self.continue_on_error {
            step["continue-on-error"] = json!(true);
        }
        if self.compensate {
            step["compensate"] = json!({ "call": HANDLER, "with": "${ [.output, .item] }", "retry": { "max": 1 } });
            if self.items.is_none() {
                step["compensate"]["with"] = json!("${ [.output, null] }");
            }
        }
        step
    }
}
