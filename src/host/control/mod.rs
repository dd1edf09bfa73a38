//! The local control socket: how another process of the same user sees and steers the runs of a host that lives.
//!
//! A host listens on a Unix socket of its own from the time that it opens its data folder. One connection carries one request, a line of JSON, and its answer, a line;
//! the answer of [`Request::Watch`] is many lines, up to the end of the run or of the host. Both sides say which [`VERSION`] they speak.
//!
//! **Where.** `<data>/sockets/`, made with mode 0700, the sockets with 0600. Where that path would be too long for a socket, the folder is
//! `wfhost/<digest of the data folder>` in `$XDG_RUNTIME_DIR`, else `wfhost-<uid>/<digest>` in the temporary folder. Whoever opens a folder
//! checks that it is the user's own and nobody else's, so neither side talks to a stranger.
//!
//! **Cost.** Binding takes a few system calls, and a thread waits in `accept`. What carries out requests, a runtime of one thread, is made
//! when somebody first connects.
//!
//! - **I1** A socket that is seen under its name is listened to: it is bound under another name, and renamed. So one that refuses a
//!   connection has no host any more, and whoever finds it removes it.
//! - **I2** Only processes of the host's own user, and root, are answered: the kernel tells whose the other end is.
//! - **I3** Whatever the other end does or does not do costs no more than one connection of so many, a request's bytes, and a bounded queue of
//!   events; it never holds a worker, and never for ever a connection.
//!
//! *Rejected.* HTTP, which needs a token and a check of `Host` and `Origin` even on loopback. One socket for a folder, which would need one of
//! its hosts to speak for the others. One lasting connection with numbered requests, which saves nothing here: a command asks once.

mod carry_out;
mod client;
mod protocol;
mod server;
mod socket_folder;
#[cfg(test)]
mod tests;

pub use client::{Answers, Client, ControlError};
pub use protocol::{Answer, HostFacts, Refusal, Request, Resolve, RunFacts, RunState, RunStatus, VERSION};
pub(super) use server::Control;
pub(super) use socket_folder::user;
