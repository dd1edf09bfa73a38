//! Snapshots of real instances, on real engines.

mod compact;
mod guests;
mod lockstep;
#[cfg(target_os = "linux")]
mod missed;
mod refused;
mod reset;
mod rig;
