//! From arguments to a host.

use crate::cli::args::{EngineArguments, HostArguments, MemoryProfile};
use crate::guest::{EngineOptions, Profile};
use crate::host::{Host, HostBuilder};

impl HostArguments {
    /// A host that keeps compiled code where the arguments say. `slots` is what the command needs.
    pub(in crate::cli) fn builder(&self, slots: u32) -> HostBuilder {
        Host::builder().guests(self.options(slots))
    }

    fn options(&self, slots: u32) -> EngineOptions {
        let mut options = EngineOptions { slots: Some(slots), ..Default::default() };
        if let Some(cache) = &self.cache {
            options.cache_dir.clone_from(&cache.0);
        }
        options
    }

    /// Whether the person wants no compiled code to be kept.
    pub(in crate::cli) fn keeps_nothing(&self) -> bool {
        self.cache.as_ref().is_some_and(|cache| cache.0.is_none())
    }
}

impl EngineArguments {
    /// A host as the arguments want it. `slots_default` is what the command needs.
    pub(in crate::cli) fn builder(&self, slots_default: u32) -> HostBuilder {
        let mut options = self.code.options(self.slots.unwrap_or(slots_default));
        if let Some(profile) = self.profile {
            options.profile = match profile {
                MemoryProfile::Fast => Profile::Fast,
                MemoryProfile::Dense => Profile::Dense,
            };
        }
        Host::builder().guests(options)
    }
}
