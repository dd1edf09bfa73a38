//! Calls of foreign code: of the scheduler's commit point, of an embedder's programs, effects and
//! sinks, and drops of their values. A panic there ends at most the process concerned.

use super::message_of;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls it. Fails with the message of a panic. State that the panic left half changed is not used
/// again, or is the commit point's own.
#[inline]
pub(crate) fn call<R>(what: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(what)).map_err(message)
}

#[cold]
fn message(cause: Box<dyn Any + Send>) -> String {
    let text = message_of(&*cause).to_owned();
    // The payload of the panic is foreign too, and its drop may panic again; the payload of that
    // panic is not dropped.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(cause))) {
        std::mem::forget(again);
    }
    text
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::panic_any(Self);
        }
    }

    #[test]
    fn a_panic_is_its_message_whatever_was_thrown() {
        assert_eq!(call(|| 1), Ok(1));
        assert_eq!(call(|| panic!("a text")), Err::<(), _>("a text".to_owned()));
        assert_eq!(call(|| panic!("{} of {}", 1, 2)), Err::<(), _>("1 of 2".to_owned()));
        assert_eq!(call(|| std::panic::panic_any(Bomb)), Err::<(), _>("a panic without a text".to_owned()));
    }
}
