//! The keys of components, inputs, limits and retries.

use super::{Keys, Shape, Word};
use crate::workflow::model::schema::{Format, Type};
use crate::workflow::model::{RETRIES_MAX, inputs, limits, read, retry};

pub(crate) static COMPONENT: Keys = Keys {
    required: &["source"],
    ..Keys::new(
        "component",
        &read::COMPONENT,
        &[
            Word::new(
                "source",
                "The path of a file, relative to the workflow's folder, or a reference to a registry: \
                 `oci://registry.example.com/team/orders:1.0`.",
                Shape::Component,
            ),
            Word::new("limits", "Limits for every step that uses it.", Shape::Keys(|| &LIMITS)),
            Word::new(
                "folders",
                "The folders that a program can read: `folders: { /data: ./data }`.",
                Shape::Map(&Shape::Fixed),
            ),
        ],
    )
};

pub(super) static DEFAULTS: Keys = Keys::new(
    "defaults",
    &read::DEFAULTS,
    &[
        Word::new("timeout", "How long one attempt of one item may take.", Shape::Duration),
        Word::new("retry", "The number of retries, and the wait before them.", Shape::Keys(|| &RETRY)),
        Word::new("limits", "What a guest may use.", Shape::Keys(|| &LIMITS)),
    ],
);

pub(super) static RETRY: Keys = Keys {
    required: &["max"],
    ..Keys::new(
        "retry",
        &retry::KEYS,
        &[
            Word::new("max", "The number of retries, not attempts: up to 1,000.", Shape::Whole(0, RETRIES_MAX as u64)),
            Word::new(
                "backoff",
                "The wait before a retry: it doubles from the first duration to the second, and is reduced at random by up \
                 to a half. By default `1s..30s`.",
                Shape::Backoff,
            ),
        ],
    )
};

pub(crate) static LIMITS: Keys = Keys::new(
    "limits",
    &limits::LIMIT_KEYS,
    &[
        Word::new("memory", "Linear memory of the guest; by default 64MiB.", Shape::Size),
        Word::new(
            "fuel-per-step",
            "Computing in one step of the guest, about one unit per instruction; by default 1G.",
            Shape::Amount,
        ),
        Word::new("fuel", "Computing in all steps of the guest; by default no limit.", Shape::Amount),
        Word::new("table-elements", "Elements of the guest's tables; by default 100k.", Shape::Amount),
        Word::new("commands-per-step", "Commands of one step of the guest; by default 10k.", Shape::Amount),
        Word::new("outstanding", "Commands that wait for their answers; by default 10k.", Shape::Amount),
        Word::new("mailbox", "Messages that the guest has not received yet; by default 10k.", Shape::Amount),
        Word::new("payload", "Bytes of one message, argument or answer; by default 1MiB.", Shape::Size),
        Word::new("output", "Bytes of the guest's output; by default 16MiB.", Shape::Size),
        Word::new("spawn-depth", "How deep guests spawn guests; by default 64.", Shape::Amount),
        Word::new("processes", "Processes below the guest; by default 100k.", Shape::Amount),
        Word::new("links", "Links and monitors of the guest; by default 10k.", Shape::Amount),
        Word::new("log-per-step", "Bytes of log lines in one step; by default 64KiB.", Shape::Size),
        Word::new("grace", "The time that a guest has to end after it is asked to; by default 5s.", Shape::Duration),
    ],
);

/// The name of a type, which is short for a schema that has only the type.
///
/// YAML reads the unquoted name `null` as null.
pub(super) const SCHEMA_TYPES: Shape =
    Shape::Either(&[Shape::Words(|| Type::NAMES.iter().map(|(name, _)| *name).collect()), Shape::Null]);

pub(crate) static INPUT: Keys = Keys::new(
    "input",
    &inputs::SCHEMA_KEYS,
    &[
        Word::new("type", "The type of the value: a name, or a list of names.", Shape::OneOrMore(&SCHEMA_TYPES)),
        Word::new("title", "A short name for people.", Shape::Text),
        Word::new("description", "An explanation for people.", Shape::Text),
        Word::new("default", "The value of an input that is not given.", Shape::Any),
        Word::new("enum", "The allowed values.", Shape::List(&Shape::Any)),
        Word::new("const", "The only allowed value.", Shape::Any),
        Word::new(
            "format",
            "The form of a string.",
            Shape::Words(|| Format::NAMES.iter().map(|(name, _)| *name).collect()),
        ),
        Word::new("minimum", "Inclusive lower bound of a number.", Shape::Number),
        Word::new("maximum", "Inclusive upper bound of a number.", Shape::Number),
        Word::new("exclusiveMinimum", "Exclusive lower bound of a number.", Shape::Number),
        Word::new("exclusiveMaximum", "Exclusive upper bound of a number.", Shape::Number),
        Word::new("minLength", "Fewest characters of a string.", COUNT),
        Word::new("maxLength", "Most characters of a string.", COUNT),
        Word::new("items", "The schema of each item of a list.", NESTED),
        Word::new("minItems", "Fewest items of a list.", COUNT),
        Word::new("maxItems", "Most items of a list.", COUNT),
        Word::new("maxBytes", "Most bytes of a blob.", Shape::Size),
        Word::new("uniqueItems", "Whether no two items of a list may be equal.", Shape::Bool),
        Word::new("properties", "The schemas of the keys of an object, by name.", Shape::Map(&NESTED)),
        Word::new(
            "required",
            "The keys that an object must have; of an input itself `false` if it may be absent.",
            Shape::Either(&[Shape::Bool, Shape::OneOrMore(&Shape::Text)]),
        ),
        Word::new("additionalProperties", "If false, an object may have no keys beyond `properties`.", Shape::Bool),
    ],
);

const COUNT: Shape = Shape::Whole(0, 1 << 32);

const NESTED: Shape = Shape::Either(&[SCHEMA_TYPES, Shape::Keys(|| &INPUT)]);
