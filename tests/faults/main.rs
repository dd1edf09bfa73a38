//! Durable runs whose host is killed, whose disk fails, whose files are damaged, whose clock jumps,
//! or which another host owns.
//!
//! The host is a process of its own: this program again ([`hosted`]), so that one process has many
//! runs, or `wfhost` itself. Its calls go to a [server](server) that misbehaves and records in a
//! ledger what was done. One module per topic.
//!
//! ```text
//! WFHOST_KILLS=1000 cargo test --test faults kills
//! ```

mod damage;
mod dice;
mod disk;
mod hosted;
mod judge;
mod kills;
mod kinds;
mod life;
mod program;
mod server;
mod shim;
mod work;
