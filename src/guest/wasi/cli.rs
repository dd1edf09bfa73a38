//! What a program is started with: nothing but two streams to write to.

use super::lines::Stream;
use super::{WasiHost, WasiView};
use crate::guest::problem::Breach;
use crate::process::{Problem, problem::kind};
use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::cli::{
    environment, exit, stderr, stdin, stdout, terminal_input, terminal_output, terminal_stderr, terminal_stdin,
    terminal_stdout,
};
use wasmtime_wasi::p2::pipe::ClosedInputStream;
use wasmtime_wasi_io::streams::{DynInputStream, DynOutputStream};

impl<T: WasiView> environment::Host for WasiHost<'_, T> {
    fn get_environment(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        Ok(Vec::new())
    }

    fn get_arguments(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn initial_cwd(&mut self) -> wasmtime::Result<Option<String>> {
        Ok(None)
    }
}

fn exited(code: u8) -> wasmtime::Error {
    let problem = Problem::new(kind::EXIT, "The guest called exit");
    let detail = format!("with code {code}; a guest ends by the status of its step");
    Breach(problem.with_detail(detail)).into()
}

impl<T: WasiView> exit::Host for WasiHost<'_, T> {
    fn exit(&mut self, status: Result<(), ()>) -> wasmtime::Result<()> {
        Err(exited(u8::from(status.is_err())))
    }

    fn exit_with_code(&mut self, status_code: u8) -> wasmtime::Result<()> {
        Err(exited(status_code))
    }
}

impl<T: WasiView> stdin::Host for WasiHost<'_, T> {
    fn get_stdin(&mut self) -> wasmtime::Result<Resource<DynInputStream>> {
        let stream: DynInputStream = Box::new(ClosedInputStream);
        Ok(self.state().table.push(stream)?)
    }
}

impl<T: WasiView> WasiHost<'_, T> {
    fn output(&mut self, stream: Stream) -> wasmtime::Result<Resource<DynOutputStream>> {
        let state = self.state();
        Ok(state.table.push(state.captured.stream(stream))?)
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
