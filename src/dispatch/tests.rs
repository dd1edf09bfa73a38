//! The dispatcher with handlers that the test controls.

use super::*;
use crate::process::problem::kind as base;
use crate::process::{
    Answer, Grants, Level, Limits, LogLine, Message, Micros, Payload, Pid, Problem, ProblemClass, Sender, Tag,
};
use crate::run::{Dispatched, Effects, OutgoingCall, Reply};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};

/// The receiving end of a call.
struct Inbox {
    answers: mpsc::Sender<Answer>,
    messages: mpsc::Sender<Message>,
    is_abandoned: AtomicBool,
}

struct Waiting {
    inbox: Arc<Inbox>,
    answers: mpsc::Receiver<Answer>,
    messages: mpsc::Receiver<Message>,
}

impl Reply for Inbox {
    fn answer(&self, answer: Answer) {
        let _ = self.answers.send(answer);
    }

    fn message(&self, message: Message) -> bool {
        self.messages.send(message).is_ok()
    }

    fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Acquire)
    }
}

impl Waiting {
    fn new() -> Self {
        let (answers, got_answers) = mpsc::channel();
        let (messages, got_messages) = mpsc::channel();
        let inbox = Arc::new(Inbox { answers, messages, is_abandoned: AtomicBool::new(false) });
        Self { inbox, answers: got_answers, messages: got_messages }
    }

    /// Waits for the answer. The bound only keeps a broken test from hanging.
    fn answer(&self) -> Answer {
        self.answers.recv_timeout(Duration::from_mins(1)).expect("an answer comes")
    }

    /// Waits until no answer can come any more. Returns whether none has come.
    fn stays_without(self) -> bool {
        let Self { inbox, answers, .. } = self;
        drop(inbox);
        matches!(answers.recv_timeout(Duration::from_mins(1)), Err(mpsc::RecvTimeoutError::Disconnected))
    }
}

fn call(handler: &str, tag: u64, args: Payload) -> OutgoingCall {
    let grants = BTreeMap::from([("thing".to_owned(), vec!["*".to_owned()]), ("none".to_owned(), Vec::new())]);
    OutgoingCall {
        run: "run".into(),
        pid: Pid(7),
        tag: Tag(tag),
        scope: Some("node/0/0".into()),
        handler: handler.into(),
        args,
        timeout: Some(Micros(1)),
        idempotency_key: format!("run/{tag}").into(),
        grants: Grants(Arc::new(grants)),
        limits: Arc::new(Limits::default()),
        traceparent: None,
    }
}

fn dispatcher(handlers: Vec<(&str, Arc<dyn Handler>)>) -> Dispatcher {
    let builder = handlers.into_iter().fold(Registry::builder(), |builder, (name, h)| builder.shared(name, h));
    Dispatcher::new(builder.build().unwrap())
}

fn now(dispatched: Dispatched) -> Answer {
    match dispatched {
        Dispatched::Answered(answer) => answer,
        Dispatched::Pending => panic!("the answer should be here already"),
    }
}

fn send(dispatcher: &Dispatcher, call: OutgoingCall) -> Waiting {
    let waiting = Waiting::new();
    let dispatched = dispatcher.dispatch(call, waiting.inbox.clone());
    assert!(matches!(dispatched, Dispatched::Pending), "{dispatched:?}");
    waiting
}

fn refused(dispatcher: &Dispatcher, call: OutgoingCall) -> Problem {
    Arc::unwrap_or_clone(now(dispatcher.dispatch(call, Waiting::new().inbox)).unwrap_err())
}

/// A handler whose calls wait until the test releases them.
fn held(declaration: Declaration) -> (Arc<dyn Handler>, Arc<Semaphore>, mpsc::Receiver<u64>) {
    let (begun, begins) = mpsc::channel();
    let gate = Arc::new(Semaphore::new(0));
    let held_by = gate.clone();
    let handler = from_fn(declaration, move |args, context| {
        let (gate, begun) = (held_by.clone(), begun.clone());
        async move {
            let _ = begun.send(context.tag().0);
            gate.acquire().await.unwrap().forget();
            Ok(args)
        }
    });
    (Arc::new(handler), gate, begins)
}

fn begin(begins: &mpsc::Receiver<u64>) -> u64 {
    begins.recv_timeout(Duration::from_mins(1)).expect("the handler begins")
}

#[test]
fn an_inline_handler_answers_on_the_spot() {
    let d = dispatcher(vec![("echo", Arc::new(from_inline_fn(Declaration::new(""), |args, _| Ok(args))))]);
    let args = Payload::json(&json!([1, 2]));
    assert_eq!(now(d.dispatch(call("echo", 1, args.clone()), Waiting::new().inbox)), Ok(args));
    let figures = &d.statistics()["echo"];
    assert_eq!((figures.calls, figures.answered, figures.running), (1, 1, 0));
}

#[test]
fn a_call_that_no_handler_may_see_is_answered_with_a_problem() {
    let thing = Declaration::new("").capability("thing").schema(json!({ "type": "object" }));
    let d = dispatcher(vec![
        ("thing", Arc::new(from_inline_fn(thing, |args, _| Ok(args)))),
        ("other", Arc::new(from_inline_fn(Declaration::new("").capability("other"), |args, _| Ok(args)))),
        ("none", Arc::new(from_inline_fn(Declaration::new("").capability("none"), |args, _| Ok(args)))),
    ]);
    let unknown = refused(&d, call("thang", 1, Payload::NULL));
    assert_eq!(unknown.kind, base::UNKNOWN_HANDLER);
    assert!(unknown.detail.unwrap().contains("thing"));
    assert_eq!(refused(&d, call("thing", 2, Payload::json(&1))).kind, base::BAD_ARGUMENTS);
    assert_eq!(refused(&d, call("other", 3, Payload::NULL)).kind, base::NOT_GRANTED);
    assert_eq!(refused(&d, call("none", 4, Payload::NULL)).kind, base::NOT_GRANTED);
    assert!(now(d.dispatch(call("thing", 5, Payload::json(&json!({}))), Waiting::new().inbox)).is_ok());
    assert_eq!(d.statistics()["thing"].refused, 1);
}

#[test]
fn a_waiting_handler_answers_later_and_sends_messages_before() {
    let handler = from_fn(Declaration::new(""), |args, context: CallContext| async move {
        assert!(context.message("progress", Payload::json(&50)));
        assert!(!context.message("progress", Payload::Bytes(vec![0; 2 << 20].into())));
        Ok(args)
    });
    let d = dispatcher(vec![("slow", Arc::new(handler))]);
    let waiting = send(&d, call("slow", 9, Payload::json(&1)));
    assert_eq!(waiting.answer(), Ok(Payload::json(&1)));
    let messages: Vec<Message> = waiting.messages.try_iter().collect();
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].sender, Sender::Call(Tag(9)));
}

#[test]
fn a_panic_is_the_hosts_fault_and_harms_no_other_call() {
    let once = Declaration::new("");
    let often = Declaration::new("").repeatable();
    let later = |declaration| {
        from_fn(
            declaration,
            |args, _| async move { if args == Payload::NULL { panic!("on purpose") } else { Ok(args) } },
        )
    };
    let d = dispatcher(vec![
        ("inline", Arc::new(from_inline_fn(once.clone(), |_, _| panic!("on purpose")))),
        ("once", Arc::new(later(once))),
        ("often", Arc::new(later(often))),
    ]);
    let inline = refused(&d, call("inline", 1, Payload::NULL));
    assert_eq!((inline.kind.as_ref(), inline.class), (base::HOST_FAULT, ProblemClass::Uncertain));
    let once = send(&d, call("once", 2, Payload::NULL)).answer().unwrap_err();
    assert_eq!((once.kind.as_ref(), once.class), (base::HOST_FAULT, ProblemClass::Uncertain));
    let often = send(&d, call("often", 3, Payload::NULL)).answer().unwrap_err();
    assert_eq!((often.kind.as_ref(), often.class), (base::HOST_FAULT, ProblemClass::Retryable));
    assert!(send(&d, call("once", 4, Payload::json(&1))).answer().is_ok());
    assert_eq!(d.statistics()["once"].faults, 1);
}

#[test]
fn an_abandoned_call_is_dropped_and_never_answered() {
    struct NotifyOnDrop(Arc<Notify>);
    impl Drop for NotifyOnDrop {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let dropped = Arc::new(Notify::new());
    let (begun, begins) = mpsc::channel();
    let notify = dropped.clone();
    let handler = from_fn(Declaration::new(""), move |_, context: CallContext| {
        let (notify, begun) = (NotifyOnDrop(notify.clone()), begun.clone());
        async move {
            let _notify = notify;
            let _ = begun.send(context.tag().0);
            std::future::pending::<Answer>().await
        }
    });
    let d = dispatcher(vec![("held", Arc::new(handler))]);
    let waiting = send(&d, call("held", 1, Payload::NULL));
    begin(&begins);
    d.abandon("another run", Pid(7), Tag(1));
    d.abandon("run", Pid(7), Tag(2));
    assert_eq!(d.in_flight(), 1);
    d.abandon("run", Pid(7), Tag(1));
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(dropped.notified());
    assert!(waiting.stays_without());
    assert_eq!(d.in_flight(), 0);
    assert_eq!(d.statistics()["held"].abandoned, 1);
}

#[test]
fn a_call_that_was_abandoned_before_its_dispatch_never_begins() {
    let (handler, _gate, begins) = held(Declaration::new(""));
    let d = dispatcher(vec![("held", handler)]);
    let waiting = Waiting::new();
    waiting.inbox.is_abandoned.store(true, Ordering::Release);
    d.abandon("run", Pid(7), Tag(1));
    assert!(matches!(d.dispatch(call("held", 1, Payload::NULL), waiting.inbox.clone()), Dispatched::Pending));
    assert!(waiting.stays_without());
    assert!(begins.try_recv().is_err());
    assert_eq!(d.in_flight(), 0);
}

#[test]
fn calls_beyond_the_limits_wait_and_then_are_refused() {
    let (handler, gate, begins) = held(Declaration::new("").concurrency(2, 3));
    let d = dispatcher(vec![("held", handler)]);
    let waiting: Vec<Waiting> = (1..=5).map(|tag| send(&d, call("held", tag, Payload::NULL))).collect();
    let full = refused(&d, call("held", 6, Payload::NULL));
    assert_eq!((full.kind.as_ref(), full.class), (kind::TOO_MANY_CALLS, ProblemClass::Retryable));
    assert!(full.retry_after.is_some());
    assert_eq!(begin(&begins) + begin(&begins), 3);
    assert_eq!(d.statistics()["held"].waiting, 3);
    // A queued call is abandoned: it makes room and never begins.
    d.abandon("run", Pid(7), Tag(4));
    gate.add_permits(4);
    let mut order: Vec<u64> = (0..2).map(|_| begin(&begins)).collect();
    order.sort_unstable();
    assert_eq!(order, [3, 5]);
    for (index, waiting) in waiting.into_iter().enumerate() {
        if index == 3 {
            assert!(waiting.stays_without());
        } else {
            assert!(waiting.answer().is_ok());
        }
    }
    assert!(begins.try_recv().is_err());
}

#[test]
fn a_rate_admits_a_burst_and_makes_the_rest_wait() {
    let rate = Rate { interval: Duration::from_hours(1), burst: 2 };
    let declaration = Declaration::new("").rate(rate).concurrency(10, 1);
    let d = dispatcher(vec![("rated", Arc::new(from_inline_fn(declaration, |args, _| Ok(args))))]);
    for tag in 1..=2 {
        assert!(now(d.dispatch(call("rated", tag, Payload::NULL), Waiting::new().inbox)).is_ok());
    }
    let waiting = send(&d, call("rated", 3, Payload::NULL));
    let full = refused(&d, call("rated", 4, Payload::NULL));
    assert!(full.retry_after.unwrap() > Micros::from(Duration::from_mins(50)));
    d.abandon("run", Pid(7), Tag(3));
    assert!(waiting.stays_without());
}

#[test]
fn large_arguments_are_checked_on_another_thread_with_the_same_answers() {
    let declaration = Declaration::new("").schema(json!({ "type": "array", "items": { "type": "integer" } }));
    let d = dispatcher(vec![("sum", Arc::new(from_inline_fn(declaration, |args, _| Ok(args))))]);
    let mut numbers = vec![json!(1); 100_000];
    let good = Payload::json(&numbers);
    assert_eq!(send(&d, call("sum", 1, good.clone())).answer(), Ok(good));
    numbers[77_777] = json!("one");
    let problem = send(&d, call("sum", 2, Payload::json(&numbers))).answer().unwrap_err();
    assert_eq!(problem.kind, base::BAD_ARGUMENTS);
    assert!(problem.detail.as_ref().unwrap().contains("/77777"));
    assert_eq!(d.statistics()["sum"].refused, 1);
}

#[test]
fn a_handler_sees_no_call_beyond_the_patterns_that_are_granted() {
    let seen = Arc::new(AtomicBool::new(false));
    let sees = Arc::clone(&seen);
    let thing = from_inline_fn(Declaration::new("").capability("thing"), move |args, _| {
        sees.store(true, Ordering::Release);
        Ok(args)
    });
    let d = dispatcher(vec![("thing", Arc::new(thing))]);
    // The calls of this handler are granted by `*` only.
    let call = |args| {
        let grants = BTreeMap::from([("thing".to_owned(), vec!["x".to_owned()])]);
        OutgoingCall { grants: Grants(Arc::new(grants)), ..call("thing", 1, args) }
    };
    assert_eq!(refused(&d, call(Payload::NULL)).kind, base::NOT_GRANTED);
    let large = Payload::json(&vec![1; 100_000]);
    assert_eq!(send(&d, call(large)).answer().unwrap_err().kind, base::NOT_GRANTED);
    assert!(!seen.load(Ordering::Acquire));
}

#[test]
fn an_answer_beyond_the_limit_becomes_a_problem() {
    let large = |_, _: CallContext| Ok(Payload::Bytes(vec![0; 2 << 20].into()));
    let d = dispatcher(vec![("large", Arc::new(from_inline_fn(Declaration::new(""), large)))]);
    let problem = refused(&d, call("large", 1, Payload::NULL));
    assert_eq!((problem.kind.as_ref(), problem.class), (base::TOO_LARGE, ProblemClass::Uncertain));
}

#[test]
fn dropping_the_dispatcher_answers_what_is_in_flight() {
    let (handler, _gate, begins) = held(Declaration::new("").concurrency(1, 1));
    let d = dispatcher(vec![("held", handler)]);
    let running = send(&d, call("held", 1, Payload::NULL));
    begin(&begins);
    let queued = send(&d, call("held", 2, Payload::NULL));
    drop(d);
    let problem = running.answer().unwrap_err();
    assert_eq!((problem.kind.as_ref(), problem.class), (base::HOST_FAULT, ProblemClass::Uncertain));
    // The handler never saw this one.
    assert_eq!(queued.answer().unwrap_err().class, ProblemClass::Retryable);
}

#[test]
fn a_dispatcher_can_be_dropped_in_async_context_and_on_a_given_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (handler, gate, _begins) = held(Declaration::new(""));
    let own = dispatcher(vec![("held", handler.clone())]);
    let registry = Registry::builder().shared("held", handler).build().unwrap();
    let given = Dispatcher::on_runtime(registry, runtime.handle().clone());
    gate.add_permits(1);
    assert!(send(&own, call("held", 1, Payload::NULL)).answer().is_ok());
    let waiting = send(&given, call("held", 1, Payload::NULL));
    runtime.block_on(async move {
        drop(own);
        drop(given);
    });
    assert_eq!(waiting.answer().unwrap_err().kind, base::HOST_FAULT);
}

#[test]
fn a_call_is_repeatable_if_its_handler_says_so() {
    let d = dispatcher(vec![
        ("once", Arc::new(from_inline_fn(Declaration::new(""), |args, _| Ok(args)))),
        ("often", Arc::new(from_inline_fn(Declaration::new("").repeatable(), |args, _| Ok(args)))),
    ]);
    assert!(!d.is_repeatable("once", &Payload::NULL));
    assert!(d.is_repeatable("often", &Payload::NULL));
    assert!(d.is_repeatable("unknown", &Payload::NULL));
}

#[test]
fn a_registry_refuses_handlers_that_cannot_work() {
    let echo = |declaration| from_inline_fn(declaration, |args, _| Ok(args));
    let one = || echo(Declaration::new(""));
    let build = |builder: RegistryBuilder| builder.build().unwrap_err();
    let twice = build(Registry::builder().handler("a", one()).handler("a", one()));
    assert!(matches!(twice, RegistryError::Duplicate { .. }));
    for name in ["", "A", "a b", &"a".repeat(129)] {
        assert!(matches!(build(Registry::builder().handler(name, one())), RegistryError::BadName { .. }));
    }
    let schema = echo(Declaration::new("").schema(json!({ "type": 1 })));
    assert!(matches!(build(Registry::builder().handler("a", schema)), RegistryError::BadSchema { .. }));
    let never = echo(Declaration::new("").concurrency(0, 1));
    assert!(matches!(build(Registry::builder().handler("a", never)), RegistryError::NoConcurrency { .. }));
}

#[test]
fn patterns_of_a_capability_are_checked_and_narrowed_by_its_handler() {
    let thing = Declaration::new("").capability("thing");
    let d = dispatcher(vec![("a", Arc::new(from_inline_fn(thing, |args, _| Ok(args))))]);
    assert!(d.registry().check_pattern("thing", "*").is_ok());
    assert!(d.registry().check_pattern("thing", "x").is_err());
    assert!(d.registry().check_pattern("thang", "*").is_err());
    assert!(d.narrows("thing", &["*".into()], "x"));
    assert!(!d.narrows("thing", &["y".into()], "x"));
}

#[test]
fn log_writes_a_line() {
    let lines = Arc::new(Mutex::new(Vec::<(String, LogLine)>::new()));
    let sink = lines.clone();
    let log = Log::new(move |call: &CallContext, line: LogLine| {
        let from = format!("{} {:?}", call.pid(), call.scope());
        sink.lock().unwrap().push((from, line));
    });
    let d = dispatcher(vec![("log", Arc::new(log))]);
    let send = |args: serde_json::Value| now(d.dispatch(call("log", 1, Payload::json(&args)), Waiting::new().inbox));
    assert_eq!(send(json!({ "message": "a", "level": "warn", "fields": { "n": 1 } })), Ok(Payload::NULL));
    assert_eq!(send(json!({ "message": "b" })), Ok(Payload::NULL));
    assert_eq!(send(json!({ "message": 1 })).unwrap_err().kind, base::BAD_ARGUMENTS);
    assert_eq!(send(json!({ "message": "x".repeat(65_000) })), Ok(Payload::NULL));
    let lines = lines.lock().unwrap();
    assert_eq!(lines.len(), 3);
    let (from, line) = &lines[0];
    assert_eq!((from.as_str(), line.level, line.text.as_str()), ("7 Some(\"node/0/0\")", Level::Warn, "a"));
    assert_eq!(lines[0].1.fields.as_ref().unwrap().as_str(), r#"{"n":1}"#);
    assert_eq!(lines[1].1.level, Level::Info);
}
