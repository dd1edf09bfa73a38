//! The host: what an embedder sees, and where the rooms are joined.
//!
//! A [`Host`] owns one scheduler with its workers, one engine for guests, one for expressions, and
//! the handlers. It [loads](Host::load) workflow files and [runs](Host::run) them. Hosts share
//! nothing in memory: two in one operating system process do not know of each other.
//!
//! - **I1** What a run executes is fixed when its workflow is loaded: components are compiled then,
//!   and named by digest.
//! - **I2** Dropping a host ends its workers; [`Host::shutdown`] waits first for the runs to end.
//!
//! It decides nothing about processes: it passes plans to the run, and programs to the scheduler.

mod ahead;
mod attempts;
mod backup;
mod blobs;
mod bounded_calls;
mod builder;
mod cached_calls;
mod causes;
mod children;
pub(crate) mod component_file;
pub mod control;
mod durable;
mod durable_watch;
mod end;
mod error;
mod expression_cache;
mod folders;
mod groups;
mod handler_catalog;
mod inbox;
mod load;
mod lock;
mod manifest;
mod outcome;
mod places;
mod port;
mod processes;
mod projection;
mod random;
#[cfg(feature = "serve")]
pub(crate) mod record_json;
mod repeat;
pub(crate) mod replaced_file;
mod retention;
mod retry_json;
mod runs;
pub(crate) mod script;
mod secrets;
mod snapshots;
mod spans;
mod start;
mod step_counts;
mod storage;
mod traced_calls;
mod upgrade;
mod virtual_run;
mod workflow_file;
mod workflow_of;

pub use attempts::{Attempt, StepAttempts};
pub use backup::{BackupError, BackupManifest, CopiedFile, Origin, backup, restore};
pub use builder::HostBuilder;
pub use cached_calls::StepCaching;
pub use causes::{Caused, How, RunCauses};
#[cfg(feature = "cli")]
pub(crate) use durable::exposed;
pub use durable::{Journal, RecoverError};
pub use durable_watch::{DurableChange, DurableRecords};
pub use error::{HostError, LoadError};
pub use handler_catalog::HandlerCatalog;
#[cfg(feature = "cli")]
pub(crate) use load::stored_line;
pub use load::{ChangedScript, CompileNotice, Workflow};
pub use lock::{LOCK_FILE, LockDifference, LockFile, LockedKind, LockedParts, Locking};
pub use manifest::{DeployedVersion, RunManifest, StartNotes};
pub use outcome::{Outcome, Status};
pub use processes::{Place, RunProcess, RunProcesses};
pub use projection::{Line, RunProjection};
pub use repeat::{ForkOptions, PreparedRetry, ReplayOptions, RerunError, RetryOptions};
pub use retention::RetentionPolicy;
pub use runs::{ActError, Acted, Resumed, TakeOver};
pub use secrets::MissingSecret;
pub use snapshots::VerifyRunError;
pub use spans::{Flow, RunSpans, Span, SpanEnd, SpanId, SpanKind, TraceContext, TraceId, Traced};
pub use start::{RunHandle, RunOptions};
pub use storage::StorageNotice;
pub use upgrade::{Upgrade, UpgradeError};
pub(crate) use virtual_run::{virtual_recovery, virtual_spec};
pub(crate) use workflow_file::{is_workflow, read as read_definition};

use crate::dispatch::{Dispatcher, Secrets};
use crate::guest::{Component, GuestEngine};
use crate::oci::Registries;
use crate::process::{Problem, Program, problem::kind};
use crate::run::{KV, Kernel};
use crate::scheduler::Scheduler;
use crate::workflow::expression::Jq;
use crate::workflow::plan::{CallRequirements, Handlers as _};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Runs workflows. Cloning it makes another handle of the same host.
#[derive(Clone)]
pub struct Host {
    shared: Arc<Shared>,
}

struct Shared {
    kernel: Arc<Kernel>,
    /// `None` after the shutdown.
    scheduler: Mutex<Option<Scheduler<Kernel>>>,
    port: port::SchedulerPort,
    guests: Arc<GuestEngine>,
    random: random::RandomBytes,
    /// Where components of `oci://` come from.
    registries: Registries,
    /// Where the script engines are that are not part of the program.
    engines: Option<std::path::PathBuf>,
    jq: Arc<Jq>,
    /// What the operator has set aside for workflows.
    secrets: Arc<Secrets>,
    dispatcher: Arc<Dispatcher>,
    /// The bounds on calls that workflows set.
    call_bounds: Mutex<bounded_calls::BoundsByWorkflow>,
    /// The outcomes of steps with `cache`; `None` if none are kept.
    step_cache: Option<Arc<crate::journal::StepCache>>,
    /// Whether handlers are told the trace of each run.
    traces_calls: std::sync::atomic::AtomicBool,
    natives: BTreeMap<String, Arc<dyn Program>>,
    /// Removes runs that have ended, if there is a policy.
    sweeper: std::sync::OnceLock<retention::Sweeper>,
    signals: runs::ActCounts,
    steps: step_counts::StepCounts,
    /// The folder of durable runs.
    data: Option<Arc<durable::DataFolder>>,
    /// The blobs of its runs.
    blobs: Arc<blobs::HostBlobs>,
    blob_bounds: crate::run::BlobBounds,
    permitted: manifest::Permitted,
    /// Receives notices when a component is compiled.
    compiling: Option<builder::CompileWatcher>,
    /// The bytes of components are kept although there is no folder for them.
    retains: bool,
    /// What is done with the locks of workflow files.
    locking: Locking,
    /// Compiled components by the digest of their bytes.
    components: Mutex<BTreeMap<[u8; 32], Component>>,
    /// Translations of sources, by a digest of each and of the engine.
    translations: Mutex<BTreeMap<[u8; 32], String>>,
}

impl Host {
    /// Returns a builder with the defaults.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// Returns the engine of guests.
    pub fn guests(&self) -> &Arc<GuestEngine> {
        &self.shared.guests
    }

    /// Returns the names that `call` reaches, sorted.
    pub fn handlers(&self) -> Vec<String> {
        let mut names: Vec<String> = self.shared.dispatcher.registry().names().map(str::to_owned).collect();
        names.push(KV.to_owned());
        names.sort_unstable();
        names
    }

    /// Returns the purpose of a handler in one line; empty if it has none.
    #[cfg(feature = "cli")]
    pub(crate) fn handler_doc(&self, name: &str) -> String {
        let declaration = self.shared.dispatcher.registry().declaration(name);
        let kv = if name == KV { "The store of the run: keys with values." } else { "" };
        declaration.map_or_else(|| kv.to_owned(), |declaration| declaration.doc.to_string())
    }

    /// Returns what a handler wants of a call.
    pub(crate) fn handler_requirements(&self, name: &str, args: &serde_json::Value) -> Option<CallRequirements> {
        HandlerCatalog(self.shared.dispatcher.registry()).requirements(name, args)
    }

    /// Returns the engine of expressions.
    pub fn expressions(&self) -> &Arc<Jq> {
        &self.shared.jq
    }

    /// Returns the digest of the engine of expressions, which pins their meaning.
    pub fn expressions_digest(&self) -> &str {
        self.shared.jq.digest()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // First the workers, which use the port, then the port, which holds the scheduler's tables,
        // then the calls, which hold their runs and can no longer be answered.
        self.kernel.never_stall();
        drop(self.scheduler.get_mut().take());
        self.port.close();
        self.dispatcher.close();
        self.release_parked();
    }
}

impl Shared {
    /// Releases the parked runs. Callers that wait for one get the outcome that it is suspended.
    fn release_parked(&self) {
        self.kernel.abandon_parked(
            &Problem::new(kind::SUSPENDED, "The host stopped before the run ended")
                .with_detail("It continues when it is recovered."),
        );
    }
}
