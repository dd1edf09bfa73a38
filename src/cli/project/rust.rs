//! Rust: `cargo build` for `wasm32-unknown-unknown`.

use super::Made;
use super::tool::{self, Talk};
use crate::cli::report::error::{UserError, kind};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "wasm32-unknown-unknown";

const NO_CARGO: &str = "Rust comes from https://rustup.rs, or with your system's packages";

pub(super) fn build(folder: &Path, talk: Talk) -> Result<Made, UserError> {
    has_target(folder)?;
    let mut command = Command::new("cargo");
    command.current_dir(folder).args(["build", "--release", "--target", TARGET]);
    command.arg("--message-format=json-render-diagnostics");
    let output = tool::run(&mut command, talk, NO_CARGO)?;
    let (name, path) = artifact(&output).ok_or_else(|| {
        let title = format!("cargo has made no WebAssembly of {}", folder.join("Cargo.toml").display());
        UserError::new(kind::BUILD_FAILED, title).hint("Cargo.toml needs: [lib] crate-type = [\"cdylib\"]")
    })?;
    let bytes = std::fs::read(&path)
        .map_err(|error| UserError::new(kind::UNREADABLE, format!("cannot read {}: {error}", path.display())))?;
    Ok(Made { name, bytes })
}

/// Refuses a tool chain without the target's library, which would fail with a page of messages.
fn has_target(folder: &Path) -> Result<(), UserError> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.current_dir(folder).args(["--print", "target-libdir", "--target", TARGET]);
    let library = tool::line(&tool::run(&mut command, Talk::OnFailure, NO_CARGO)?);
    if Path::new(&library).is_dir() {
        return Ok(());
    }
    let title = format!("Rust has no library for {TARGET} here");
    Err(UserError::new(kind::MISSING_TOOL, title).hint(format!("rustup target add {TARGET}")))
}

/// The name and the WebAssembly file of the last package that cargo reports: the one of the folder.
fn artifact(messages: &[u8]) -> Option<(String, PathBuf)> {
    let lines = messages.split(|byte| *byte == b'\n');
    let messages = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let artifacts = messages.filter(|message| message["reason"] == "compiler-artifact");
    let made = artifacts.filter_map(|artifact| {
        let files = artifact["filenames"].as_array()?;
        let path = files.iter().filter_map(Value::as_str).find(|file| file.ends_with(".wasm"))?;
        Some((package(artifact["package_id"].as_str()?), PathBuf::from(path)))
    });
    made.last()
}

/// The name in a package's id: `path+file:///a/name#0.1.0`, `path+file:///a/b#name@0.1.0`.
fn package(id: &str) -> String {
    let (place, version) = id.split_once('#').unwrap_or((id, ""));
    match version.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => place.rsplit('/').next().unwrap_or(place).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_webassembly_is_the_packages() {
        let line = |id: &str, file: &str| {
            format!(r#"{{"reason":"compiler-artifact","package_id":"{id}","filenames":["{file}"]}}"#)
        };
        let messages = [
            line("path+file:///a/sdk#wfhost-guest@0.1.0", "/a/libsdk.rlib"),
            line("path+file:///a/my-project#0.1.0", "/a/my_project.wasm"),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let (name, path) = artifact(messages.join("\n").as_bytes()).unwrap();
        assert_eq!((name.as_str(), path.to_str()), ("my-project", Some("/a/my_project.wasm")));
        assert_eq!(package("path+file:///a/b#other@0.1.0"), "other");
        assert!(artifact(line("path+file:///a#x@0.1.0", "/a/libx.rlib").as_bytes()).is_none());
    }
}
