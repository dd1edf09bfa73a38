//! `--output-dir`: the outputs of a run that are blobs, as files.

use crate::cli::args::uploads::ending;
use crate::host::Outcome;
use crate::process::{Blob, Payload};
use crate::run::RunBlobs;
use serde_json::Value;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write};
use std::path::{Path, PathBuf};

/// Bytes of a part of a name. Arbitrary.
const NAME_BYTES_MAX: usize = 100;

/// Bytes that are copied at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Writes the content of the blob with a digest; the error is a sentence for the user.
pub(in crate::cli) type Fetch<'a> = dyn Fn(&str, &mut dyn Write) -> Result<(), String> + 'a;

/// The hint if a file cannot be written.
pub(in crate::cli) const ELSEWHERE: &str = "another --output-dir, or remove what is there";

/// The outputs of a run; null if it has not succeeded.
pub(in crate::cli) fn outputs_of(outcome: &Outcome) -> Value {
    match &outcome.result {
        Ok(Payload::Json(outputs)) => outputs.to_value(),
        _ => Value::Null,
    }
}

/// Writes the outputs of a run, and notes each file.
pub(in crate::cli) fn write(
    folder: &Path,
    outputs: &Value,
    fetch: &Fetch<'_>,
    note: &dyn Fn(String),
) -> Result<(), String> {
    let mut found = Vec::new();
    find(outputs, &mut PathBuf::new(), &mut found);
    let mut written: Vec<PathBuf> = Vec::new();
    for (name, blob) in found {
        let path = folder.join(distinct(name, &blob, &written));
        let is_new = write_one(&path, &blob, fetch)?;
        let verb = if is_new { "wrote" } else { "has already" };
        note(format!("{verb} {} ({} bytes)", path.display(), blob.size));
        written.push(path.strip_prefix(folder).unwrap_or(&path).to_owned());
    }
    Ok(())
}

/// Finds the handles within a value, each with its place in it.
pub(in crate::cli) fn find(value: &Value, place: &mut PathBuf, found: &mut Vec<(PathBuf, Blob)>) {
    if let Some(blob) = Blob::of_value(value) {
        return found.push((place.clone(), blob));
    }
    let mut below = |name: &str, value: &Value| {
        place.push(safe(name));
        find(value, place, found);
        place.pop();
    };
    match value {
        Value::Array(items) => items.iter().enumerate().for_each(|(index, item)| below(&index.to_string(), item)),
        Value::Object(members) => members.iter().for_each(|(name, value)| below(name, value)),
        _ => {}
    }
}

/// A name that leads nowhere else, and is not hidden.
fn safe(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut safe: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    safe.truncate(NAME_BYTES_MAX);
    if safe.is_empty() || safe.starts_with('.') {
        safe.insert(0, '_');
    }
    safe
}

/// The name with the ending of its media type, and a number if another output has it already.
fn distinct(name: PathBuf, blob: &Blob, written: &[PathBuf]) -> PathBuf {
    let with = |number: usize| {
        let mut text = name.clone().into_os_string();
        if number > 1 {
            text.push(format!("-{number}"));
        }
        match ending(&blob.media_type) {
            Some(ending) if name.extension().is_none_or(|own| own != ending) => text.push(format!(".{ending}")),
            _ => {}
        }
        PathBuf::from(text)
    };
    let path = (1..=written.len() + 1).map(with).find(|path| !written.contains(path));
    path.expect("invariant: there are more numbers than outputs")
}

/// Writes a file at once and whole. Returns false if it is there with the same content.
fn write_one(path: &Path, blob: &Blob, fetch: &Fetch<'_>) -> Result<bool, String> {
    let fails = |error: std::io::Error| format!("{}: {error}", path.display());
    if path.exists() {
        let same = is_same(path, &blob.digest).map_err(fails)?;
        return if same { Ok(false) } else { Err(format!("{} exists, with other content", path.display())) };
    }
    let parent = path.parent().expect("invariant: it is below the folder");
    std::fs::create_dir_all(parent).map_err(fails)?;
    fetch_new(path, &blob.digest, fetch).map(|()| true)
}

/// Writes a new file at once and whole.
pub(in crate::cli) fn fetch_new(path: &Path, digest: &str, fetch: &Fetch<'_>) -> Result<(), String> {
    let name = format!(".wfhost-{}", std::process::id());
    let temporary = path.with_file_name(name);
    let copied = fetch_to(&temporary, digest, fetch)
        .and_then(|()| std::fs::hard_link(&temporary, path).map_err(|error| error.to_string()));
    let _ = std::fs::remove_file(&temporary);
    copied.map_err(|why| format!("{}: {why}", path.display()))
}

fn fetch_to(path: &Path, digest: &str, fetch: &Fetch<'_>) -> Result<(), String> {
    let mut file = File::create(path).map_err(|error| error.to_string())?;
    fetch(digest, &mut file)?;
    file.sync_all().map_err(|error| error.to_string())
}

/// Writes the content of a blob of a run of this machine, part by part.
pub(in crate::cli) fn copy(blobs: &RunBlobs, digest: &str, to: &mut dyn Write) -> Result<(), String> {
    let reader = blobs.open(digest).map_err(|error| error.to_string())?;
    let mut offset = 0;
    while offset < reader.size() {
        let chunk = reader.read(offset, CHUNK_BYTES).map_err(|error| error.to_string())?;
        to.write_all(&chunk).map_err(|error| error.to_string())?;
        offset += chunk.len() as u64;
    }
    Ok(())
}

fn is_same(path: &Path, digest: &str) -> std::io::Result<bool> {
    let mut file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    let mut hasher = blake3::Hasher::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let length = file.read(&mut chunk)?;
        if length == 0 {
            return Ok(digest.strip_prefix("blake3:") == Some(hasher.finalize().to_hex().as_str()));
        }
        hasher.update(&chunk[..length]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_lead_nowhere_else() {
        for (name, expected) in
            [("a.csv", "a.csv"), ("..", "_.."), ("/etc/passwd", "_etc_passwd"), ("", "_"), (".hidden", "_.hidden")]
        {
            assert_eq!(safe(name), expected);
        }
        assert_eq!(safe(&"x".repeat(1_000)).len(), NAME_BYTES_MAX);
    }

    #[test]
    fn every_handle_is_found_and_gets_a_name_of_its_own() {
        let blob = json!({ "digest": format!("blake3:{}", "0".repeat(64)), "size": 1, "media-type": "text/csv" });
        let value = json!({ "a/b": blob, "a_b": blob, "list": [1, { "x": blob }] });
        let mut found = Vec::new();
        find(&value, &mut PathBuf::new(), &mut found);
        let mut written = Vec::new();
        for (name, blob) in found {
            let path = distinct(name, &blob, &written);
            written.push(path);
        }
        let names: Vec<_> = written.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(names, ["a_b.csv", "a_b-2.csv", "list/1/x.csv"]);
    }
}
