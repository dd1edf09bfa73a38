//! The host that a command makes: its engine, its workers, and the addresses that it may reach.

use crate::cli::args::blobs::BlobArguments;
use crate::cli::args::cached::StepCacheArguments;
use crate::cli::args::secrets::{self, GivenSecret, GivenSecrets};
use crate::cli::args::values::{self, Addresses, CacheDir, SLOTS_DEFAULT};
use crate::cli::report::invocation::Invocation;
use crate::cli::report::journal::ANOTHER_FOLDER;
use crate::cli::report::warnings::{Warnings, exposed};
use crate::dispatch::http::{HttpConfig, Permission};
use crate::guest::{EngineOptions, Profile};
use crate::host::{Host, HostBuilder};
use crate::workflow::model::HandlerBounds;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The engine of guests, for commands that start guests.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Host")]
pub(in crate::cli) struct EngineArguments {
    /// How many guests (instances of components) may be in memory at once; further ones wait, or
    /// idle ones are evicted [default: 64].
    #[arg(long, value_name = "N", value_parser = values::slots)]
    pub(in crate::cli) slots: Option<u32>,
    /// Memory profile of guests [default: fast].
    #[arg(long, value_enum, value_name = "PROFILE")]
    pub(in crate::cli) profile: Option<MemoryProfile>,
    #[command(flatten)]
    pub(in crate::cli) cache: CacheArguments,
}

/// The host, for commands that run something.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Host")]
pub(in crate::cli) struct HostArguments {
    /// Worker threads [default: one per processor].
    #[arg(long, value_name = "N", value_parser = values::workers)]
    pub(in crate::cli) workers: Option<usize>,
    /// Let `call: http` steps reach a loopback or private address: an address, a network
    /// (`10.0.0.0/8`), `localhost`, or a name. Repeatable; `none` permits none [default: public
    /// addresses only].
    #[arg(long = "allow-address", value_name = "ADDRESS", value_parser = values::addresses)]
    pub(in crate::cli) allow: Vec<Addresses>,
    /// Give workflows a secret that they declare: `NAME` (the variable of that name),
    /// `NAME=env:VARIABLE`, `NAME=file:PATH` or `NAME='command:PROGRAM ARGUMENT'`. Repeatable.
    #[arg(long = "secret", value_name = "NAME[=SOURCE]", value_parser = secrets::flag)]
    pub(in crate::cli) secret: Vec<(String, GivenSecret)>,
    /// Send secrets without TLS to loopback addresses such as 127.0.0.1, which `--allow-address`
    /// permits: for tests.
    #[arg(long)]
    pub(in crate::cli) plain_secrets: bool,
    /// The secrets in effect, wherever they come from.
    #[arg(skip)]
    pub(in crate::cli) secrets: GivenSecrets,
    /// Those in effect, wherever they come from.
    #[arg(skip)]
    pub(in crate::cli) allow_addresses: Vec<Permission>,
    /// Whether they were chosen for this command alone.
    #[arg(skip)]
    pub(in crate::cli) chosen_addresses: bool,
    /// Bounds on the calls of handlers, which a file sets.
    #[arg(skip)]
    pub(in crate::cli) handlers: Vec<(String, HandlerBounds)>,
    #[command(flatten)]
    pub(in crate::cli) cached: StepCacheArguments,
    #[command(flatten)]
    pub(in crate::cli) engine: EngineArguments,
    #[command(flatten)]
    pub(in crate::cli) blobs: BlobArguments,
}

/// The arguments of every command that loads components.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Host")]
pub(in crate::cli) struct CacheArguments {
    /// Folder for compiled components; an empty name disables the cache [default: `wfhost` in the
    /// user's cache folder].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    #[arg(value_parser = OsStringValueParser::new().map(CacheDir::from))]
    pub(in crate::cli) cache: Option<CacheDir>,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum MemoryProfile {
    /// 4 GiB of address space per guest, no bounds checks.
    Fast,
    /// 64 MiB of address space per guest, explicit bounds checks: more guests in one host.
    Dense,
}

impl MemoryProfile {
    /// As flags and files have it.
    pub(in crate::cli) fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Dense => "dense",
        }
    }
}

impl CacheArguments {
    /// A host that stores compiled code where the arguments say. `slots` is what the command needs.
    pub(in crate::cli) fn builder(&self, slots: u32) -> HostBuilder {
        Host::builder().guests(self.options(slots)).registries(any_registry())
    }

    fn options(&self, slots: u32) -> EngineOptions {
        let mut options = EngineOptions { slots: Some(slots), ..Default::default() };
        if let Some(cache) = &self.cache {
            options.cache_dir.clone_from(&cache.0);
        }
        options
    }

    /// Returns whether the user wants no compiled code to be stored.
    pub(in crate::cli) fn is_off(&self) -> bool {
        self.cache.as_ref().is_some_and(|cache| cache.0.is_none())
    }
}

impl EngineArguments {
    /// A host as the arguments configure it. `slots_default` is what the command needs.
    pub(in crate::cli) fn builder(&self, slots_default: u32) -> HostBuilder {
        let mut options = self.cache.options(self.slots.unwrap_or(slots_default));
        if let Some(profile) = self.profile {
            options.profile = match profile {
                MemoryProfile::Fast => Profile::Fast,
                MemoryProfile::Dense => Profile::Dense,
            };
        }
        Host::builder().guests(options).registries(any_registry())
    }
}

/// Registries may be anywhere: whoever runs a command has read the file that names them, and the
/// answers reach no guest.
pub(in crate::cli) fn any_registry() -> HttpConfig {
    let mut config = HttpConfig::default();
    let everywhere = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    config.permissions = everywhere.map(|address| Permission::Network { address, prefix: 0 }).into();
    config
}

impl HostArguments {
    /// A host with this many workers unless the arguments say otherwise.
    pub(in crate::cli) fn host(&self, workers: usize) -> HostBuilder {
        let mut http = HttpConfig::default();
        http.permissions.clone_from(&self.allow_addresses);
        http.plain_secrets_to_loopback = self.plain_secrets;
        let secrets = secrets::store(&self.secrets).expect("invariant: the secrets were checked when they were read");
        let builder = self.engine.builder(SLOTS_DEFAULT).http(http).blobs(self.blobs.bounds()).secrets(secrets);
        let builder = builder.workers(self.workers.unwrap_or(workers)).step_cache(self.cached.caching(None));
        let bound = |builder: HostBuilder, (name, bounds): &(String, HandlerBounds)| {
            builder.bound_handler(name.as_str(), bounds.into())
        };
        self.handlers.iter().fold(builder, bound)
    }

    /// The secrets that a workflow may send to whatever host it declares.
    pub(in crate::cli) fn unbound_secrets(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().filter(|(_, given)| given.hosts.is_none()).map(|(name, _)| name.as_str())
    }

    /// Warns if the host has fewer slots than requested.
    pub(in crate::cli) fn check(&self, host: &Host, warnings: &mut Warnings) {
        let asked = self.engine.slots.unwrap_or(SLOTS_DEFAULT);
        if host.guests().slots() < asked {
            let message = format!("the machine provides {} of {asked} slots", host.guests().slots());
            warnings.push((message, "`wfhost doctor` shows the limits".to_owned()));
        }
    }

    /// Warns if compiled code is not stored.
    pub(in crate::cli) fn check_cache(&self, host: &Host, warnings: &mut Warnings) {
        if let Err(reason) = host.guests().cache().dir()
            && !self.engine.cache.is_off()
        {
            let message = format!("compiled code is not stored, so each start compiles again: {reason}");
            warnings.push((message, "--cache DIR or WFHOST_CACHE names another folder".to_owned()));
        }
    }

    /// Warns if other users can access the folder of durable runs.
    pub(in crate::cli) fn check_data(host: &Host, warnings: &mut Warnings) {
        if let Some(reason) = host.data_exposed() {
            warnings.push((exposed(&reason), ANOTHER_FOLDER.to_owned()));
        }
    }

    /// The invocation, with the addresses that the environment or a file permits.
    pub(in crate::cli) fn invocation(&self, invocation: Invocation) -> Invocation {
        let others = if self.chosen_addresses { &[][..] } else { &self.allow_addresses };
        invocation.permitting(others.iter().map(ToString::to_string).collect())
    }
}
