//! The command line of wfhost.

use std::process::ExitCode;

fn main() -> ExitCode {
    wfhost::cli::main()
}
