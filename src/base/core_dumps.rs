//! Core dumps: a copy of a process's memory that the kernel writes to the disk.

use rustix::process::{Resource, Rlimit, setrlimit};

/// Forbids core dumps of this process and of those that it starts, and other processes of the user
/// to read its memory. It lasts until the process ends.
///
/// # Errors
/// The operating system refuses.
pub(crate) fn forbid_core_dumps() -> std::io::Result<()> {
    // The kernel ignores the limit where a program takes the dumps, and so do debuggers.
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    Ok(())
}
