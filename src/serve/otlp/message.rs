//! Spans as OTLP has them.

use super::messages::{self, Link, Status, integer, text};
use crate::host::{RunSpans, Span, SpanEnd, SpanKind, TraceContext, TraceId};

/// The span of a run that says, at once, that the run has begun.
pub(super) fn beginning(context: &TraceContext, run: &str, span: &Span) -> messages::Span {
    let mut begun = message(context, run, span);
    begun.parent_span_id = span.id.0.to_vec();
    begun.span_id = RunSpans::beginning_id(run).0.to_vec();
    "started".clone_into(&mut begun.name);
    begun
}

/// A span of a run as OTLP has it.
pub(super) fn message(context: &TraceContext, run: &str, span: &Span) -> messages::Span {
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
    let parent = span.parent.or(context.parent);
    messages::Span {
        trace_id: context.trace.0.to_vec(),
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
