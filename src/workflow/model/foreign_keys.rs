//! What people call things who come from elsewhere: keys that are no slip of ours and yet have an obvious counterpart here.

/// KnownKeys of other tools, plainly spelled (lower case, dashes), and what to say of them.
pub(crate) type ForeignKeys = &'static [(&'static [&'static str], &'static str)];

/// At the top of a file.
pub(super) const TOP: ForeignKeys = &[
    (
        &["step", "jobs", "job", "tasks", "task", "nodes", "stages", "pipeline", "states", "do"],
        "the list of steps is called `steps`",
    ),
    (
        &["input", "params", "param", "parameters", "args", "arguments", "variables", "vars", "with"],
        "what a run is given is declared under `inputs`",
    ),
    (&["output", "result", "results", "return"], "what a run gives stands under `outputs`"),
    (
        &["component", "modules", "plugins", "imports", "functions", "uses", "use"],
        "names of components stand under `components`",
    ),
    (
        &["timeout", "retry", "retries", "limits"],
        "settings of every step stand under `defaults`: defaults: { timeout: 2m }",
    ),
    (
        &["allow", "permissions", "grants", "capabilities"],
        "each step has its own grants: write `allow` within the step",
    ),
    (
        &["version", "api-version", "kind", "schema", "$schema"],
        "a workflow file states no version or kind: leave it out",
    ),
    (&["env", "environment"], "there is no environment: a workflow is given `inputs`"),
    (&["id", "title"], "what a workflow is called stands under `name`"),
    (&["desc", "doc", "docs", "comment", "summary"], "text for people stands under `description`"),
];

/// In a step.
pub(super) const STEP: ForeignKeys = &[
    (
        &["run", "script", "command", "cmd", "shell", "bash", "exec", "python"],
        "there is no shell: a step runs a component, `uses: ./hello.wasm`, or calls a handler, `call: http`",
    ),
    (
        &["component", "module", "wasm", "image", "plugin", "type", "task"],
        "what a step runs is named by `uses`: uses: ./hello.wasm",
    ),
    (&["http", "kv", "log"], "a handler is named by `call`, and its arguments stand under `with`"),
    (&["handler", "function", "fn", "action"], "a handler is named by `call`, a component by `uses`"),
    (
        &["args", "arg", "arguments", "params", "parameters", "input", "inputs", "data", "payload"],
        "what a step is given stands under `with`",
    ),
    (
        &["url", "method", "headers", "body", "query", "op", "key", "message"],
        "arguments stand under `with`: with: { url: \"https://example.com\" }",
    ),
    (
        &["depends-on", "depends", "dependencies", "after", "require", "requires"],
        "the steps that a step waits for stand under `needs`",
    ),
    (&["condition", "only-if", "unless", "case"], "a condition stands under `if`: if: ${ .inputs.n > 1 }"),
    (
        &["loop", "with-items", "items", "matrix", "map", "each", "range"],
        "a step runs for each item of a list under `for-each`: for-each: ${ .inputs.urls }",
    ),
    (
        &["parallelism", "concurrency", "max-concurrency", "max-in-flight"],
        "how many items run at one time stands under `max-parallel`",
    ),
    (&["retries", "max-retries", "attempts", "max-attempts", "backoff"], "retry: { max: 3, backoff: 1s..30s }"),
    (&["env", "environment"], "a guest has no environment: give it what it needs under `with`"),
    (
        &["permissions", "permission", "grants", "grant", "capabilities"],
        "what a step may ask of handlers stands under `allow`: allow: { http: [ \"GET https://example.com\" ] }",
    ),
    (
        &["output", "outputs", "result", "register", "export"],
        "what a step gives is read as ${ .steps.<id>.output }; the outputs of the run stand at the top of the file",
    ),
    (
        &["on-error", "on-failure", "catch", "ignore-errors", "ignore-error", "allow-failure"],
        "continue-on-error: true; or let another step react: when: failed",
    ),
    (&["sleep", "delay", "pause"], "a step waits by `wait`: wait: 30s"),
    (&["value", "let", "var", "vars", "assign", "eval"], "a step that is a value has `set`: set: ${ .inputs.n + 1 }"),
    (&["description", "desc", "doc", "title", "comment"], "text for people stands under `name`, or in a comment: # …"),
    (
        &["memory", "fuel", "fuel-per-step", "mailbox", "grace"],
        "what a guest may use stands under `limits`: limits: { memory: 64MiB }",
    ),
    (&["trigger", "trigger-rule", "run-if", "on"], "which endings of other steps let it start stands under `when`"),
];

/// In `retry`.
pub(super) const RETRY: ForeignKeys = &[
    (
        &["attempts", "times", "count", "limit", "retries", "max-retries", "max-attempts"],
        "`max` is how many retries there are, not attempts: retry: { max: 3 }",
    ),
    (
        &["delay", "interval", "wait", "initial-delay", "initial-interval", "min", "factor"],
        "how long to wait stands under `backoff`: backoff: 1s..30s",
    ),
];

/// In `limits`.
pub(super) const LIMITS: ForeignKeys = &[
    (&["mem", "ram", "memory-bytes", "max-memory"], "linear memory is limited by `memory`: memory: 64MiB"),
    (
        &["cpu", "time", "instructions", "gas"],
        "computing is limited by `fuel-per-step` and `fuel`, about one unit an instruction: fuel: 10G",
    ),
    (&["timeout"], "how long an attempt may take is the step's own `timeout`"),
];

/// In a `wait`.
pub(super) const WAIT: ForeignKeys = &[
    (&["for", "duration", "seconds", "delay", "sleep"], "a duration stands alone: wait: 30s"),
    (&["name", "event", "message", "on"], "what is waited for stands under `signal`: wait: { signal: approve }"),
    (&["within", "limit", "max"], "how long at most stands under `timeout`: wait: { signal: approve, timeout: 24h }"),
];

/// In a component of `components`.
pub(super) const COMPONENT: ForeignKeys = &[
    (
        &["path", "file", "uses", "url", "from", "wasm", "src"],
        "where a component is stands under `source`: source: ./component.wasm",
    ),
    (&["allow", "entry", "with", "timeout", "retry"], "it stands in the steps that use the component"),
];

/// In an input's schema.
pub(super) const SCHEMA: ForeignKeys = &[
    (&["desc", "doc", "help"], "text for people stands under `description`"),
    (&["values", "choices", "options", "one-of"], "the values that are allowed stand under `enum`"),
    (&["min"], "`minimum` for numbers, `minLength` for strings, `minItems` for lists"),
    (&["max"], "`maximum` for numbers, `maxLength` for strings, `maxItems` for lists"),
    (&["optional", "nullable"], "an input that may be absent has `required: false` or a `default`"),
    (&["regex"], "a `pattern` is not supported yet; `format` knows some forms of text"),
    (&["value"], "what is taken where none is given stands under `default`"),
];

/// No keys of other tools.
pub(super) const NOTHING: ForeignKeys = &[];

/// What to say of a key; dashes do not count: `dependsOn` is `depends-on`.
pub(super) fn of(key: &str, foreign: ForeignKeys) -> Option<&'static str> {
    let bare = |text: &str| text.replace('-', "");
    let key = bare(key);
    foreign.iter().find(|(keys, _)| keys.iter().any(|one| bare(one) == key)).map(|(_, hint)| *hint)
}
