//! Rust: `cargo build` for `wasm32-unknown-unknown`.

use super::tool::{self, Talk};
use crate::cli::report::error::{UserError, kind};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "wasm32-unknown-unknown";

const NO_CARGO: &str = "Rust comes from https://rustup.rs, or with your system's packages";

pub(super) fn build(folder: &Path, talk: Talk) -> Result<Vec<u8>, UserError> {
    has_target(folder)?;
    let mut command = Command::new("cargo");
    command.current_dir(folder).args(["build", "--release", "--target", TARGET]);
    command.arg("--message-format=json-render-diagnostics");
    let output = tool::run(&mut command, talk, NO_CARGO)?;
    let path = artifact(&output).ok_or_else(|| {
        let title = format!("cargo has made no WebAssembly of {}", folder.join("Cargo.toml").display());
        UserError::new(kind::BUILD_FAILED, title).hint("Cargo.toml needs: [lib] crate-type = [\"cdylib\"]")
    })?;
    tool::made(&path)
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

/// The last WebAssembly file that cargo reports: that of the folder's package.
fn artifact(messages: &[u8]) -> Option<PathBuf> {
    let lines = messages.split(|byte| *byte == b'\n');
    let messages = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let artifacts = messages.filter(|message| message["reason"] == "compiler-artifact");
    let files = artifacts.filter_map(|artifact| {
        let files = artifact["filenames"].as_array()?.iter().filter_map(Value::as_str).map(PathBuf::from);
        files.into_iter().find(|file| file.extension().is_some_and(|ending| ending == "wasm"))
    });
    files.fold(None, |_, file| Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_webassembly_is_the_packages() {
        let line = |file: &str| format!(r#"{{"reason":"compiler-artifact","filenames":["{file}"]}}"#);
        let end = r#"{"reason":"build-finished","success":true}"#.to_owned();
        let messages = [line("/a/libsdk.rlib"), line("/a/other.wasm"), line("/a/my_project.wasm"), end];
        assert_eq!(artifact(messages.join("\n").as_bytes()).unwrap(), Path::new("/a/my_project.wasm"));
        assert!(artifact(line("/a/libx.rlib").as_bytes()).is_none());
    }
}
