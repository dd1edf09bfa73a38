//! Secrets that an operator gives to workflows: by flags, or in the configuration file.

use crate::cli::args::values::InvalidValue;
use crate::dispatch::{SecretSource, Secrets};
use crate::process::secret;
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::model::{Fields, KnownKeys, shorten, texts};
use crate::workflow::syntax::{Entry, Node};
use std::collections::BTreeMap;
use std::path::Path;

const KEYS: KnownKeys = KnownKeys {
    what: "a secret",
    known: &["from", "hosts"],
    later: &[],
    foreign: &[(&["value", "default"], "say where the value is: from: file:PATH"), (&["host", "to"], "write `hosts`")],
};

const FORMS: &str = "write env:NAME, file:PATH or command:PROGRAM";

/// Where the value of a secret is, and who may receive it.
#[derive(Clone, Debug)]
pub(in crate::cli) struct GivenSecret {
    pub(in crate::cli) source: SecretSource,
    pub(in crate::cli) hosts: Option<Vec<String>>,
}

/// The secrets of an operator, by their names.
pub(in crate::cli) type GivenSecrets = BTreeMap<String, GivenSecret>;

/// `--secret NAME=SOURCE`, or `--secret NAME` for the variable of that name.
pub(in crate::cli) fn flag(text: &str) -> Result<(String, GivenSecret), InvalidValue> {
    let (name, source) = text.split_once('=').map_or((text, None), |(name, source)| (name, Some(source)));
    if !secret::is_name(name) {
        let hint = "write NAME, or NAME=env:VARIABLE, NAME=file:PATH, NAME='command:PROGRAM ARGUMENT'";
        return Err(InvalidValue::new("this does not begin with the name of a secret", hint));
    }
    let source = match source {
        None => Ok(SecretSource::Env(name.to_owned())),
        // What follows may be the secret itself: it is not repeated.
        Some(source) => source.parse().map_err(|why| InvalidValue::new(why, FORMS)),
    };
    Ok((name.to_owned(), GivenSecret { source: source?, hosts: None }))
}

/// `secrets` of the configuration file.
pub(in crate::cli) fn read(node: &Node, folder: &Path, problems: &mut Diagnostics) -> GivenSecrets {
    let Some(entries) = node.as_mapping() else {
        let message = format!("`secrets` has secrets by their names, and is not {}", node.kind());
        let hint = "secrets: { API_KEY: { from: file:/run/secrets/api, hosts: [ api.example.com ] } }";
        problems.push(Diagnostic::new("type", message, node.span).hint(hint));
        return BTreeMap::new();
    };
    let read = |entry: &Entry| Some((entry.key.clone(), read_one(entry, folder, problems)?));
    entries.iter().filter_map(read).collect()
}

fn read_one(entry: &Entry, folder: &Path, problems: &mut Diagnostics) -> Option<GivenSecret> {
    if !secret::is_name(&entry.key) {
        let message = format!("`{}` cannot name a secret", shorten(&entry.key));
        let rule = "a name is like that of a variable: at most 64 letters, digits and `_`, and no digit first";
        problems.push(Diagnostic::new("name", message, entry.key_span).hint(rule));
        return None;
    }
    if entry.value.as_scalar().is_some() {
        let source = read_source(&entry.value, folder, problems)?;
        return Some(GivenSecret { source, hosts: None });
    }
    let fields = Fields::read(&entry.value, &KEYS, problems)?;
    let hosts = fields
        .get("hosts")
        .map(|node| texts(node, "hosts", problems).into_iter().map(|(text, _)| text.to_owned()).collect::<Vec<_>>());
    let Some(from) = fields.get("from") else {
        if !fields.has_unknown_keys {
            let message = format!("the secret `{}` has no `from`", entry.key);
            problems.push(Diagnostic::new("missing-key", message, entry.key_span).hint("from: file:/run/secrets/api"));
        }
        return None;
    };
    let source = read_source(from, folder, problems)?;
    let given = GivenSecret { source, hosts };
    if let Err(why) = store(&BTreeMap::from([(entry.key.clone(), given.clone())])) {
        problems.push(Diagnostic::new("value", why, entry.key_span));
        return None;
    }
    Some(given)
}

/// A source as a flag has it, or a command as a list of its words.
fn read_source(node: &Node, folder: &Path, problems: &mut Diagnostics) -> Option<SecretSource> {
    const COMMAND: KnownKeys = KnownKeys { what: "`from`", known: &["command"], later: &[], foreign: &[] };
    if node.as_mapping().is_some() {
        let fields = Fields::read(node, &COMMAND, problems)?;
        let words = texts(fields.get("command")?, "command", problems);
        return Some(SecretSource::Command(words.into_iter().map(|(word, _)| word.to_owned()).collect()));
    }
    match node.as_text().unwrap_or_default().parse() {
        Ok(SecretSource::File(path)) => Some(SecretSource::File(folder.join(path))),
        Ok(source) => Some(source),
        Err(why) => {
            // The text may be the secret itself: it is not repeated, nor is its line shown.
            let message = format!("this says of no secret where it is: {why}");
            problems.push(Diagnostic::new("value", message, node.span).hint(FORMS));
            None
        }
    }
}

/// The secrets as a host takes them.
pub(in crate::cli) fn store(given: &GivenSecrets) -> Result<Secrets, String> {
    given.iter().try_fold(Secrets::default(), |secrets, (name, given)| {
        secrets.with(name, given.source.clone(), given.hosts.clone()).map_err(|error| error.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_never_repeats_what_may_be_the_secret() {
        let (name, given) = flag("S3_KEY").unwrap();
        assert_eq!((name.as_str(), format!("{:?}", given.source)), ("S3_KEY", "the variable \"S3_KEY\"".to_owned()));
        let (_, given) = flag("S3_KEY=file:/a=b").unwrap();
        assert_eq!(format!("{:?}", given.source), "the file \"/a=b\"");
        for bad in ["S3_KEY=hunter2hunter2", "hunter2-hunter2", "=env:A", "S3_KEY=env:"] {
            let why = flag(bad).unwrap_err();
            assert!(!format!("{why:?}").contains("hunter2"), "{why:?}");
        }
    }
}
