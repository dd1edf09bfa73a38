//! The place of a run in a trace: W3C Trace Context, and spans as OTLP has them.

use super::messages::{self, Link, Status, integer, text};
use crate::host::{RunSpans, Span, SpanEnd, SpanId, SpanKind};

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

    /// The span of a run that says, at once, that the run has begun.
    pub(super) fn beginning(&self, run: &str, span: &Span) -> messages::Span {
        let mut message = self.message(run, span);
        message.parent_span_id = span.id.0.to_vec();
        message.span_id = RunSpans::beginning_id(run).0.to_vec();
        message.name = "started".to_owned();
        message
    }

    /// A span of a run as OTLP has it.
    pub(super) fn message(&self, run: &str, span: &Span) -> messages::Span {
        let mut attributes = vec![
            text("wfhost.run", run),
            text("wfhost.kind", span.kind.word()),
            text("wfhost.end", span.end.word()),
            integer("wfhost.pid", span.pid.0),
        ];
        attributes.extend(span.tag.map(|tag| integer("wfhost.tag", tag.0)));
        if let SpanKind::Call { handler } = &span.kind {
            attributes.push(text("wfhost.handler", &**handler));
        }
        let mut links = Vec::new();
        if let SpanKind::Run { origin: Some(origin) } = &span.kind {
            attributes.push(text("wfhost.made_from", &**origin));
            let span_id = RunSpans::root_id(origin).0.to_vec();
            links.push(Link { trace_id: TraceId::of_run(origin).0.to_vec(), span_id });
        }
        let status = match &span.end {
            SpanEnd::Failed(kind) => Some(Status { message: kind.clone(), code: 2 }),
            SpanEnd::Succeeded => Some(Status { message: String::new(), code: 1 }),
            SpanEnd::Open | SpanEnd::Cancelled => None,
        };
        let parent = span.parent.or(self.parent);
        messages::Span {
            trace_id: self.trace.0.to_vec(),
            span_id: span.id.0.to_vec(),
            parent_span_id: parent.map(|parent| parent.0.to_vec()).unwrap_or_default(),
            name: span.name.clone(),
            kind: match &span.kind {
                SpanKind::Run { .. } => 2,
                SpanKind::Call { .. } => 3,
                _ => 1,
            },
            start_time_unix_nano: span.from.0.saturating_mul(1_000),
            end_time_unix_nano: span.to.0.saturating_mul(1_000),
            attributes,
            links,
            status,
            flags: 1,
        }
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
