//! What a run does that finds no place in its concurrency group.

/// Bytes of a group's name. Arbitrary.
pub const GROUP_BYTES_MAX: usize = 256;
/// The largest limit of a group: its places are counted whenever one of its runs begins or ends.
/// Arbitrary.
pub const PLACES_MAX: u32 = 1_000;
/// Most runs that may wait for a place in one group. Arbitrary.
pub const QUEUE_MAX: u32 = 10_000;

/// What a run does that finds no place in its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnLimit {
    /// It waits.
    #[default]
    Queue,
    /// It does not begin.
    Skip,
    /// It waits, and the oldest runs with a place are asked to end. Those that wait end.
    CancelPrevious,
    /// It waits in place of those that wait, which end.
    ReplaceQueued,
}

impl OnLimit {
    /// The word for it in workflow files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Skip => "skip",
            Self::CancelPrevious => "cancel-previous",
            Self::ReplaceQueued => "replace-queued",
        }
    }
}
