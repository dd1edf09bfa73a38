//! Reading the files of components, and explaining what a file is instead.

use crate::guest::{LoadError, PROGRAM_BYTES_MAX};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Bytes at the start of a file that show what it is.
const HEAD_BYTES: usize = 512;

// What can be loaded can be stored.
const _: () = assert!(PROGRAM_BYTES_MAX <= crate::journal::COMPONENT_BYTES_MAX);

/// How to make a component.
const HOW: &str = "docs/guests.md tells how a component is built: in Rust for the target wasm32-unknown-unknown, otherwise of a core \
    module by wasm-tools component new module.wasm -o component.wasm";

/// How to run a script.
const SCRIPT: &str = "a script is a step by `uses`, and its name ends with .js, .mjs, .ts, .mts or .py; the modules that it \
    imports may be bundled: esbuild --bundle --format=esm";

/// Reads a component's file, up to one byte more than any may have.
///
/// # Errors
/// Fails if it cannot be read, or is no file: a pipe might never end.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let metadata = std::fs::metadata(path)?;
    let kind = metadata.file_type();
    if kind.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
    }
    if !kind.is_file() {
        return Err(io::Error::other("it is a device or a pipe, and no file"));
    }
    let most = PROGRAM_BYTES_MAX as u64 + 1;
    // One more than the file has, so that its end is found without another allocation.
    let mut bytes = Vec::with_capacity(metadata.len().min(most) as usize + 1);
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Explains why these bytes are no component that can be run. Returns a message and a hint.
pub(crate) fn explain(source: &str, bytes: &[u8], error: &LoadError) -> (String, String) {
    match error {
        LoadError::CoreModule => (format!("`{source}` is a core WebAssembly module, not a component"), HOW.to_owned()),
        LoadError::Malformed(why) => match foreign(source, bytes) {
            Some((what, hint)) => (format!("`{source}` is {what}, not a component"), hint.unwrap_or(HOW).to_owned()),
            None => {
                (format!("`{source}` is damaged: {why}"), "build it again, or compare it with the original".to_owned())
            }
        },
        LoadError::Misfit(_) => (
            format!("`{source}` cannot be a step: {}", chain(error)),
            format!("wfhost inspect {source} tells more; wit/process.wit is what a component exports and may import"),
        ),
        LoadError::TooMany { .. } | LoadError::Unweighed | LoadError::CompileBound(_) => (
            format!("`{source}` is refused: {}", chain(error)),
            "no known tool chain makes such a component: ask its author, and do not run it in another way".to_owned(),
        ),
        LoadError::Compiler(_) => (
            format!("`{source}` cannot be compiled: {}", chain(error)),
            "compilers run in processes of their own, started from /proc/self/exe: check whether the machine allows that; a component that \
             kills the compiler is not to be trusted"
                .to_owned(),
        ),
        other => (format!("`{source}`: {}", chain(other)), HOW.to_owned()),
    }
}

/// Says what a file is that does not begin like WebAssembly, with a hint.
fn foreign(source: &str, bytes: &[u8]) -> Option<(&'static str, Option<&'static str>)> {
    if bytes.starts_with(b"\0asm") {
        return None;
    }
    let head = &bytes[..bytes.len().min(HEAD_BYTES)];
    // A character may be cut at the end.
    let text = match std::str::from_utf8(head) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&head[..error.valid_up_to()]).ok(),
        Err(_) => None,
    };
    let text = text.filter(|text| !text.contains('\0')).map(str::trim_start);
    let ending = Path::new(source).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    Some(match (text, ending) {
        (Some(""), _) => ("empty", Some("the build that made it did not end well: build it again")),
        (Some(text), _) if text.starts_with("(component") || text.starts_with("(module") || text.starts_with(";;") => {
            ("WebAssembly in its text form", Some("make it binary first: wasm-tools parse file.wat -o file.wasm"))
        }
        (Some(text), _) if text.starts_with("version https://git-lfs") => {
            ("a pointer of Git LFS", Some("fetch the file itself: git lfs pull"))
        }
        (_, "yaml" | "yml") => ("a YAML file", Some("a step runs the workflow of another file with `workflow`")),
        (Some(_), "js" | "mjs" | "cjs" | "jsx" | "ts" | "mts" | "cts" | "tsx" | "py") => ("a script", Some(SCRIPT)),
        (Some(_), "rs" | "c" | "cc" | "cpp" | "go") => ("source code", None),
        (Some(text), _) if text.starts_with("#!") => ("a script", None),
        (Some(text), _) if text.starts_with('<') => {
            ("HTML or XML", Some("was it downloaded? what came is a page and not the file"))
        }
        (Some(_), _) => ("text", None),
        _ if head.starts_with(b"\x7fELF") => ("a program for Linux", None),
        _ if head.starts_with(&[0xcf, 0xfa, 0xed, 0xfe]) => ("a program for macOS", None),
        _ if head.starts_with(b"MZ") => ("a program for Windows", None),
        _ if head.starts_with(&[0x1f, 0x8b])
            || head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
            || head.starts_with(b"PK") =>
        {
            ("compressed", Some("unpack it first"))
        }
        _ => ("something else than WebAssembly", None),
    })
}

/// Writes an error and all its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(source: &str, bytes: &[u8]) -> String {
        explain(source, bytes, &LoadError::Malformed("bad magic".to_owned())).0
    }

    #[test]
    fn what_is_there_instead_is_named() {
        for (source, bytes, expected) in [
            ("a.wasm", &b""[..], "`a.wasm` is empty, not a component"),
            ("a.wat", b"\n(component)", "`a.wat` is WebAssembly in its text form, not a component"),
            ("a.cjs", b"exports.run = 1", "`a.cjs` is a script, not a component"),
            ("a.go", b"package main", "`a.go` is source code, not a component"),
            ("a.wasm", b"#!/bin/sh\n", "`a.wasm` is a script, not a component"),
            ("a.wasm", b"\x7fELF\x02\0", "`a.wasm` is a program for Linux, not a component"),
            ("a.wasm", b"\x1f\x8b\x08\0", "`a.wasm` is compressed, not a component"),
            ("a.wasm", b"<!DOCTYPE html>", "`a.wasm` is HTML or XML, not a component"),
            ("a.wasm", b"\xff\xfe\0\0", "`a.wasm` is something else than WebAssembly, not a component"),
            ("a.wasm", b"\0asm\x0d\0\x01\0\xff", "`a.wasm` is damaged: bad magic"),
            ("b.yaml", b"steps: []", "`b.yaml` is a YAML file, not a component"),
        ] {
            assert_eq!(what(source, bytes), expected);
        }
        let cut = format!("{}é", "x".repeat(HEAD_BYTES - 1));
        assert_eq!(what("a", cut.as_bytes()), "`a` is text, not a component");
        let (message, hint) = explain("m.wasm", b"\0asm\x01\0\0\0", &LoadError::CoreModule);
        assert_eq!(message, "`m.wasm` is a core WebAssembly module, not a component");
        assert!(hint.contains("wasm-tools component new"));
    }
}
