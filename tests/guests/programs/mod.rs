//! Programs for the command line as steps.

mod folders;
mod hostile;
mod real;
mod small;

use crate::support::{cause, host, outputs};
use serde_json::{Map, Value, json};
use std::path::Path;
use wfhost::host::{Host, Outcome, RunOptions};

/// A workflow of one step, `x`, that runs a program of this folder.
fn workflow(program: &str, with: &Value, limits: &str) -> String {
    let step = format!("{{ id: x, uses: ./{program}.wasm, with: {with}, limits: {{ {limits} }} }}");
    format!("steps: [ {step} ]\noutputs: {{ x: \"${{ .steps.x.output }}\" }}\n")
}

fn run_in(host: &Host, folder: &Path, program: &str, with: &Value, limits: &str) -> Outcome {
    let text = workflow(program, with, limits);
    let workflow = host.parse("program.yaml", &text, folder).unwrap_or_else(|error| panic!("{error}\n{text}"));
    host.start(&workflow, Map::new(), RunOptions::default()).expect("it starts").wait()
}

/// Runs a program in text, a module of WASI preview 1 that imports what [`wasi`] declares.
fn run_text(host: &Host, text: &str, with: &Value, limits: &str) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tool.wasm"), wat::parse_str(text).unwrap()).unwrap();
    run_in(host, folder.path(), "tool", with, limits)
}

/// A program with these data from address 1,024 on, and this body of `_start`. Its functions are
/// those of preview 1; `$r` is a local for their results.
fn program(data: &str, body: &str) -> String {
    let import = |name: &str, params: &str| {
        format!("(import \"wasi_snapshot_preview1\" \"{name}\" (func ${name} (param {params}) (result i32)))")
    };
    let imports = [
        import("fd_write", "i32 i32 i32 i32"),
        import("fd_read", "i32 i32 i32 i32"),
        import("fd_pwrite", "i32 i32 i32 i64 i32"),
        import("fd_readdir", "i32 i32 i32 i64 i32"),
        import("fd_close", "i32"),
        import("fd_filestat_set_size", "i32 i64"),
        import("path_open", "i32 i32 i32 i32 i32 i64 i64 i32 i32"),
        import("path_create_directory", "i32 i32 i32"),
        import("path_rename", "i32 i32 i32 i32 i32 i32"),
        import("path_symlink", "i32 i32 i32 i32 i32"),
        import("path_unlink_file", "i32 i32 i32"),
        import("environ_sizes_get", "i32 i32"),
        import("environ_get", "i32 i32"),
        import("args_sizes_get", "i32 i32"),
        import("args_get", "i32 i32"),
        import("poll_oneoff", "i32 i32 i32 i32"),
        import("sock_accept", "i32 i32 i32"),
    ];
    format!(
        "(module {} (import \"wasi_snapshot_preview1\" \"proc_exit\" (func $proc_exit (param i32)))
            (memory (export \"memory\") 16)
            (data (i32.const 1024) \"{data}\")
            (func $print (param $at i32) (param $length i32)
                (i32.store (i32.const 0) (local.get $at)) (i32.store (i32.const 4) (local.get $length))
                (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
            (func $complain (param $at i32) (param $length i32)
                (i32.store (i32.const 0) (local.get $at)) (i32.store (i32.const 4) (local.get $length))
                (drop (call $fd_write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8))))
            (func $deep (param i32) (result i32)
                (i32.add (i32.const 1) (call $deep (local.get 0))))
            (func (export \"_start\") (local $r i32) (local $i i32) {body}))",
        imports.join("\n")
    )
}
