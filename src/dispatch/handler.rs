//! What an embedder implements.

use super::CallContext;
use crate::process::{Answer, Payload, Problem};
use serde::Deserialize;
use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Carries out the calls of one name.
///
/// A handler is shared by every run of a host and is called from many threads at once. It sees a call only when the call's
/// arguments fit its schema, its capability is granted, [`check_grant`](Self::check_grant) had no objection, and its limits
/// leave room. A panic in it is answered as `host-fault` and harms nobody else.
///
/// ```
/// use serde_json::json;
/// use std::sync::Arc;
/// use wfhost::dispatch::{CallContext, Declaration, Handler, Handling, arguments};
/// use wfhost::process::Payload;
///
/// /// Answers with the sum of two numbers. It waits for nothing, so it answers on the worker.
/// struct Add;
///
/// #[derive(serde::Deserialize)]
/// struct Terms {
///     a: i64,
///     b: i64,
/// }
///
/// impl Handler for Add {
///     fn declaration(&self) -> Declaration {
///         let number = json!({ "type": "integer", "minimum": -1_000_000, "maximum": 1_000_000 });
///         Declaration::new("Adds two numbers").repeatable().schema(json!({
///             "type": "object",
///             "properties": { "a": number, "b": number },
///             "required": ["a", "b"],
///         }))
///     }
///
///     fn handle(self: Arc<Self>, args: Payload, _: CallContext) -> Handling {
///         Handling::Now(arguments::<Terms>(&args).map(|t| Payload::json(&(t.a + t.b))).map_err(Arc::new))
///     }
/// }
/// ```
pub trait Handler: Send + Sync + 'static {
    /// What the dispatcher has to know before it hands over a call. It is asked once, when the registry is built.
    fn declaration(&self) -> Declaration;

    /// Whether this call may be sent again after an unknown outcome, under the same idempotency key. It is asked only where
    /// the declaration does not say so of every call, and before the arguments have been checked.
    fn is_repeatable(&self, args: &Payload) -> bool {
        let _ = args;
        false
    }

    /// Whether a pattern under the handler's capability means something. Asked when a workflow is validated.
    ///
    /// # Errors
    /// What is wrong with the pattern, for the one who wrote it.
    fn check_pattern(&self, pattern: &str) -> Result<(), String> {
        if pattern == "*" { Ok(()) } else { Err("the only pattern that this handler knows is `*`".into()) }
    }

    /// Whether a pattern asks for no more than the others grant: a spawn may only narrow what its parent has. The answer
    /// depends on nothing but the arguments.
    fn narrows(&self, granted: &[String], wanted: &str) -> bool {
        granted.iter().any(|pattern| pattern == "*" || pattern == wanted)
    }

    /// Whether the patterns that the workflow grants under the handler's capability cover this call.
    ///
    /// # Errors
    /// A problem, `not-granted` as a rule: the answer to the call.
    fn check_grant(&self, patterns: &[String], args: &Payload) -> Result<(), Problem> {
        let _ = args;
        if patterns.iter().any(|pattern| pattern == "*") {
            Ok(())
        } else {
            Err(super::problems::not_granted("the workflow grants this capability, but not with `*`"))
        }
    }

    /// The narrowest pattern that grants this call, for whoever wrote a workflow without it; none where the arguments do not tell.
    /// In their texts a `*` may stand for what is not known yet.
    fn pattern_for(&self, args: &Payload) -> Option<String> {
        let _ = args;
        Some("*".to_owned())
    }

    /// Carries out a call, or begins to. It runs on a worker of the scheduler and must neither wait nor make a system call;
    /// what does either belongs into the future of [`Handling::Later`].
    fn handle(self: Arc<Self>, args: Payload, context: CallContext) -> Handling;
}

/// What a handler makes of a call.
///
/// A problem's class tells what is known of the effect: an answer of class `uncertain` says that nobody knows whether it happened.
pub enum Handling {
    /// The answer.
    Now(Answer),
    /// The answer comes from this future, which runs on the handlers' tokio runtime. It is dropped when nobody waits for the
    /// answer any more.
    Later(Pin<Box<dyn Future<Output = Answer> + Send>>),
}

impl Handling {
    /// A call that waits for something.
    pub fn later(future: impl Future<Output = Answer> + Send + 'static) -> Self {
        Self::Later(Box::pin(future))
    }
}

impl std::fmt::Debug for Handling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Now(answer) => f.debug_tuple("Now").field(answer).finish(),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}

/// Reads a call's arguments.
///
/// # Errors
/// The problem `bad-arguments`: they are no JSON, or do not fit the type.
pub fn arguments<'a, T: Deserialize<'a>>(args: &'a Payload) -> Result<T, Problem> {
    let Payload::Json(json) = args else {
        return Err(super::problems::bad_arguments("the arguments must be JSON"));
    };
    serde_json::from_slice(json.as_bytes()).map_err(|error| {
        let text = super::problems::bounded(&error.to_string());
        super::problems::bad_arguments(&text)
    })
}

/// What the dispatcher knows of a handler.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Declaration {
    /// What it does, in a line.
    pub doc: Cow<'static, str>,
    /// The JSON Schema (draft 2020-12 unless it says another) of the arguments; none: anything is let through.
    pub schema: Option<serde_json::Value>,
    /// What a workflow must grant; none: every process may call it.
    pub capability: Option<Cow<'static, str>>,
    /// The arguments that [`Handler::check_grant`] looks at, so that it can be asked before the others are known; none: all of them.
    pub grant_arguments: Option<Cow<'static, [Cow<'static, str>]>>,
    /// Whether every call is safe to repeat.
    pub repeatable: bool,
    /// Calls that may run at one time.
    pub concurrent_max: usize,
    /// Calls that may wait for their turn; beyond it they are answered `too-many-calls`.
    pub waiting_max: usize,
    /// How often calls may begin; none: as often as they come.
    pub rate: Option<Rate>,
}

impl Declaration {
    /// A handler that takes any arguments, needs no grant, and is not safe to repeat. 256 calls may run at one time and
    /// 10,000 wait (both arbitrary).
    pub fn new(doc: impl Into<Cow<'static, str>>) -> Self {
        Self {
            doc: doc.into(),
            schema: None,
            capability: None,
            grant_arguments: None,
            repeatable: false,
            concurrent_max: 256,
            waiting_max: 10_000,
            rate: None,
        }
    }

    /// The same with a JSON Schema of the arguments. References out of it are refused: nothing is loaded from anywhere.
    #[must_use]
    pub fn schema(mut self, schema: serde_json::Value) -> Self {
        self.schema = Some(schema);
        self
    }

    /// The same, to be granted under this name.
    #[must_use]
    pub fn capability(mut self, capability: impl Into<Cow<'static, str>>) -> Self {
        self.capability = Some(capability.into());
        self
    }

    /// The same, where these arguments alone decide whether a grant covers a call.
    #[must_use]
    pub fn grant_arguments(mut self, names: impl IntoIterator<Item = impl Into<Cow<'static, str>>>) -> Self {
        self.grant_arguments = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// The same, with every call safe to repeat.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    /// The same, with at most this many calls that run and that wait.
    #[must_use]
    pub fn concurrency(mut self, concurrent_max: usize, waiting_max: usize) -> Self {
        self.concurrent_max = concurrent_max;
        self.waiting_max = waiting_max;
        self
    }

    /// The same with a bound on how often calls begin.
    #[must_use]
    pub fn rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }
}

/// How often calls may begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// The time from one call to the next, in the long run.
    pub interval: Duration,
    /// Calls that may begin at once after a rest.
    pub burst: u32,
}

impl Rate {
    /// So many calls in a second, and as many at once after a rest.
    #[must_use]
    pub fn per_second(calls: u32) -> Self {
        Self { interval: Duration::from_secs(1) / calls.max(1), burst: calls.max(1) }
    }
}

/// A handler made of a function that waits: see [`from_fn`].
struct AsyncFunction<F> {
    declaration: Declaration,
    function: F,
}

impl<F, Fut> Handler for AsyncFunction<F>
where
    F: Fn(Payload, CallContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Answer> + Send + 'static,
{
    fn declaration(&self) -> Declaration {
        self.declaration.clone()
    }

    fn handle(self: Arc<Self>, args: Payload, context: CallContext) -> Handling {
        // The function itself is called on the runtime, so that nothing of it can hold up a worker.
        Handling::later(async move { (self.function)(args, context).await })
    }
}

/// A handler made of an async function; it runs on the handlers' tokio runtime.
///
/// ```
/// use wfhost::dispatch::{Declaration, Rate, Registry, from_fn};
/// use wfhost::process::Payload;
///
/// let mail = Declaration::new("Sends a mail").capability("mail").concurrency(8, 100).rate(Rate::per_second(10));
/// let registry = Registry::builder()
///     .handler("mail", from_fn(mail, |args, context| async move {
///         context.message("mail.accepted", Payload::NULL);
///         Ok(args)
///     }))
///     .build()?;
/// assert!(registry.names().any(|name| name == "mail"));
/// # Ok::<_, wfhost::dispatch::RegistryError>(())
/// ```
pub fn from_fn<F, Fut>(declaration: Declaration, function: F) -> impl Handler
where
    F: Fn(Payload, CallContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Answer> + Send + 'static,
{
    AsyncFunction { declaration, function }
}

/// A handler made of a function that does not wait: see [`from_inline_fn`].
struct InlineFunction<F> {
    declaration: Declaration,
    function: F,
}

impl<F> Handler for InlineFunction<F>
where
    F: Fn(Payload, CallContext) -> Answer + Send + Sync + 'static,
{
    fn declaration(&self) -> Declaration {
        self.declaration.clone()
    }

    fn handle(self: Arc<Self>, args: Payload, context: CallContext) -> Handling {
        Handling::Now((self.function)(args, context))
    }
}

/// A handler made of a function that runs on the worker: it must neither wait nor make a system call.
///
/// ```
/// use wfhost::dispatch::{Declaration, Registry, from_inline_fn};
///
/// let echo = from_inline_fn(Declaration::new("Answers with its arguments").repeatable(), |args, _| Ok(args));
/// let registry = Registry::builder().handler("echo", echo).build()?;
/// # Ok::<_, wfhost::dispatch::RegistryError>(())
/// ```
pub fn from_inline_fn<F>(declaration: Declaration, function: F) -> impl Handler
where
    F: Fn(Payload, CallContext) -> Answer + Send + Sync + 'static,
{
    InlineFunction { declaration, function }
}
