//! Answers that are not written out in records, since they can be had again.

use super::problem::kind;
use super::{Json, Payload, Problem};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// Gives an answer again.
pub trait Recalls: Send + Sync {
    /// Returns what a handler answered to these arguments.
    ///
    /// # Errors
    /// The problem that it cannot be had any more.
    fn recall(&self, args: &Json) -> Result<Payload, Problem>;
}

/// The answer of a handler that gives the same answer to the same arguments as long as its run
/// exists: a part of a blob. Records have the arguments, and the digest of the answer. The process
/// gets the answer itself.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub struct Recalled {
    /// What the answer follows from.
    pub args: Json,
    /// Bytes of the answer.
    pub size: u64,
    /// The BLAKE3 of the answer, in hexadecimal.
    pub digest: String,
    #[serde(skip)]
    content: OnceLock<Payload>,
    #[serde(skip)]
    source: OnceLock<Arc<dyn Recalls>>,
}

impl Recalled {
    /// An answer that is at hand.
    #[must_use]
    pub fn new(args: Json, answer: Payload) -> Self {
        let (size, digest) = (answer.size() as u64, digest(&answer));
        Self { args, size, digest, content: OnceLock::from(answer), source: OnceLock::new() }
    }

    /// An answer as a record has it.
    #[must_use]
    pub fn recorded(args: Json, size: u64, digest: String) -> Self {
        Self { args, size, digest, content: OnceLock::new(), source: OnceLock::new() }
    }

    /// Says where to have it again. Only the first call counts.
    pub fn recall_from(&self, source: &Arc<dyn Recalls>) {
        self.source.get_or_init(|| Arc::clone(source));
    }

    /// Returns the answer, which may wait for a disk.
    ///
    /// # Errors
    /// The problem that it cannot be had any more.
    pub fn answer(&self) -> Result<Payload, Problem> {
        if let Some(answer) = self.content.get() {
            return Ok(answer.clone());
        }
        let lost =
            |why: String| Problem::new(kind::HOST_CANNOT_REPLAY, "An answer cannot be had again").with_detail(why);
        let source = self.source.get().ok_or_else(|| lost("the blobs of the run are not at hand".to_owned()))?;
        let answer = source.recall(&self.args).map_err(|problem| lost(problem.to_string()))?;
        if digest(&answer) == self.digest { Ok(answer) } else { Err(lost("it is another one now".to_owned())) }
    }
}

fn digest(answer: &Payload) -> String {
    let bytes = match answer {
        Payload::Json(json) => json.as_bytes(),
        Payload::Bytes(bytes) => bytes,
        Payload::Blob(_) | Payload::Recalled(_) => return String::new(),
    };
    blake3::hash(bytes).to_hex().to_string()
}

impl PartialEq for Recalled {
    fn eq(&self, other: &Self) -> bool {
        (&self.args, self.size, &self.digest) == (&other.args, other.size, &other.digest)
    }
}

impl Eq for Recalled {}

impl Hash for Recalled {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.args, self.size, &self.digest).hash(state);
    }
}

impl std::fmt::Debug for Recalled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recalled").field("args", &self.args).field("size", &self.size).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Says(&'static str);

    impl Recalls for Says {
        fn recall(&self, _: &Json) -> Result<Payload, Problem> {
            Ok(Payload::json(&self.0))
        }
    }

    #[test]
    fn an_answer_is_the_recorded_one_or_none() {
        let args = Json::from_value(&serde_json::json!({ "offset": 1 }));
        let recalled = Recalled::new(args, Payload::json(&"text"));
        assert_eq!(recalled.answer().unwrap(), Payload::json(&"text"));
        let recorded = || Recalled::recorded(recalled.args.clone(), recalled.size, recalled.digest.clone());
        assert_eq!(recorded(), recalled);
        assert_eq!(recorded().answer().unwrap_err().kind, kind::HOST_CANNOT_REPLAY);
        for (text, is_same) in [("text", true), ("test", false)] {
            let recorded = recorded();
            recorded.recall_from(&(Arc::new(Says(text)) as Arc<dyn Recalls>));
            assert_eq!(recorded.answer().is_ok(), is_same);
        }
    }
}
