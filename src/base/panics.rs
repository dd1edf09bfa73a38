//! The messages of panics.

use std::any::Any;

/// The message of a panic that was caught.
pub(crate) fn message_of(cause: &(dyn Any + Send)) -> &str {
    let text = cause.downcast_ref::<&str>().copied();
    text.or_else(|| cause.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a text")
}
