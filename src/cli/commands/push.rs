//! `wfhost push`.

use crate::cli::args::host::{CacheArguments, any_registry};
use crate::cli::args::workflow::NO_SLOTS;
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::terminal::{print, print_json};
use crate::guest::{Cancellation, Component, WasiCommand};
use crate::host::component_file;
use crate::oci::{Reference, ReferenceError, Registries, RegistryError};
use clap::{Args, ValueHint};
use serde_json::json;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost push orders.wasm oci://registry.example.com/team/orders:1.0
  wfhost push orders.wasm oci://localhost:5000/orders --json | jq -r .reference

A workflow names what was pushed by the reference that this prints:
  uses: oci://registry.example.com/team/orders:1.0@sha256:...

Credentials come from $REGISTRY_AUTH_FILE, else config.json in $DOCKER_CONFIG or ~/.docker: docker \
login and podman login write them. A registry on a loopback address is spoken to in plain HTTP.

--json prints one object: reference, digest, bytes.

Exit codes: 0 pushed, 2 not.")]
pub(in crate::cli) struct Arguments {
    /// A component's file.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(in crate::cli) file: PathBuf,
    /// Where it goes: `oci://registry/repository:tag`.
    #[arg(value_name = "REFERENCE")]
    pub(in crate::cli) reference: String,
    /// Print JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) cache: CacheArguments,
}

pub(in crate::cli) fn push(command: &Arguments) -> Result<Exit, CommandError> {
    let unusable = |error: ReferenceError| {
        UserError::new(kind::USAGE, format!("`{}`: {error}", command.reference)).hint(error.hint)
    };
    let reference: Reference = command.reference.parse().map_err(unusable)?;
    let name = command.file.display().to_string();
    let bytes = component_file::read(&command.file)
        .map_err(|error| UserError::new(kind::UNREADABLE, format!("{name}: {error}")))?;
    // What could not be a step is better refused here than where it is pulled.
    let host = command.cache.builder(NO_SLOTS).workers(1).build().map_err(UserError::from)?;
    let loaded = if WasiCommand::recognizes(&bytes) {
        WasiCommand::load(host.guests(), &name, &bytes, &Cancellation::new(), &|| {}).map(|_| ())
    } else {
        Component::load_hashed(host.guests(), &bytes, blake3::hash(&bytes), &Cancellation::new(), &|| {}).map(|_| ())
    };
    loaded.map_err(|error| {
        let (why, hint) = component_file::explain(&name, &bytes, &error);
        UserError::new(kind::USAGE, why).hint(hint)
    })?;
    let title = command.file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let refused =
        |error: RegistryError| UserError::new(kind::REGISTRY, error.message.clone()).hint_maybe(error.hint.clone());
    let digest = Registries::new(any_registry(), None).push(&reference, &bytes, &title).map_err(refused)?;
    let pinned = reference.pinned(&digest).to_string();
    if command.json {
        print_json(&json!({ "reference": pinned, "digest": digest, "bytes": bytes.len() }))?;
    } else {
        print(&pinned)?;
    }
    Ok(Exit::Success)
}
