//! wfhost
