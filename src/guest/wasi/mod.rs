//! Stock WASI imports, made deterministic, so that guests in languages whose libraries expect an
//! operating system run unchanged.
//!
//! What a guest sees through them depends only on its initial arguments and its events, and no call
//! ever waits:
//! - both clocks stand still in a step: they show the time of its batch of events;
//! - random numbers, the insecure ones too, come from the process's own seeded stream;
//! - arguments and environment are empty, standard input is at its end, there is no terminal;
//! - what is written to standard output and standard error becomes log lines;
//! - `exit` is a death: a guest ends by the status of its step;
//! - there are no folders to open, and sockets and name lookups are denied; a program has files in
//!   memory ([`files`]), and what it is started with ([`World`]);
//! - a timer that is not due yet cannot come due in the same step, so waiting for it is a
//!   [`BlockingCall`].
//!
//! Wasmtime's own implementation is used only where it cannot reach the outside or a tokio reactor:
//! for resources that no guest can obtain (sockets), and to move bytes between the
//! streams that are made here.
//!
//! Resources live in a table of the host's, so a component that imports any of those interfaces
//! cannot be snapshotted.

mod cli;
mod clocks;
pub(crate) mod files;
mod lines;
mod poll;
mod program;
mod random;
mod sockets;
#[cfg(test)]
mod tests;
mod work;

use crate::process::{LogLine, Timestamp};
use lines::Captured;
pub(crate) use program::{ProgramExit, Stdin, World};
use std::marker::PhantomData;
use wasmtime::StoreContextMut;
use wasmtime::component::{HasData, Linker, ResourceTable};
use wasmtime_wasi::p2::bindings as wasi;
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsCtx, WasiSocketsCtxView};
use wasmtime_wasi_io::bindings::wasi::io;

/// The interfaces that are offered, each in all versions from 0.2.0 to the one named.
pub(crate) const INTERFACES: &[&str] = &[
    "wasi:cli/environment@0.2.12",
    "wasi:cli/exit@0.2.12",
    "wasi:cli/stderr@0.2.12",
    "wasi:cli/stdin@0.2.12",
    "wasi:cli/stdout@0.2.12",
    "wasi:cli/terminal-input@0.2.12",
    "wasi:cli/terminal-output@0.2.12",
    "wasi:cli/terminal-stderr@0.2.12",
    "wasi:cli/terminal-stdin@0.2.12",
    "wasi:cli/terminal-stdout@0.2.12",
    "wasi:clocks/monotonic-clock@0.2.12",
    "wasi:clocks/wall-clock@0.2.12",
    "wasi:filesystem/preopens@0.2.12",
    "wasi:filesystem/types@0.2.12",
    "wasi:io/error@0.2.12",
    "wasi:io/poll@0.2.12",
    "wasi:io/streams@0.2.12",
    "wasi:random/insecure-seed@0.2.12",
    "wasi:random/insecure@0.2.12",
    "wasi:random/random@0.2.12",
    "wasi:sockets/instance-network@0.2.12",
    "wasi:sockets/ip-name-lookup@0.2.12",
    "wasi:sockets/network@0.2.12",
    "wasi:sockets/tcp-create-socket@0.2.12",
    "wasi:sockets/tcp@0.2.12",
    "wasi:sockets/udp-create-socket@0.2.12",
    "wasi:sockets/udp@0.2.12",
];

/// Streams, timers and errors that a guest may hold at the same time. Arbitrary: far beyond what a
/// language's library asks for, and about a megabyte of the host's.
const RESOURCES_MAX: usize = 4_096;

/// A call that would wait. A step never does.
#[derive(Debug, thiserror::Error)]
#[error("{import} would wait, and a step never does; {instead}")]
pub(crate) struct BlockingCall {
    pub(crate) import: &'static str,
    pub(crate) instead: &'static str,
}

/// What WASI needs from a store's data.
pub(crate) trait WasiView: Send + 'static {
    /// WASI's state of the guest.
    fn wasi(&mut self) -> &mut Wasi;

    /// The time of the batch of events that the guest is stepped with.
    fn now(&mut self) -> Timestamp;

    /// Fills `bytes` from the guest's random stream.
    fn fill_random(&mut self, bytes: &mut [u8]);

    /// Counts a call of a host function.
    fn count_host_call(&mut self);

    /// Charges fuel for work that grows with the guest's arguments.
    fn charge(&mut self, fuel: u64) {
        let _ = fuel;
    }

    /// Ends the slice, or the step, if the charged work requires it. Called within the calls whose
    /// cost matters.
    fn settle(store: &mut StoreContextMut<'_, Self>) -> impl Future<Output = wasmtime::Result<()>> + Send
    where
        Self: Sized,
    {
        let _ = store;
        std::future::ready(Ok(()))
    }
}

/// WASI's state of one guest. A guest that never calls WASI costs a pointer.
#[derive(Default)]
pub(crate) struct Wasi(Option<Box<State>>);

struct State {
    table: ResourceTable,
    captured: Captured,
    sockets: WasiSocketsCtx,
    /// The world of a program; guests have none.
    program: Option<World>,
}

impl Wasi {
    fn state(&mut self) -> &mut State {
        self.0.get_or_insert_with(|| {
            let mut table = ResourceTable::new();
            table.set_max_capacity(RESOURCES_MAX);
            let captured = Captured::default();
            Box::new(State { table, captured, sockets: WasiSocketsCtx::default(), program: None })
        })
    }

    /// Makes it the world of a program, before its instance is made.
    pub(crate) fn begin_program(&mut self, world: World) {
        self.state().program = Some(world);
    }

    /// The world of a program.
    pub(crate) fn program(&self) -> Option<&World> {
        self.0.as_ref()?.program.as_ref()
    }

    /// Takes the world of a program that has ended.
    pub(crate) fn end_program(&mut self) -> Option<World> {
        self.0.as_mut().and_then(|state| state.program.take())
    }

    /// Whether the guest has no open resource.
    pub(crate) fn has_no_resources(&self) -> bool {
        self.0.as_ref().is_none_or(|state| state.table.is_empty())
    }

    /// Takes the guest's completed lines, to be logged before its other lines.
    pub(crate) fn take_lines(&mut self) -> Vec<LogLine> {
        self.0.as_ref().map(|state| state.captured.take_lines()).unwrap_or_default()
    }

    /// Ends a step: completes the unfinished lines, and returns how many were dropped in this step
    /// because there were too many.
    pub(crate) fn end_step(&mut self) -> u64 {
        self.0.as_ref().map(|state| state.captured.end_step()).unwrap_or_default()
    }
}

/// A store's data, as the interfaces see it.
struct WasiHost<'a, T>(&'a mut T);

impl<T: WasiView> WasiHost<'_, T> {
    fn state(&mut self) -> &mut State {
        self.0.wasi().state()
    }
}

struct HasWasi<T>(PhantomData<T>);

impl<T: WasiView> HasData for HasWasi<T> {
    type Data<'a> = WasiHost<'a, T>;
}

type Has<T> = HasWasi<T>;

struct HasTable;

impl HasData for HasTable {
    type Data<'a> = &'a mut ResourceTable;
}

fn host<T: WasiView>(data: &mut T) -> WasiHost<'_, T> {
    data.count_host_call();
    WasiHost(data)
}

fn table<T: WasiView>(data: &mut T) -> &mut ResourceTable {
    data.count_host_call();
    &mut data.wasi().state().table
}

fn denied_sockets<T: WasiView>(data: &mut T) -> WasiSocketsCtxView<'_> {
    data.count_host_call();
    let state = data.wasi().state();
    WasiSocketsCtxView { ctx: &mut state.sockets, table: &mut state.table }
}

/// Offers the [`INTERFACES`] to guests.
///
/// # Errors
/// Fails if the linker has one of them already.
pub(crate) fn link<T: WasiView>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    io::error::add_to_linker::<T, HasTable>(linker, table)?;
    work::link(linker)?;
    clocks::link(linker)?;
    random::link(linker)?;
    wasi::random::insecure_seed::add_to_linker::<T, Has<T>>(linker, host)?;
    cli::link_environment(linker)?;
    wasi::cli::exit::add_to_linker::<T, Has<T>>(linker, host)?;
    wasi::cli::stdin::add_to_linker::<T, Has<T>>(linker, host)?;
    wasi::cli::stdout::add_to_linker::<T, Has<T>>(linker, host)?;
    wasi::cli::stderr::add_to_linker::<T, Has<T>>(linker, host)?;
    wasi::cli::terminal_input::add_to_linker::<T, Has<T>>(linker, host)?;
    wasi::cli::terminal_output::add_to_linker::<T, Has<T>>(linker, host)?;
    wasi::cli::terminal_stdin::add_to_linker::<T, Has<T>>(linker, host)?;
    wasi::cli::terminal_stdout::add_to_linker::<T, Has<T>>(linker, host)?;
    wasi::cli::terminal_stderr::add_to_linker::<T, Has<T>>(linker, host)?;
    files::link(linker)?;
    let network = wasi::sockets::network::LinkOptions::default();
    wasi::sockets::network::add_to_linker::<T, WasiSockets>(linker, &network, denied_sockets)?;
    wasi::sockets::instance_network::add_to_linker::<T, WasiSockets>(linker, denied_sockets)?;
    wasi::sockets::tcp::add_to_linker::<T, WasiSockets>(linker, denied_sockets)?;
    wasi::sockets::tcp_create_socket::add_to_linker::<T, WasiSockets>(linker, denied_sockets)?;
    wasi::sockets::udp::add_to_linker::<T, WasiSockets>(linker, denied_sockets)?;
    wasi::sockets::udp_create_socket::add_to_linker::<T, WasiSockets>(linker, denied_sockets)?;
    wasi::sockets::ip_name_lookup::add_to_linker::<T, Has<T>>(linker, host)?;
    Ok(())
}
