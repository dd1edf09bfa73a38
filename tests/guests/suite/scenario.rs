//! What `guests/suite/scenarios.json` and `languages.json` say.

use crate::support::guests;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// One scenario; `guests/suite/README.md` says what each member means.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Scenario {
    pub(super) name: String,
    pub(super) entry: String,
    #[serde(default)]
    pub(super) input: Value,
    /// Null is an output too.
    #[serde(default, deserialize_with = "given")]
    pub(super) output: Option<Value>,
    pub(super) output_bytes: Option<String>,
    pub(super) problem: Option<Map<String, Value>>,
    #[serde(default)]
    pub(super) cancelled: bool,
    pub(super) notes: Option<Vec<Value>>,
    #[serde(default)]
    pub(super) calls: BTreeMap<String, usize>,
    pub(super) in_flight_max: Option<usize>,
    #[serde(default)]
    pub(super) logs: Vec<Value>,
    #[serde(default)]
    pub(super) actions: Vec<Action>,
    #[serde(default)]
    pub(super) hold: BTreeMap<String, usize>,
    pub(super) grace: Option<String>,
    #[serde(default = "one")]
    pub(super) copies: usize,
    #[serde(default = "slots")]
    pub(super) slots: u32,
    #[serde(default)]
    pub(super) needs: Vec<String>,
    #[serde(default = "yes")]
    pub(super) replay: bool,
}

/// What happens from outside.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(super) enum Action {
    Signal {
        signal: String,
        body: Value,
    },
    Begun {
        begun: String,
        n: usize,
    },
    Abandoned {
        abandoned: usize,
    },
    Noted {
        noted: usize,
    },
    Query {
        query: String,
        is: Value,
    },
    Waiting {
        waiting: String,
        n: usize,
    },
    Cancel {
        cancel: String,
    },
    Pause {
        pause: u64,
    },
    Die {
        #[allow(dead_code, reason = "it tells this action from the others")]
        die: (),
    },
}

fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn one() -> usize {
    1
}

/// Each takes a guest of any language, even one with 38 tables.
fn slots() -> u32 {
    64
}

fn yes() -> bool {
    true
}

impl Scenario {
    /// The part of the program that it is about: its name up to the colon.
    pub(super) fn group(&self) -> &str {
        self.name.split(':').next().unwrap_or_default()
    }

    pub(super) fn is_for(&self, language: &Language) -> bool {
        self.needs.iter().all(|need| language.traits.contains(need))
    }
}

/// A language in which the suite is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Language {
    pub(super) name: String,
    /// Relative to `guests`.
    pub(super) component: Option<String>,
    /// A script, which needs no build.
    pub(super) script: Option<String>,
    /// The script's engine, where it is not part of the program.
    pub(super) engine: Option<String>,
    /// The program that the guide shows, in `guests/suite`.
    pub(super) order: String,
    /// Its component, where it is not an entry of the suite's own.
    pub(super) order_component: Option<String>,
    pub(super) traits: Vec<String>,
}

impl Language {
    pub(super) fn is_script(&self) -> bool {
        self.script.is_some()
    }

    fn path_of(file: &str) -> PathBuf {
        guests("").join(file)
    }

    /// Relative to `guests`.
    pub(super) fn program_file(&self) -> &str {
        self.script.as_deref().or(self.component.as_deref()).expect("a language has a component or a script")
    }

    pub(super) fn program(&self) -> PathBuf {
        Self::path_of(self.program_file())
    }

    /// What runs the program that the guide shows.
    pub(super) fn order_program(&self) -> PathBuf {
        if self.is_script() {
            return self.order_source();
        }
        self.order_component.as_deref().map_or_else(|| self.program(), Self::path_of)
    }

    pub(super) fn order_source(&self) -> PathBuf {
        guests("suite").join(&self.order)
    }

    /// Whether the engine of its scripts is there, or a part of wfhost.
    pub(super) fn has_engine(&self) -> bool {
        self.engine.as_deref().is_none_or(|file| Self::path_of(file).exists())
    }

    /// Whether it can run here. In CI it must.
    pub(super) fn is_there(&self) -> bool {
        let is_there = self.program().exists() && self.has_engine();
        let must = std::env::var_os("WFHOST_GUESTS_MUST_BE_BUILT").is_some();
        assert!(is_there || !must, "{}: {} is not built", self.name, self.program().display());
        if !is_there {
            eprintln!("SKIPPED: {}: {} is not built", self.name, self.program().display());
        }
        is_there
    }
}

pub(super) fn scenarios() -> Vec<Scenario> {
    read("scenarios.json")
}

pub(super) fn languages() -> Vec<Language> {
    read("languages.json")
}

fn read<T: for<'de> Deserialize<'de>>(file: &str) -> T {
    let text = std::fs::read_to_string(guests("suite").join(file)).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Writes out what is abbreviated: `{"$repeat":[text, n]}` is the text n times.
pub(super) fn expanded(value: &Value) -> Value {
    match value["$repeat"].as_array().map(Vec::as_slice) {
        Some([Value::String(text), n]) => {
            Value::String(text.repeat(usize::try_from(n.as_u64().expect("a count")).unwrap()))
        }
        _ => value.clone(),
    }
}
