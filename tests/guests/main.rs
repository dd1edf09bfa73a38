//! Guests through the whole host, as an embedder runs them: workflow texts, real components, real
//! workers. One module per topic.

mod admission;
mod again;
mod capacity;
mod compiling;
mod conformance;
mod corpus;
mod describe;
mod durable;
mod embedding;
mod fan_out;
mod hostile;
mod journals;
mod metered;
mod moving;
mod neighbour;
mod parking;
mod parts;
#[path = "../integration/process_init.rs"]
mod process_init;
mod programs;
mod rebuild;
mod recursion;
mod retry;
mod scripts;
mod signals;
mod slow;
mod snapshots;
mod suite;
mod support;
mod upgraded;
#[path = "../integration/wat_guest.rs"]
mod wat_guest;
