//! What a guest is started with: nothing but two streams to write to. A program is started with
//! what its step gives it.

use super::lines::Stream;
use super::{Has, ProgramExit, WasiHost, WasiView, host};
use crate::guest::problem::Breach;
use crate::process::{Problem, problem::kind};
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::p2::bindings::cli::{
    environment, exit, stderr, stdin, stdout, terminal_input, terminal_output, terminal_stderr, terminal_stdin,
    terminal_stdout,
};
use wasmtime_wasi::p2::pipe::ClosedInputStream;
use wasmtime_wasi_io::streams::{DynInputStream, DynOutputStream};

/// What a text of a list costs beside its bytes. Estimated, not measured.
const TEXT_FUEL: u64 = 100;

impl<T: WasiView> environment::Host for WasiHost<'_, T> {
    fn get_environment(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        Ok(self.state().program.as_ref().map(|program| program.environment.clone()).unwrap_or_default())
    }

    fn get_arguments(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(self.state().program.as_ref().map(|program| program.arguments.clone()).unwrap_or_default())
    }

    fn initial_cwd(&mut self) -> wasmtime::Result<Option<String>> {
        Ok(None)
    }
}

/// Offers `wasi:cli/environment`. Its lists may be long, so they are charged for, by hand.
pub(super) fn link_environment<T: WasiView>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    environment::add_to_linker::<T, Has<T>>(linker, host)?;
    linker.allow_shadowing(true);
    let mut given = linker.instance("wasi:cli/environment@0.2.12")?;
    given.func_wrap_async("get-environment", |mut store: StoreContextMut<'_, T>, (): ()| {
        Box::new(async move {
            let all = environment::Host::get_environment(&mut host(store.data_mut()))?;
            let bytes: usize = all.iter().map(|(name, value)| name.len() + value.len()).sum();
            store.data_mut().charge(bytes as u64 + all.len() as u64 * TEXT_FUEL);
            T::settle(&mut store).await?;
            Ok((all,))
        })
    })?;
    given.func_wrap_async("get-arguments", |mut store: StoreContextMut<'_, T>, (): ()| {
        Box::new(async move {
            let all = environment::Host::get_arguments(&mut host(store.data_mut()))?;
            let bytes: usize = all.iter().map(String::len).sum();
            store.data_mut().charge(bytes as u64 + all.len() as u64 * TEXT_FUEL);
            T::settle(&mut store).await?;
            Ok((all,))
        })
    })?;
    linker.allow_shadowing(false);
    Ok(())
}

fn exited(code: u8, is_program: bool) -> wasmtime::Error {
    if is_program {
        return ProgramExit(code).into();
    }
    let problem = Problem::new(kind::EXIT, "The guest called exit");
    let detail = format!("with code {code}; a guest ends by the status of its step");
    Breach(problem.with_detail(detail)).into()
}

impl<T: WasiView> exit::Host for WasiHost<'_, T> {
    fn exit(&mut self, status: Result<(), ()>) -> wasmtime::Result<()> {
        Err(exited(u8::from(status.is_err()), self.state().program.is_some()))
    }

    fn exit_with_code(&mut self, status_code: u8) -> wasmtime::Result<()> {
        Err(exited(status_code, self.state().program.is_some()))
    }
}

impl<T: WasiView> stdin::Host for WasiHost<'_, T> {
    fn get_stdin(&mut self) -> wasmtime::Result<Resource<DynInputStream>> {
        let state = self.state();
        let stream: DynInputStream = match &state.program {
            Some(program) => program.stdin(),
            None => Box::new(ClosedInputStream),
        };
        Ok(state.table.push(stream)?)
    }
}

impl<T: WasiView> WasiHost<'_, T> {
    fn output(&mut self, stream: Stream) -> wasmtime::Result<Resource<DynOutputStream>> {
        let state = self.state();
        let stream = match (&state.program, stream) {
            (Some(program), Stream::Stdout) => program.stdout(),
            (Some(program), Stream::Stderr) => program.stderr(),
            (None, stream) => state.captured.stream(stream),
        };
        Ok(state.table.push(stream)?)
    }
}

impl<T: WasiView> stdout::Host for WasiHost<'_, T> {
    fn get_stdout(&mut self) -> wasmtime::Result<Resource<DynOutputStream>> {
        self.output(Stream::Stdout)
    }
}

impl<T: WasiView> stderr::Host for WasiHost<'_, T> {
    fn get_stderr(&mut self) -> wasmtime::Result<Resource<DynOutputStream>> {
        self.output(Stream::Stderr)
    }
}

impl<T: WasiView> terminal_input::Host for WasiHost<'_, T> {}

impl<T: WasiView> terminal_input::HostTerminalInput for WasiHost<'_, T> {
    fn drop(&mut self, terminal: Resource<terminal_input::TerminalInput>) -> wasmtime::Result<()> {
        self.state().table.delete(terminal)?;
        Ok(())
    }
}

impl<T: WasiView> terminal_output::Host for WasiHost<'_, T> {}

impl<T: WasiView> terminal_output::HostTerminalOutput for WasiHost<'_, T> {
    fn drop(&mut self, terminal: Resource<terminal_output::TerminalOutput>) -> wasmtime::Result<()> {
        self.state().table.delete(terminal)?;
        Ok(())
    }
}

impl<T: WasiView> terminal_stdin::Host for WasiHost<'_, T> {
    fn get_terminal_stdin(&mut self) -> wasmtime::Result<Option<Resource<terminal_input::TerminalInput>>> {
        Ok(None)
    }
}

impl<T: WasiView> terminal_stdout::Host for WasiHost<'_, T> {
    fn get_terminal_stdout(&mut self) -> wasmtime::Result<Option<Resource<terminal_output::TerminalOutput>>> {
        Ok(None)
    }
}

impl<T: WasiView> terminal_stderr::Host for WasiHost<'_, T> {
    fn get_terminal_stderr(&mut self) -> wasmtime::Result<Option<Resource<terminal_output::TerminalOutput>>> {
        Ok(None)
    }
}
