//! The hosts and workflows that are measured.

use serde_json::Map;
use std::path::Path;
use wfhost::dispatch::{Declaration, from_inline_fn};
use wfhost::guest::EngineOptions;
use wfhost::host::{Host, HostBuilder, RunHandle, RunOptions, Workflow};

/// Three guests, one after the other.
pub(crate) const GUESTS: &str = "
name: guests
components: { hello: ./hello.wasm }
steps:
  - { id: a, uses: hello, with: { name: a } }
  - { id: b, uses: hello, with: { name: b }, needs: a }
  - { id: c, uses: hello, with: { name: c }, needs: b }
";

/// Three calls, one after the other.
pub(crate) const CALLS: &str = "
name: calls
steps:
  - { id: a, call: echo, with: a }
  - { id: b, call: echo, with: b, needs: a }
  - { id: c, call: echo, with: c, needs: b }
";

/// A guest, then a wait that never ends within the bench.
pub(crate) const WAITS: &str = "
name: waits
components: { hello: ./hello.wasm }
steps:
  - { id: a, uses: hello, with: { name: a } }
  - { id: b, wait: 24h, needs: a }
  - { id: c, uses: hello, with: { name: c }, needs: b }
";

pub(crate) fn builder() -> HostBuilder {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-cache");
    let guests = EngineOptions { slots: Some(256), cache_dir: Some(cache), ..EngineOptions::default() };
    // Repeatable, as an effect with its key is.
    let declaration = Declaration::new("gives back what it is given").repeatable();
    Host::builder().workers(2).guests(guests).handler("echo", from_inline_fn(declaration, |args, _| Ok(args)))
}

pub(crate) fn host(data: &Path) -> Host {
    builder().data(data).build().expect("a host")
}

pub(crate) fn load(host: &Host, text: &str) -> Workflow {
    load_from(host, text, &Path::new(env!("CARGO_MANIFEST_DIR")).join("guests/built"))
}

/// A workflow whose components are in this folder.
pub(crate) fn load_from(host: &Host, text: &str, folder: &Path) -> Workflow {
    host.parse("bench.yaml", text, folder).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn start(host: &Host, workflow: &Workflow, durable: bool) -> RunHandle {
    let options = RunOptions { durable: Some(durable), ..RunOptions::default() };
    host.start(workflow, Map::new(), options).expect("it starts")
}

pub(crate) fn folder(below: &Path) -> tempfile::TempDir {
    tempfile::tempdir_in(below).expect("a folder")
}
