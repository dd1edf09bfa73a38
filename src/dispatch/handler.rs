//! The trait that an embedder implements.

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
/// A handler is shared by every run of a host and is called from many threads at once. It sees a
/// call only if the call's arguments fit its schema, its capability is granted,
/// [`check_grant`](Self::check_grant) passed, and its limits leave room. A panic in it is answered
/// as `host-fault` and harms no other call.
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
///         let sum = arguments::<Terms>(&args).map(|terms| Payload::json(&(terms.a + terms.b)));
///         Handling::Now(sum.map_err(Arc::new))
///     }
/// }
/// ```
pub trait Handler: Send + Sync + 'static {
    /// Returns what the dispatcher must know before a call. Called once, when the registry is
    /// built.
    fn declaration(&self) -> Declaration;

    /// Returns whether this call may be sent again after an unknown outcome, under the same
    /// idempotency key. Called before the arguments have been checked, and only if the declaration
    /// does not say so of every call.
    fn is_repeatable(&self, args: &Payload) -> bool {
        let _ = args;
        false
    }

    /// Checks a pattern under the handler's capability. Called when a workflow is validated.
    ///
    /// # Errors
    /// The fault in the pattern, for its author.
    fn check_pattern(&self, pattern: &str) -> Result<(), String> {
        if pattern == "*" { Ok(()) } else { Err("the only pattern that this handler knows is `*`".into()) }
    }

    /// Returns whether a pattern asks for no more than the others grant: a spawn may only narrow
    /// the grants of its parent. The result depends on nothing but the arguments.
    fn narrows(&self, granted: &[String], wanted: &str) -> bool {
        granted.iter().any(|pattern| pattern == "*" || pattern == wanted)
    }

    /// Checks whether the patterns that the workflow grants under the handler's capability cover
    /// this call.
    ///
    /// # Errors
    /// The problem that answers the call, as a rule `not-granted`.
    fn check_grant(&self, patterns: &[String], args: &Payload) -> Result<(), Problem> {
        let _ = args;
        if patterns.iter().any(|pattern| pattern == "*") {
            Ok(())
        } else {
            Err(super::problems::not_granted("the workflow grants this capability, but not with `*`"))
        }
    }

    /// Returns the narrowest pattern that grants this call, for the author of a workflow that lacks
    /// it; `None` if it does not follow from the arguments. In their texts a `*` may stand for a
    /// part that is not known yet.
    fn pattern_for(&self, args: &Payload) -> Option<String> {
        let _ = args;
        Some("*".to_owned())
    }

    /// Carries out a call, or begins to. It runs on a worker of the scheduler and must neither wait
    /// nor make a system call; work that does either belongs in the future of [`Handling::Later`].
    fn handle(self: Arc<Self>, args: Payload, context: CallContext) -> Handling;
}

/// How a handler answers a call.
///
/// A problem's class says what is known of the effect: class `uncertain` means that the outcome is
/// unknown.
pub enum Handling {
    /// The answer, at once.
    Now(Answer),
    /// A future of the answer, which runs on the handlers' tokio runtime. It is dropped when the
    /// answer is no longer awaited.
    Later(Pin<Box<dyn Future<Output = Answer> + Send>>),
}

impl Handling {
    /// Wraps the future of a call that waits.
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
/// The problem `bad-arguments`: they are not JSON, or do not fit the type.
pub fn arguments<'a, T: Deserialize<'a>>(args: &'a Payload) -> Result<T, Problem> {
    let Payload::Json(json) = args else {
        return Err(super::problems::bad_arguments("the arguments must be JSON"));
    };
    serde_json::from_slice(json.as_bytes()).map_err(|error| {
        let text = super::problems::bounded(&error.to_string());
        super::problems::bad_arguments(&text)
    })
}

/// Describes a handler to the dispatcher.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Declaration {
    /// The handler's purpose, in one line.
    pub doc: Cow<'static, str>,
    /// The JSON Schema of the arguments (draft 2020-12 unless it names another); `None` accepts
    /// any.
    pub schema: Option<serde_json::Value>,
    /// The capability that a workflow must grant; `None` if every process may call the handler.
    pub capability: Option<Cow<'static, str>>,
    /// The arguments that [`Handler::check_grant`] reads, so that it can be called before the
    /// others are known; `None` if it reads all of them.
    pub grant_arguments: Option<Cow<'static, [Cow<'static, str>]>>,
    /// Whether every call is safe to repeat.
    pub repeatable: bool,
    /// Whether arguments that are bytes are taken too. The schema says nothing about them.
    pub takes_bytes: bool,
    /// Calls that may run at one time.
    pub concurrent_max: usize,
    /// Calls that may be queued; any more are answered `too-many-calls`.
    pub waiting_max: usize,
    /// How often calls may begin; `None` if without limit.
    pub rate: Option<Rate>,
}

impl Declaration {
    /// Declares a handler that accepts any arguments, needs no grant, and is not safe to repeat.
    /// 256 calls may run at one time and 10,000 wait (both arbitrary).
    pub fn new(doc: impl Into<Cow<'static, str>>) -> Self {
        Self {
            doc: doc.into(),
            schema: None,
            capability: None,
            grant_arguments: None,
            repeatable: false,
            takes_bytes: false,
            concurrent_max: 256,
            waiting_max: 10_000,
            rate: None,
        }
    }

    /// Sets the JSON Schema of the arguments. References to outside it are refused: nothing is
    /// loaded.
    #[must_use]
    pub fn schema(mut self, schema: serde_json::Value) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Sets the capability under which the handler is granted.
    #[must_use]
    pub fn capability(mut self, capability: impl Into<Cow<'static, str>>) -> Self {
        self.capability = Some(capability.into());
        self
    }

    /// Names the arguments that alone decide whether a grant covers a call.
    #[must_use]
    pub fn grant_arguments(mut self, names: impl IntoIterator<Item = impl Into<Cow<'static, str>>>) -> Self {
        self.grant_arguments = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Declares every call safe to repeat.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    /// Takes arguments that are bytes, too.
    #[must_use]
    pub fn takes_bytes(mut self) -> Self {
        self.takes_bytes = true;
        self
    }

    /// Sets how many calls may run and how many may wait.
    #[must_use]
    pub fn concurrency(mut self, concurrent_max: usize, waiting_max: usize) -> Self {
        self.concurrent_max = concurrent_max;
        self.waiting_max = waiting_max;
        self
    }

    /// Bounds how often calls begin.
    #[must_use]
    pub fn rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }
}

/// How often calls may begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// The mean time from one call to the next.
    pub interval: Duration,
    /// Calls that may begin at once after a pause.
    pub burst: u32,
}

impl Rate {
    /// Allows this many calls a second, and as many at once after a pause.
    #[must_use]
    pub fn per_second(calls: u32) -> Self {
        Self { interval: Duration::from_secs(1) / calls.max(1), burst: calls.max(1) }
    }
}

/// A handler made from a function that waits: see [`from_fn`].
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
        // The function itself is called on the runtime, so that no part of it can delay a worker.
        Handling::later(async move { (self.function)(args, context).await })
    }
}

/// Makes a handler from an async function, which runs on the handlers' tokio runtime.
///
/// ```
/// use wfhost::dispatch::{Declaration, Rate, Registry, from_fn};
/// use wfhost::process::Payload;
///
/// let mail = Declaration::new("Sends a mail")
///     .capability("mail")
///     .concurrency(8, 100)
///     .rate(Rate::per_second(10));
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

/// A handler made from a function that does not wait: see [`from_inline_fn`].
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

/// Makes a handler from a function that runs on the worker: it must neither wait nor make a system
/// call.
///
/// ```
/// use wfhost::dispatch::{Declaration, Registry, from_inline_fn};
///
/// let echo = Declaration::new("Answers with its arguments").repeatable();
/// let echo = from_inline_fn(echo, |args, _| Ok(args));
/// let registry = Registry::builder().handler("echo", echo).build()?;
/// # Ok::<_, wfhost::dispatch::RegistryError>(())
/// ```
pub fn from_inline_fn<F>(declaration: Declaration, function: F) -> impl Handler
where
    F: Fn(Payload, CallContext) -> Answer + Send + Sync + 'static,
{
    InlineFunction { declaration, function }
}
