//! Tests of webhooks.

mod links;
mod mapping;
mod secrets;
mod service;
mod verify;

/// Lower-case hexadecimal digits, as senders write signatures.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |digits, byte| format!("{digits}{byte:02x}"))
}
