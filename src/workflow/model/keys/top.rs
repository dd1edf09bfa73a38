//! The keys at the top of a file, and those of a schedule and of a group.

use super::settings::{COMPONENT, DEFAULTS, INPUT, SCHEMA_TYPES};
use super::steps::STEP;
use super::{Keys, Shape, Word};
use crate::run::{OnLimit, PLACES_MAX, QUEUE_MAX};
use crate::workflow::model::{after, concurrency, handlers, read, schedule, secrets};

pub(crate) static WORKFLOW: Keys = Keys { required: &["steps"], ..Keys::new("workflow", &read::KEYS, TOP) };

const TOP: &[Word] = &[
    Word::new("name", "The name of the workflow; by default the file's name.", Shape::Fixed),
    Word::new("description", "For people.", Shape::Text),
    Word::new(
        "durability",
        "`journal`, the default: a run survives its host; `none`: it does not.",
        Shape::Words(|| vec!["journal", "none"]),
    ),
    Word::new(
        "schedule",
        "When a service starts it by itself. `schedule: \"@hourly\"` is short for `schedule: { cron: \"@hourly\" }`.",
        Shape::Either(&[Shape::Fixed, Shape::Keys(|| &SCHEDULE)]),
    ),
    Word::new(
        "inputs",
        "What a run is given: names, each with a schema. `name: string` is short for `name: { type: string }`. An input \
         without a `default` must be given, unless its schema says `required: false`.",
        Shape::Names(&Shape::Either(&[SCHEMA_TYPES, Shape::Keys(|| &INPUT)])),
    ),
    Word::new(
        "concurrency",
        "How many runs of a group execute at one time. `concurrency: deploy` is short for `concurrency: { group: deploy }`.",
        Shape::Either(&[Shape::Text, Shape::Keys(|| &CONCURRENCY)]),
    ),
    Word::new(
        "secrets",
        "The secrets that steps may send: names, each with who may receive it. The values are not in the file: whoever \
         runs it says where they are, by `--secret NAME=env:VARIABLE` for example.",
        Shape::Names(&Shape::Keys(|| &SECRET)),
    ),
    Word::new(
        "handlers",
        "Bounds on the calls of a handler: `http: { concurrency: 4, rate: 10/s, burst: 20, per: host }`. What is over them \
         waits in order.",
        Shape::Map(&Shape::Keys(|| &HANDLER)),
    ),
    Word::new(
        "components",
        "Names for components: a source, or `{ source, limits, folders }`. A source is the path of a file, relative to the \
         workflow's folder, or a reference to a registry: `oci://registry.example.com/team/orders:1.0`.",
        Shape::Names(&Shape::Either(&[Shape::Component, Shape::Keys(|| &COMPONENT)])),
    ),
    Word::new(
        "defaults",
        "`timeout`, `retry` and `limits` of every step that has none of its own.",
        Shape::Keys(|| &DEFAULTS),
    ),
    Word::new(
        "steps",
        "The list of steps, at most 1,000. A step starts when every step that it waits for has ended, and `when` allows it.",
        Shape::Some(&Shape::Keys(|| &STEP)),
    ),
    Word::new("outputs", "What a run returns: names with values; by default `{}`.", Shape::Map(&Shape::Any)),
    Word::new(
        "on",
        "Steps that run when the others have ended: if the run failed, if it is cancelled, or in any case.",
        Shape::Keys(|| &ON),
    ),
    Word::new(
        "grace",
        "How long a cancelled run has to end; by default 5s, and 5m with `on` or `compensate`.",
        Shape::Duration,
    ),
];

const STEPS: Shape = Shape::Some(&Shape::Keys(|| &STEP));

static ON: Keys = Keys::new(
    "on",
    &after::ON,
    &[
        Word::new("failure", "Steps that run if the run failed; they see `.run.problem`.", STEPS),
        Word::new("cancel", "Steps that run if the run is cancelled, within its `grace`.", STEPS),
        Word::new("always", "Steps that run at the end, in any case.", STEPS),
    ],
);

static SECRET: Keys = Keys {
    required: &["hosts"],
    ..Keys::new(
        "secret",
        &secrets::KEYS,
        &[
            Word::new(
                "from",
                "Where its value is expected: `env` (the default: the variable of its name), `{ env: NAME }`, \
                 `{ file: PATH }` or `{ command: [ PROGRAM ] }`.",
                Shape::Either(&[Shape::Words(|| vec!["env"]), Shape::Keys(|| &SECRET_FROM)]),
            ),
            Word::new(
                "hosts",
                "Who may receive it: names and addresses with `*.` and ports, without scheme and path.",
                Shape::OneOrMore(&Shape::Fixed),
            ),
            Word::new(
                "headers",
                "The header fields that may hold it; `authorization`, `x-api-key` and `cookie` if absent.",
                Shape::OneOrMore(&Shape::Fixed),
            ),
        ],
    )
};

static SECRET_FROM: Keys = Keys {
    exactly_one: &["env", "file", "command"],
    ..Keys::new(
        "secret-from",
        &secrets::FROM_KEYS,
        &[
            Word::new("env", "A variable.", Shape::Fixed),
            Word::new("file", "A file.", Shape::Fixed),
            Word::new("command", "What a command prints: its words.", Shape::OneOrMore(&Shape::Fixed)),
        ],
    )
};
static HANDLER: Keys = Keys::new(
    "handler",
    &handlers::KEYS,
    &[
        Word::new("concurrency", "How many calls run at one time.", Shape::Whole(1, handlers::CALLS_MAX)),
        Word::new("rate", "How many calls begin in which time: `10/s`, `100/m`, `5/10s`.", Shape::Fixed),
        Word::new(
            "burst",
            "How many may begin together after a pause; by default 1.",
            Shape::Whole(1, handlers::CALLS_MAX),
        ),
        Word::new("per", "`host`: each host is bounded by itself.", Shape::Words(|| vec!["host"])),
    ],
);

static SCHEDULE: Keys =
    Keys { exactly_one: &["cron", "every"], ..Keys::new("schedule", &schedule::KEYS, SCHEDULE_WORDS) };

const SCHEDULE_WORDS: &[Word] = &[
    Word::new(
        "cron",
        "Minute, hour, day of month, month, day of week; names, ranges, steps, lists, `L`, `W`, `#`; or `@hourly`, \
         `@daily`, `@weekly`, `@monthly`, `@yearly`.",
        Shape::Fixed,
    ),
    Word::new("every", "A duration of real time, from 1s to 366d, instead of `cron`.", Shape::Duration),
    Word::new("anchor", "Where `every` counts from: by default 1970-01-01T00:00:00Z.", Shape::Fixed),
    Word::new(
        "zone",
        "The time zone, such as `Europe/Berlin`; `cron` needs it unless the host is in UTC.",
        Shape::Fixed,
    ),
    Word::new("dst", "What happens on days when clocks change: `{ gap: shift, fold: first }`, the default.", DST_SHAPE),
    Word::new("start", "No due time is before it.", Shape::Fixed),
    Word::new("end", "No due time is at it or after it.", Shape::Fixed),
    Word::new(
        "jitter",
        "Each run starts up to so much later than it is due, always the same for one due time.",
        Shape::Duration,
    ),
    Word::new(
        "catch-up",
        "`last`, the default, `none` or `all`: which due times are caught up that passed while no service ran, of the last \
         24 h and at most 1,000.",
        Shape::Words(|| schedule::CATCH_UP.iter().map(|(word, _)| *word).collect()),
    ),
    Word::new(
        "overlap",
        "While an earlier run of the schedule is unfinished: `skip`, the default; `queue` one; `queue-all`, up to 100; \
         `cancel-previous`; `allow` both.",
        Shape::Words(|| schedule::OVERLAP.iter().map(|(word, _)| *word).collect()),
    ),
    Word::new(
        "inputs",
        "The inputs of each run; expressions read `.due` (UTC), `.local` (with the zone's offset) and `.schedule` (its name).",
        Shape::Map(&Shape::Any),
    ),
];

const DST_SHAPE: Shape = Shape::Keys(|| &DST);

static DST: Keys = Keys::new(
    "dst",
    &schedule::DST,
    &[
        Word::new(
            "gap",
            "A time that clocks skip is due at the first moment after the gap (`shift`), or not that day (`skip`).",
            Shape::Words(|| schedule::GAP.iter().map(|(word, _)| *word).collect()),
        ),
        Word::new(
            "fold",
            "A time that clocks show twice is due the first time (`first`), the second (`last`), or both times (`both`).",
            Shape::Words(|| schedule::FOLD.iter().map(|(word, _)| *word).collect()),
        ),
    ],
);

static CONCURRENCY: Keys = Keys {
    required: &["group"],
    ..Keys::new(
        "concurrency",
        &concurrency::KEYS,
        &[
            Word::new(
                "group",
                "The name of the group; required. Expressions read `.inputs`; they are evaluated once, when the run starts. \
                 At most 256 bytes.",
                Shape::Any,
            ),
            Word::new(
                "limit",
                "How many runs of the group have a place at one time: 1, the default, to 1,000.",
                Shape::Whole(1, PLACES_MAX as u64),
            ),
            Word::new(
                "on-limit",
                "What a run does that finds no place: `queue`, the default: it waits; `skip`: it does not begin; \
                 `cancel-previous`: it waits, and those that wait or have the places it needs are cancelled; \
                 `replace-queued`: it waits, and those that wait are cancelled.",
                Shape::Words(|| {
                    [OnLimit::Queue, OnLimit::Skip, OnLimit::CancelPrevious, OnLimit::ReplaceQueued]
                        .map(OnLimit::name)
                        .to_vec()
                }),
            ),
            Word::new(
                "queue-max",
                "With `on-limit: queue`, how many runs may wait: 1 to 10,000, by default 100.",
                Shape::Whole(1, QUEUE_MAX as u64),
            ),
        ],
    )
};
