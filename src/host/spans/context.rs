//! The place of a run in a trace: W3C Trace Context.

use super::{RunSpans, SpanId};
use crate::process::{Pid, Tag};
use std::fmt::Write as _;

/// Identifies a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceId(pub [u8; 16]);

impl TraceId {
    /// The trace of a run that was started outside of one.
    #[must_use]
    pub fn of_run(run: &str) -> Self {
        let mut hash = blake3::Hasher::new();
        hash.update(b"wfhost trace").update(run.as_bytes());
        let mut id = [0; 16];
        hash.finalize_xof().fill(&mut id);
        Self(id)
    }
}

/// The place of a run in a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceContext {
    /// The trace.
    pub trace: TraceId,
    /// The span that started the run, if it was started within a trace.
    pub parent: Option<SpanId>,
    /// Whether the trace is recorded.
    pub is_sampled: bool,
}

impl TraceContext {
    /// The context of a run that was started with this header `traceparent`. One that cannot be
    /// read counts as none.
    #[must_use]
    pub fn of_run(run: &str, traceparent: Option<&str>) -> Self {
        let none = Self { trace: TraceId::of_run(run), parent: None, is_sampled: true };
        traceparent.and_then(Self::read).unwrap_or(none)
    }

    /// Reads a header `traceparent`.
    #[must_use]
    pub fn read(header: &str) -> Option<Self> {
        let mut parts = header.trim().split('-');
        let [version] = bytes(parts.next()?)?;
        let (trace, parent) = (bytes::<16>(parts.next()?)?, bytes::<8>(parts.next()?)?);
        let [flags] = bytes(parts.next()?)?;
        // Later versions may have more parts; 255 is none.
        let has_more = version == 0 && parts.next().is_some();
        if version == 255 || has_more || trace == [0; 16] || parent == [0; 8] {
            return None;
        }
        Some(Self { trace: TraceId(trace), parent: Some(SpanId(parent)), is_sampled: flags & 1 == 1 })
    }

    /// The header `traceparent` of a request that a command of a run sends: the span of the command
    /// is the parent of what the server does.
    #[must_use]
    pub fn header(&self, run: &str, pid: Pid, tag: Tag) -> String {
        let mut header = String::from("00-");
        for (part, end) in [(&self.trace.0[..], '-'), (&RunSpans::command_id(run, pid, tag).0[..], '-')] {
            for byte in part {
                let _ = write!(header, "{byte:02x}");
            }
            header.push(end);
        }
        header.push_str(if self.is_sampled { "01" } else { "00" });
        header
    }
}

/// Reads that many bytes, each two digits in lower case.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_hex = text.len() == 2 * N && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !is_hex {
        return None;
    }
    let mut all = [0; N];
    for (at, byte) in all.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_header_is_read_as_the_standard_says() {
        let good = TraceContext::read(PARENT).unwrap();
        assert!(good.is_sampled && !TraceContext::read(&PARENT.replace("-01", "-00")).unwrap().is_sampled);
        assert_eq!(TraceContext::read("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what").unwrap(), good);
        for bad in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319é-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceContext::read(bad), None, "{bad}");
        }
        assert_eq!(TraceContext::of_run("r", Some("nonsense")).trace, TraceId::of_run("r"));
    }

    #[test]
    fn a_request_goes_on_the_trace() {
        let context = TraceContext::of_run("r", Some(PARENT));
        let header = context.header("r", Pid(2), Tag(3));
        let sent = TraceContext::read(&header).unwrap();
        assert_eq!((sent.trace, sent.is_sampled), (context.trace, true));
        assert_eq!(sent.parent, Some(RunSpans::command_id("r", Pid(2), Tag(3))));
    }
}
