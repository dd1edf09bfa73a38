//! Webhooks in: deliveries of others start runs or become signals.

mod mapping;
mod secret;
mod spec;
mod verify;

#[cfg(test)]
mod tests;
