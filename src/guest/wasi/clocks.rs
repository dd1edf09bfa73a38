//! Both clocks show the time of the batch; a timer is due or not for the whole step.

use super::{Has, WasiHost, WasiView, World, host};
use std::future;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::p2::bindings::clocks::monotonic_clock::{self, Duration, Instant};
use wasmtime_wasi::p2::bindings::clocks::wall_clock::{self, Datetime};
use wasmtime_wasi_io::async_trait;
use wasmtime_wasi_io::poll::{DynPollable, Pollable, subscribe};

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const NANOS_PER_MICRO: u64 = 1_000;

/// Offers both clocks. Their most used calls are bound by hand, since a call bound by wasmtime's
/// own macro cannot end a slice.
pub(super) fn link<T: WasiView>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    wall_clock::add_to_linker::<T, Has<T>>(linker, host)?;
    monotonic_clock::add_to_linker::<T, Has<T>>(linker, host)?;
    linker.allow_shadowing(true);
    linker.instance("wasi:clocks/wall-clock@0.2.12")?.func_wrap_async(
        "now",
        |mut store: StoreContextMut<'_, T>, (): ()| {
            Box::new(async move {
                let now = wall_clock::Host::now(&mut host(store.data_mut()))?;
                T::settle(&mut store).await?;
                Ok((now,))
            })
        },
    )?;
    linker.instance("wasi:clocks/monotonic-clock@0.2.12")?.func_wrap_async(
        "now",
        |mut store: StoreContextMut<'_, T>, (): ()| {
            Box::new(async move {
                let now = host(store.data_mut()).instant();
                T::settle(&mut store).await?;
                Ok((now,))
            })
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

impl<T: WasiView> wall_clock::Host for WasiHost<'_, T> {
    fn now(&mut self) -> wasmtime::Result<Datetime> {
        let nanos = self.instant();
        Ok(Datetime { seconds: nanos / NANOS_PER_SECOND, nanoseconds: (nanos % NANOS_PER_SECOND) as u32 })
    }

    fn resolution(&mut self) -> wasmtime::Result<Datetime> {
        Ok(Datetime { seconds: 0, nanoseconds: NANOS_PER_MICRO as u32 })
    }
}

impl<T: WasiView> WasiHost<'_, T> {
    /// The time of the batch; a program's clock goes on from there.
    fn instant(&mut self) -> Instant {
        let began = self.0.now().0.saturating_mul(NANOS_PER_MICRO);
        let elapsed = self.state().program.as_mut().map_or(0, World::tick);
        began.saturating_add(elapsed)
    }

    /// Waits, if this is a program, for which time passes at once. Returns whether it did.
    fn wait(&mut self, nanos: Duration) -> bool {
        let program = self.state().program.as_mut();
        program.map(|program| program.wait(nanos)).is_some()
    }

    fn timer(&mut self, is_due: bool) -> wasmtime::Result<Resource<DynPollable>> {
        let table = &mut self.state().table;
        let timer = table.push(Timer { is_due })?;
        subscribe(table, timer)
    }
}

impl<T: WasiView> monotonic_clock::Host for WasiHost<'_, T> {
    fn now(&mut self) -> wasmtime::Result<Instant> {
        Ok(self.instant())
    }

    fn resolution(&mut self) -> wasmtime::Result<Duration> {
        Ok(NANOS_PER_MICRO)
    }

    fn subscribe_instant(&mut self, when: Instant) -> wasmtime::Result<Resource<DynPollable>> {
        let now = self.instant();
        let is_due = when <= now || self.wait(when - now);
        self.timer(is_due)
    }

    fn subscribe_duration(&mut self, duration: Duration) -> wasmtime::Result<Resource<DynPollable>> {
        let is_due = self.wait(duration) || duration == 0;
        self.timer(is_due)
    }
}

/// A timer, as of the step that made it. A timer held until a later step does not change: a guest
/// that wants to be stepped when it is due yields `sleep`.
struct Timer {
    is_due: bool,
}

#[async_trait]
impl Pollable for Timer {
    async fn ready(&mut self) {
        if !self.is_due {
            future::pending::<()>().await;
        }
    }
}
