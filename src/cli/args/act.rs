//! The arguments of commands that change a run.

use crate::cli::args::target::TargetArguments;
use crate::cli::args::values;
use clap::Args;

/// The arguments of commands that change a run.
#[derive(Args, Debug)]
pub(in crate::cli) struct ActArguments {
    /// Idempotency id: a request with the same id counts once, unless the run has received a
    /// thousand others since [default: a fresh id].
    #[arg(long, value_name = "ID", value_parser = values::act_id)]
    pub(in crate::cli) id: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) target: TargetArguments,
}

impl ActArguments {
    /// The id of the act: the one that is given, or a fresh one.
    pub(in crate::cli) fn id(&self) -> String {
        self.id.clone().unwrap_or_else(|| {
            let mut random = [0; 16];
            getrandom::fill(&mut random)
                .expect("invariant: every system that is supported has a source of random bytes");
            format!("act-{:032x}", u128::from_le_bytes(random))
        })
    }
}
