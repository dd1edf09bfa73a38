//! Webhooks in: deliveries of others start runs or become signals.

mod link;
mod mapping;
mod page;
mod secret;
mod spec;
mod verify;

#[cfg(test)]
mod tests;
