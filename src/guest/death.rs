//! How a guest dies: from an error of the engine to a problem that people understand.

use super::context::Context;
use super::metering::HostMemoryFault;
use super::problem::Breach;
use super::stored::{ENCODED_BYTES_MAX, StateRefused};
use super::wasi::BlockingCall;
use crate::process::{Death, Level, LogLine, Problem, ProblemClass, problem::kind};
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};

/// Where a guest was when it died.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Its modules were being instantiated.
    Instantiation,
    /// Its snapshot was being put into a fresh instance.
    Restoration,
    /// In `init`, or in `step`.
    Step,
    /// In its own `save`.
    Save,
    /// In its own `load`.
    Load,
}

/// The title if a step exceeded its fuel limit.
pub(crate) const OUT_OF_FUEL: &str = "The guest used up its fuel";

/// The text by which wasmtime says that a guest passed more than it may: the error's type is
/// private.
const HOSTCALL_FUEL_TEXT: &str = "fuel allocated for hostcalls has been exhausted";

/// Classifies an error as a death of the guest or of the host.
pub(crate) fn classify(error: &wasmtime::Error, context: &Context, phase: Phase) -> Death {
    match classify_any(error, context, phase) {
        // It is in no record: if the records are available, the guest is rebuilt from them.
        Death::Guest(problem) if phase == Phase::Load => Death::Lost(problem),
        death => death,
    }
}

/// The problem of a guest that was lost while it saved its state.
pub(crate) fn lost_problem(error: &wasmtime::Error, context: &Context, phase: Phase) -> Problem {
    match classify_any(error, context, phase) {
        Death::Guest(problem) | Death::Lost(problem) | Death::Host(problem) => problem,
    }
}

fn classify_any(error: &wasmtime::Error, context: &Context, phase: Phase) -> Death {
    if let Some(limit) = error.downcast_ref::<PoolConcurrencyLimitError>() {
        return Death::Host(
            Problem::new(kind::NO_CAPACITY, "No instance slot is free")
                .with_class(ProblemClass::Retryable)
                .with_detail(limit.to_string()),
        );
    }
    if let Some(breach) = error.downcast_ref::<Breach>() {
        return Death::Guest(breach.0.clone());
    }
    if let Some(call) = error.downcast_ref::<BlockingCall>() {
        return Death::Guest(
            Problem::new(kind::BLOCKING_CALL, "The guest made a call that would wait").with_detail(call.to_string()),
        );
    }
    if phase == Phase::Restoration {
        return Death::Host(host_fault(format!("the guest could not be restored from its snapshot: {error:#}")));
    }
    if let Some(fault) = error.downcast_ref::<HostMemoryFault>() {
        return Death::Host(host_fault(fault.to_string()));
    }
    if error.is::<std::io::Error>() {
        return Death::Host(host_fault(format!("{error:#}")));
    }
    Death::Guest(guest_problem(error, context, phase))
}

/// The problem of a failure that the guest caused.
fn guest_problem(error: &wasmtime::Error, context: &Context, phase: Phase) -> Problem {
    let trap = error.downcast_ref::<Trap>().copied();
    let detail = detail(error, trap, phase);
    let problem = match trap {
        _ if error.is::<StateRefused>() => Problem::new(kind::BAD_STATE, "The guest refuses the state that it saved"),
        Some(Trap::OutOfFuel) if phase == Phase::Step => Problem::new(kind::FUEL_EXHAUSTED, OUT_OF_FUEL),
        Some(Trap::OutOfFuel) => Problem::new(kind::FUEL_EXHAUSTED, "The guest used up its fuel outside a step"),
        Some(Trap::StackOverflow) => Problem::new(kind::STACK_EXHAUSTED, "The guest's stack overflowed"),
        // When an allocation fails, programs nearly always trap, and the trap does not give the
        // reason.
        Some(_) if context.limiter.refused() => memory_exhausted(),
        Some(_) => Problem::new(kind::TRAP, "The guest trapped"),
        None if context.limiter.refused() => memory_exhausted(),
        None if error.root_cause().to_string().contains(HOSTCALL_FUEL_TEXT) => {
            let max = if phase == Phase::Save { ENCODED_BYTES_MAX } else { context.hostcall_bytes_max() };
            return Problem::new(kind::TOO_LARGE, "The guest passed too much in one call")
                .with_detail(format!("at most {max} bytes are allowed in one call"));
        }
        None => Problem::new(kind::TRAP, "The guest broke the rules of the component model"),
    };
    problem.with_detail(detail)
}

pub(crate) fn memory_exhausted() -> Problem {
    Problem::new(kind::MEMORY_EXHAUSTED, "The guest needs more memory than it may have")
}

pub(crate) fn host_fault(detail: String) -> Problem {
    Problem::new(kind::HOST_FAULT, "The host could not run the guest")
        .with_class(ProblemClass::Retryable)
        .with_detail(detail)
}

/// What happened, and in which functions, the innermost first.
fn detail(error: &wasmtime::Error, trap: Option<Trap>, phase: Phase) -> String {
    let mut detail = trap.map_or_else(|| error.root_cause().to_string(), |trap| trap.to_string());
    detail.push_str(match phase {
        Phase::Instantiation => ", during instantiation",
        Phase::Save => ", in its `snapshot.save`",
        Phase::Load => ", in its `snapshot.load`",
        Phase::Step | Phase::Restoration => "",
    });
    if let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() {
        let names: Vec<_> = backtrace.frames().iter().filter_map(|frame| frame.func_name()).map(demangle).collect();
        if !names.is_empty() {
            detail.push_str(", in ");
            detail.push_str(&names.join(" < "));
        }
    }
    truncate(&mut detail);
    detail
}

/// A trap says where it happened, not why. The guest's last error log line often does: a panic's
/// message. It goes first, so a reader of the problem has it without the log.
pub(crate) fn add_last_error(problem: &mut Problem, log: &[LogLine]) {
    let last = log.iter().rfind(|line| line.level == Level::Error && !line.text.trim().is_empty());
    if let (true, Some(line)) = (problem.kind == kind::TRAP, last) {
        let mut words = line.text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        truncate(&mut words);
        let rest = without_panic(&problem.detail.take().unwrap_or_default());
        problem.detail = Some(format!("{words} ({rest})"));
    }
}

/// Removes from [`detail`]'s text the functions by which Rust panics: the message says that it did.
fn without_panic(detail: &str) -> String {
    const OF_PANIC: [&str; 7] = [
        "std::panicking",
        "std::sys::backtrace",
        "core::panicking",
        "core::option::",
        "core::result::",
        "__rustc",
        "rust_",
    ];
    let Some((what, functions)) = detail.split_once(", in ") else { return detail.to_owned() };
    let is_of_panic = |name: &&str| {
        let name = name.trim_start_matches('<');
        OF_PANIC.iter().any(|of| name.starts_with(of)) || matches!(name, "abort" | "__rust_start_panic")
    };
    let rest: Vec<&str> = functions.split(" < ").skip_while(is_of_panic).collect();
    if rest.is_empty() { what.to_owned() } else { format!("{what}, in {}", rest.join(" < ")) }
}

/// Names come from the guest's name section, so both their length and their characters are chosen
/// by the guest. Arbitrary.
const NAME_CHARS_MAX: usize = 200;
const DETAIL_BYTES_MAX: usize = 2_000;

fn demangle(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name)).chars().filter(|c| !c.is_control()).take(NAME_CHARS_MAX).collect()
}

fn truncate(text: &mut String) {
    if text.len() > DETAIL_BYTES_MAX {
        let end = (0..=DETAIL_BYTES_MAX).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A panic's message says what went wrong. The guest's functions follow, without those of the
    /// panic machinery.
    #[test]
    fn a_panic_whose_message_is_known_names_no_function_of_the_standard_library() {
        let detail = "wasm `unreachable` instruction executed, in std::panicking::panic_with_hook < rust_begin_unwind \
            < core::panicking::panic_fmt < core::result::unwrap_failed < app::price < app::step";
        let mut problem = Problem::new(kind::TRAP, "The guest trapped").with_detail(detail);
        let line = LogLine { level: Level::Error, text: "panicked at src/lib.rs:3:5:\nno price".into(), fields: None };
        add_last_error(&mut problem, &[line]);
        let expected =
            "panicked at src/lib.rs:3:5: no price (wasm `unreachable` instruction executed, in app::price < app::step)";
        assert_eq!(problem.detail.as_deref(), Some(expected));
        assert_eq!(without_panic("unreachable, in core::panicking::panic"), "unreachable");
        assert_eq!(without_panic("unreachable"), "unreachable");
    }
}
