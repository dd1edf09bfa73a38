//! The keys of a step, and of what is in one.

use super::settings::{LIMITS, RETRY};
use super::{Keys, Shape, Word};
use crate::workflow::model::{PARALLEL_MAX, TURNS_MAX, action, block, cache, lines, repeat, script, step, wait, when};

pub(crate) static STEP: Keys = Keys {
    required: &["id"],
    exactly_one: action::ACTIONS,
    only_with: &[step::ONLY_WITH, &[("max-parallel", &["for-each"])]],
    ..Keys::new("step", &step::KEYS, WORDS)
};

static LINES: Keys = Keys {
    required: &["lines"],
    ..Keys::new(
        "lines",
        &lines::KEYS,
        &[
            Word::new("lines", "An expression that gives a blob: the step runs for each of its lines.", Shape::Any),
            Word::new("batch", "`.item` is a list of so many lines.", Shape::Whole(1, lines::WINDOW_MAX)),
            Word::new("window", "Lines that are read at once; by default 10,000.", Shape::Whole(1, lines::WINDOW_MAX)),
        ],
    )
};

const WORDS: &[Word] = &[
    Word::new("id", "Its name: a letter, then at most 63 letters, digits, `_` or `-`.", Shape::Name),
    Word::new("name", "For people.", Shape::Fixed),
    Word::new(
        "needs",
        "Steps to wait for: an id or a list; steps that an expression reads are implied.",
        Shape::StepIds,
    ),
    Word::new(
        "when",
        "Which endings of the steps before it let it start: `succeeded`, the default: all succeeded, were skipped, or failed \
         with `continue-on-error`; `failed`: one failed itself; `unreached`: one is unreached because something before it \
         failed; `done`: all ended, in any way; `any`: one succeeded.",
        Shape::OneOrMore(&Shape::Words(|| when::NAMES.to_vec())),
    ),
    Word::new("if", "An expression; false or null skips the step.", Shape::Condition),
    Word::new(
        "uses",
        "Runs a guest: a name from `components`, a path, or `native:NAME` of an embedding host; or a program.",
        Shape::Component,
    ),
    Word::new(
        "call",
        "Calls a handler of the host: `http`, `kv`, `log`. Its arguments go under `with`.",
        Shape::Handler,
    ),
    Word::new(
        "workflow",
        "Runs the workflow of another file, as a step: `workflow: ./part.yaml`. `with` gives its inputs; its outputs are the \
         output of the step.",
        Shape::Fixed,
    ),
    Word::new("entry", "The entry point of the guest; by default `run`.", Shape::Fixed),
    Word::new(
        "for-each",
        "A list of at most 100,000 items; the step runs once for each. Or `{ lines: BLOB }`: for each line of a blob.",
        Shape::Either(&[Shape::ListOf, Shape::Keys(|| &LINES)]),
    ),
    Word::new(
        "max-parallel",
        "How many items run at the same time: 1 to 4,096; by default 64.",
        Shape::Whole(1, PARALLEL_MAX as u64),
    ),
    Word::new(
        "repeat",
        "Turns of the step: `{ until, while, max, delay }`; by default one turn.",
        Shape::Keys(|| &REPEAT),
    ),
    Word::new(
        "cache",
        "Uses the outcomes of earlier runs: `auto` those of a guest that depend on its input alone; `{ ttl, key }` any, by \
         the author's word.",
        Shape::Either(&[Shape::Words(|| vec!["auto"]), Shape::Keys(|| &CACHE)]),
    ),
    Word::new(
        "wait",
        "Waits for a duration, `wait: 30s`; until a time, `wait: { until: \"2027-01-31T09:00:00Z\" }`; or for a signal, \
         `wait: { signal: approve, timeout: 24h }`.",
        Shape::Either(&[Shape::DurationOrExpression, Shape::Keys(|| &WAIT)]),
    ),
    Word::new("set", "Computes a value.", Shape::Any),
    Word::new("with", "The input of the guest, or the arguments of the handler.", Shape::Any),
    Word::new(
        "script",
        "Runs a script that is written here, in JavaScript, or `{ ts: … }` or `{ py: … }`; a file is `uses: ./order.js`.",
        Shape::Either(&[Shape::Text, Shape::Keys(|| &SCRIPT)]),
    ),
    Word::new("limits", "What the guest may use; by default the host's limits.", Shape::Keys(|| &LIMITS)),
    Word::new("timeout", "How long one attempt of one item may take; by default without end.", Shape::Duration),
    Word::new(
        "retry",
        "`{ max, backoff }`: the number of retries, and the wait before them; by default none; `1s..30s`.",
        Shape::Keys(|| &RETRY),
    ),
    Word::new(
        "continue-on-error",
        "A failure counts as success for other steps and for the run; by default false.",
        Shape::Bool,
    ),
    Word::new(
        "allow",
        "What the guest or the call may ask of handlers: for each capability its patterns. By default nothing.",
        Shape::Map(&Shape::Either(&[Shape::Null, Shape::OneOrMore(&Shape::Fixed)])),
    ),
    Word::new(
        "secrets",
        "The names of the secrets that the guest or the call may send. Its `with` reads their placeholders:          `.secrets.NAME`.",
        Shape::OneOrMore(&Shape::Fixed),
    ),
    Word::new("switch", "Runs the steps of the first case that applies.", Shape::Some(&Shape::Keys(|| &CASE))),
    Word::new("steps", "Runs steps of its own.", Shape::Some(&Shape::Keys(|| &STEP))),
    Word::new(
        "outputs",
        "What a step with `steps` gives: names with values; by default `{}`.",
        Shape::Map(&Shape::Any),
    ),
    Word::new(
        "compensate",
        "What undoes the step if the run fails or is cancelled after it succeeded: a step without an id, which reads the \
         result as `.output`.",
        Shape::Keys(|| &COMPENSATION),
    ),
];

static COMPENSATION: Keys = Keys {
    exactly_one: &["uses", "script", "call", "steps", "switch", "workflow"],
    only_with: &[step::COMPENSATION_ONLY_WITH, &[("max-parallel", &["for-each"])]],
    ..Keys::new("compensation", &step::COMPENSATION, &COMPENSATION_WORDS)
};

const COMPENSATION_WORDS: [Word; step::COMPENSATION.known.len()] = words_of(step::COMPENSATION.known);

/// The words of some keys of a step.
const fn words_of<const N: usize>(keys: &[&str]) -> [Word; N] {
    let mut words = [WORDS[0]; N];
    let mut at = 0;
    while at < N {
        let mut from = 0;
        while !is_same(WORDS[from].key.as_bytes(), keys[at].as_bytes()) {
            from += 1;
        }
        words[at] = WORDS[from];
        at += 1;
    }
    words
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

pub(crate) static CASE: Keys = Keys {
    required: &["steps"],
    ..Keys::new(
        "case",
        &block::CASE,
        &[
            Word::new(
                "if",
                "An expression: the first case where it is neither false nor null runs. The last case needs none: it is the \
                 default.",
                Shape::Condition,
            ),
            Word::new("steps", "The steps of the case.", Shape::Some(&Shape::Keys(|| &STEP))),
            Word::new(
                "outputs",
                "The output of the step, if the case runs: names with values.",
                Shape::Map(&Shape::Any),
            ),
        ],
    )
};

/// One of several things that a step waits for.
const PART: Shape = Shape::Either(&[Shape::DurationOrExpression, Shape::Keys(|| &WAIT)]);

pub(crate) static WAIT: Keys = Keys {
    exactly_one: &["until", "signal", "any", "all"],
    only_with: &[&[
        ("timeout", &["signal", "any", "all"]),
        ("title", &["signal"]),
        ("text", &["signal"]),
        ("schema", &["signal"]),
    ]],
    ..Keys::new(
        "wait",
        &wait::KEYS,
        &[
            Word::new(
                "until",
                "Waits until a time, as RFC 3339 writes it with the offset of its zone, or an expression that gives one. A \
                 time that has passed ends the wait at once.",
                Shape::Text,
            ),
            Word::new("signal", "Waits for a message of this name from outside; its body is the output.", Shape::Text),
            Word::new(
                "any",
                "Waits for the first of several things: names, each with a duration, a time or a signal.",
                Shape::Names(&PART),
            ),
            Word::new(
                "all",
                "Waits for all of several things: names, each with a duration, a time or a signal.",
                Shape::Names(&PART),
            ),
            Word::new(
                "timeout",
                "At the timeout the step fails with the kind `timed-out`; without it the step waits for as long as it takes.",
                Shape::DurationOrExpression,
            ),
            Word::new("title", "What the person sees who sends the signal; cut after 200 characters.", Shape::Text),
            Word::new("text", "What the person sees below the title; cut after 4,000 characters.", Shape::Text),
            Word::new(
                "schema",
                "A JSON Schema of the body, at most 16 KiB. It describes a form; a body that does not fit it is not refused.",
                Shape::Object,
            ),
        ],
    )
};

static REPEAT: Keys = Keys {
    required: &["max"],
    not_both: Some(("until", "while")),
    ..Keys::new(
        "repeat",
        &repeat::KEYS,
        &[
            Word::new("until", "The step ends after a turn where this is neither false nor null.", Shape::Condition),
            Word::new(
                "while",
                "Instead of `until`: it ends after a turn where this is false or null.",
                Shape::Condition,
            ),
            Word::new("max", "The most turns, up to 1,000,000; required.", Shape::Whole(1, TURNS_MAX as u64)),
            Word::new("delay", "The time between two turns; by default none.", Shape::Duration),
        ],
    )
};

static CACHE: Keys = Keys::new(
    "cache",
    &cache::KEYS,
    &[
        Word::new("ttl", "How old an outcome may be; by default of any age.", Shape::Duration),
        Word::new("key", "What it is found by; by default the input, or the arguments of a call.", Shape::Text),
    ],
);

static SCRIPT: Keys = Keys {
    exactly_one: script::KEYS.known,
    ..Keys::new(
        "script",
        &script::KEYS,
        &[
            Word::new("js", "The body of a function in JavaScript; `input` is what `with` gives.", Shape::Text),
            Word::new("ts", "The body of a function in TypeScript, run without a check of its types.", Shape::Text),
            Word::new("py", "The body of a function in Python.", Shape::Text),
        ],
    )
};
