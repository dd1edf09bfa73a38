//! Keys of other tools that have an obvious counterpart here, and the hint for each.

/// Groups of keys in plain spelling (lower case, dashes), each with its hint.
pub(crate) type ForeignKeys = &'static [(&'static [&'static str], &'static str)];

/// At the top of a file.
pub(super) const TOP: ForeignKeys = &[
    (
        &["step", "jobs", "job", "tasks", "task", "nodes", "stages", "pipeline", "states", "do"],
        "the list of steps is called `steps`",
    ),
    (
        &["input", "params", "param", "parameters", "args", "arguments", "variables", "vars", "with"],
        "declare what a run is given under `inputs`",
    ),
    (&["output", "result", "results", "return"], "the results of a run go under `outputs`"),
    (
        &["component", "modules", "plugins", "imports", "functions", "uses", "use"],
        "named components go under `components`",
    ),
    (
        &["timeout", "retry", "retries", "limits"],
        "settings for every step go under `defaults`: defaults: { timeout: 2m }",
    ),
    (&["allow", "permissions", "grants", "capabilities"], "grants belong to a step: write `allow` in the step"),
    (&["version", "api-version", "kind", "schema", "$schema"], "a workflow file has no version or kind: leave it out"),
    (&["env", "environment"], "a workflow has no environment: pass values as `inputs`"),
    (&["id", "title"], "the workflow's name goes under `name`"),
    (&["desc", "doc", "docs", "comment", "summary"], "descriptive text goes under `description`"),
];

/// In `schedule`.
pub(super) const SCHEDULE: ForeignKeys = &[
    (&["timezone", "time-zone", "tz", "location"], "the time zone is called `zone`: zone: Europe/Berlin"),
    (&["interval", "period"], "a schedule in real time is `every`: every: 15m"),
    (&["crontab", "expression"], "the five fields go under `cron`"),
    (&["catchup", "misfire", "starting-deadline-seconds"], "missed times are the matter of `catch-up`: catch-up: last"),
    (&["concurrency-policy", "overlap-policy", "max-active-runs"], "write `overlap`: skip, queue, allow or another"),
    (&["from", "start-at", "not-before"], "the first time goes under `start`"),
    (&["until", "to", "end-at", "not-after"], "the end goes under `end`"),
    (&["with", "input", "args", "params", "parameters"], "what each run is given goes under `inputs`"),
    (&["paused", "suspend", "enabled", "disabled"], "`wfhost schedule pause NAME` pauses a schedule of a service"),
];

/// In `concurrency`.
pub(super) const CONCURRENCY: ForeignKeys = &[
    (&["key", "name", "pool", "tag", "mutex", "semaphore"], "the runs that share places are named by `group`"),
    (
        &["max", "count", "slots", "size", "places", "max-runs", "concurrency"],
        "how many have a place goes under `limit`",
    ),
    (
        &["cancel-in-progress", "strategy", "limit-strategy", "behavior", "policy", "overlap"],
        "write `on-limit`: queue, skip, cancel-previous or replace-queued",
    ),
    (&["max-queue", "queue", "queue-size", "queue-limit"], "how many may wait goes under `queue-max`"),
];

/// In a step.
pub(super) const STEP: ForeignKeys = &[
    (
        &["run", "script", "command", "cmd", "shell", "bash", "exec", "python"],
        "there is no shell: a step is a script, `script: return 1` or `uses: ./order.js`, a component, `uses: ./hello.wasm`, or a call, \
         `call: http`",
    ),
    (
        &["component", "module", "wasm", "image", "plugin", "type", "task"],
        "name the component that a step runs with `uses`: uses: ./hello.wasm",
    ),
    (&["http", "kv", "log"], "name a handler with `call`; its arguments go under `with`"),
    (&["handler", "function", "fn", "action"], "name a handler with `call`, a component with `uses`"),
    (
        &["args", "arg", "arguments", "params", "parameters", "input", "inputs", "data", "payload"],
        "the input of a step goes under `with`",
    ),
    (
        &["url", "method", "headers", "body", "query", "op", "key", "message"],
        "arguments go under `with`: with: { url: \"https://example.com\" }",
    ),
    (
        &["depends-on", "depends", "dependencies", "after", "require", "requires"],
        "list the steps that must end first under `needs`",
    ),
    (&["condition", "only-if", "unless"], "a condition goes under `if`: if: ${ .inputs.n > 1 }"),
    (
        &["loop", "with-items", "items", "strategy", "matrix", "map", "each", "range"],
        "`for-each` runs a step for each item of a list: for-each: ${ .inputs.urls }",
    ),
    (
        &["parallelism", "concurrency", "max-concurrency", "max-in-flight"],
        "`max-parallel` bounds how many items run at a time",
    ),
    (&["retries", "max-retries", "attempts", "max-attempts", "backoff"], "retry: { max: 3, backoff: 1s..30s }"),
    (&["env", "environment"], "a guest has no environment: pass what it needs under `with`"),
    (
        &["permissions", "permission", "grants", "grant", "capabilities"],
        "what a step may ask of handlers goes under `allow`: allow: { http: [ \"GET https://example.com\" ] }",
    ),
    (
        &["output", "result", "register", "export"],
        "read a step's result as ${ .steps.<id>.output }; the outputs of the run go at the top of the file",
    ),
    (
        &["on-error", "on-failure", "catch", "ignore-errors", "ignore-error", "allow-failure"],
        "write continue-on-error: true, or let another step react: when: failed",
    ),
    (&["sleep", "delay", "pause"], "a step waits with `wait`: wait: 30s"),
    (&["value", "let", "var", "vars", "assign", "eval"], "a step computes a value with `set`: set: ${ .inputs.n + 1 }"),
    (&["description", "desc", "doc", "title", "comment"], "descriptive text goes under `name`, or in a comment: # …"),
    (
        &["memory", "fuel", "fuel-per-step", "mailbox", "grace"],
        "what a guest may use goes under `limits`: limits: { memory: 64MiB }",
    ),
    (
        &["group", "block", "do", "sequence", "tasks", "jobs", "stages"],
        "steps within a step go under `steps`; `needs` and references put them in order",
    ),
    (&["choice", "cases", "branches", "choose", "conditions"], "the cases go under `switch`"),
    (
        &["child", "child-workflow", "sub-workflow", "call-workflow", "subflow", "sub-dag", "template-ref", "flow"],
        "the file of a workflow that a step runs goes under `workflow`: workflow: ./label.yaml",
    ),
    (
        &["undo", "rollback", "revert", "saga", "compensation", "compensate-with"],
        "what undoes a step goes under `compensate`: compensate: { call: http, with: { … } }",
    ),
    (&["trigger", "trigger-rule", "run-if", "on"], "which outcomes of other steps let it start goes under `when`"),
];

/// In a case of `switch`.
pub(super) const CASE: ForeignKeys = &[
    (&["when", "condition", "case", "value", "match", "equals"], "a condition goes under `if`: if: ${ .inputs.n > 1 }"),
    (&["do", "run", "then", "tasks", "actions", "uses", "call", "set"], "what the case does goes under `steps`"),
    (&["default", "else", "otherwise"], "the default is the last case, without an `if`"),
    (&["output", "result"], "what the case gives goes under `outputs`"),
];

/// In `on`.
pub(super) const ON: ForeignKeys = &[
    (&["error", "failed", "fail", "catch", "exception"], "what runs after a failure goes under `failure`"),
    (
        &["cancelled", "canceled", "cancellation", "abort", "terminate", "stop"],
        "what runs after a cancel goes under `cancel`",
    ),
    (&["finally", "exit", "end", "done", "completed", "all", "cleanup"], "what runs in any case goes under `always`"),
    (&["success", "succeeded"], "a step that runs after the others is one of `steps`, with `needs`"),
    (
        &["push", "pull-request", "schedule", "workflow-dispatch", "workflow-call", "event", "webhook", "cron"],
        "`on` says what runs after the steps; a `schedule` or a webhook of the service starts a workflow",
    ),
];

/// In `compensate`.
pub(super) const COMPENSATION: ForeignKeys = &[
    (&["id"], "its path is that of the step, with `.compensate`"),
    (
        &["needs", "when", "depends-on", "depends"],
        "it runs when the run fails or is cancelled after the step succeeded; a condition goes under `if`",
    ),
    (&["continue-on-error", "compensate"], "what cannot be undone is listed in the run's problem"),
    (&["wait", "set"], "write several `steps` to compute or to wait before it: compensate: { steps: [ … ] }"),
    (&["run", "command", "cmd", "shell"], "there is no shell: it is a call, a component or a script"),
    (&["args", "arguments", "params", "parameters", "input", "inputs"], "its input goes under `with`"),
];

/// In `retry`.
pub(super) const RETRY: ForeignKeys = &[
    (
        &["attempts", "times", "count", "limit", "retries", "max-retries", "max-attempts"],
        "`max` counts retries, not attempts: retry: { max: 3 }",
    ),
    (
        &["delay", "interval", "wait", "initial-delay", "initial-interval", "min", "factor"],
        "the wait before a retry goes under `backoff`: backoff: 1s..30s",
    ),
];

/// In the bounds of a handler.
pub(super) const HANDLERS: ForeignKeys = &[
    (
        &["max", "limit", "parallel", "max-parallel", "parallelism", "max-concurrency", "max-in-flight", "concurrent"],
        "how many calls run at one time goes under `concurrency`",
    ),
    (
        &["rate-limit", "throttle", "rps", "qps", "requests", "requests-per-second", "limits"],
        "how often calls begin goes under `rate`: rate: 10/s",
    ),
    (&["bucket", "capacity", "spike"], "how many calls may begin together goes under `burst`"),
    (&["by", "scope", "key", "host", "per-host"], "write `per: host` to bound each host by itself"),
    (&["timeout", "retry"], "`timeout` and `retry` belong to a step, or to `defaults`"),
];

/// In `cache`.
pub(super) const CACHE: ForeignKeys = &[
    (
        &["time", "expires", "expiry", "expire", "max-age", "age", "duration", "for", "lifetime", "seconds"],
        "how long an outcome may be used goes under `ttl`: ttl: 1h",
    ),
    (&["keys", "hash", "id", "by", "name", "prefix"], "what an outcome is found by goes under `key`"),
    (&["restore-keys", "path", "paths", "policy", "scope"], "the outcome of a step is kept, not files"),
    (&["auto", "enabled", "mode"], "write `cache: auto` for what depends on the input alone"),
];

/// In `repeat`.
pub(super) const REPEAT: ForeignKeys = &[
    (
        &["times", "count", "limit", "max-turns", "max-iterations", "max-attempts", "turns"],
        "the most turns go under `max`",
    ),
    (&["interval", "every", "sleep", "wait", "pause", "period"], "the time between two turns goes under `delay`"),
    (&["condition", "if", "stop-when", "break-if", "end-if"], "repeat: { until: \"${ .last.done }\", max: 100 }"),
    (&["for-each", "items", "over"], "`for-each` beside `repeat` runs the step for each item of a list"),
];

/// In `limits`.
pub(super) const LIMITS: ForeignKeys = &[
    (&["mem", "ram", "memory-bytes", "max-memory"], "`memory` limits linear memory: memory: 64MiB"),
    (
        &["cpu", "time", "instructions", "gas"],
        "`fuel-per-step` and `fuel` limit computing, about one unit per instruction: fuel: 10G",
    ),
    (&["timeout"], "the step's own `timeout` limits how long an attempt may take"),
];

/// In a `script`.
pub(super) const SCRIPT: ForeignKeys = &[
    (&["python", "python3"], "Python goes under `py`: script: { py: return 1 }"),
    (
        &["javascript", "ecmascript", "node", "run", "code", "inline", "source"],
        "JavaScript goes under `js`, or without a key: script: return 1",
    ),
    (&["typescript"], "TypeScript goes under `ts`: script: { ts: return 1 }"),
    (&["bash", "sh", "shell"], "there is no shell: a script is JavaScript, TypeScript or Python"),
];

/// In a `wait`.
pub(super) const WAIT: ForeignKeys = &[
    (
        &["time", "at", "date", "datetime", "timestamp"],
        "a time goes under `until`: wait: { until: \"2027-01-31T09:00:00Z\" }",
    ),
    (&["for", "duration", "seconds", "delay", "sleep"], "write a duration by itself: wait: 30s"),
    (&["name", "event", "message", "on"], "the name of the signal goes under `signal`: wait: { signal: approve }"),
    (&["within", "limit", "max"], "the longest wait goes under `timeout`: wait: { signal: approve, timeout: 24h }"),
];

/// In a component of `components`.
pub(super) const COMPONENT: ForeignKeys = &[
    (
        &["path", "file", "uses", "url", "from", "wasm", "src"],
        "the path of a component goes under `source`: source: ./component.wasm",
    ),
    (&["allow", "entry", "with", "timeout", "retry"], "write it in the steps that use the component"),
];

/// In an input's schema.
pub(super) const SCHEMA: ForeignKeys = &[
    (&["desc", "doc", "help"], "descriptive text goes under `description`"),
    (&["values", "choices", "options", "one-of"], "list the allowed values under `enum`"),
    (&["min"], "use `minimum` for numbers, `minLength` for strings, `minItems` for lists"),
    (&["max"], "use `maximum` for numbers, `maxLength` for strings, `maxItems` for lists"),
    (&["optional", "nullable"], "for an input that may be absent, write `required: false` or a `default`"),
    (&["regex"], "`pattern` is not supported yet; `format` checks some common forms of text"),
    (&["value"], "the value for an absent input goes under `default`"),
];

/// None.
pub(super) const SECRET: ForeignKeys = &[
    (&["host", "domain", "domains", "url", "urls", "allow", "to", "servers"], "who may receive it goes under `hosts`"),
    (&["header", "fields", "in"], "the header fields that may hold it go under `headers`"),
    (
        &["env", "variable", "var", "file", "command", "source", "exec", "vault"],
        "where it is goes under `from`: { env: NAME }",
    ),
    (
        &["value", "default", "text", "plain", "data", "string"],
        "the file never has the value: an operator says where it is, `--secret NAME=env:VARIABLE`",
    ),
    (&["steps", "used-by", "for"], "a step lists the secrets that it uses: secrets: [ NAME ]"),
];

pub(super) const NOTHING: ForeignKeys = &[];

/// The hint for a key. Dashes are ignored: `dependsOn` is `depends-on`.
pub(super) fn of(key: &str, foreign: ForeignKeys) -> Option<&'static str> {
    let bare = |text: &str| text.replace('-', "");
    let key = bare(key);
    foreign.iter().find(|(keys, _)| keys.iter().any(|one| bare(one) == key)).map(|(_, hint)| *hint)
}
