//! The engine: the compiled component, the pool of warm instances, and the choice between them and
//! the native path.
//!
//! A call takes a warm instance, preferably one that has the filter, or makes a fresh one. An
//! instance serves one call at a time. It is dropped if it trapped, or holds too many filters or
//! too much memory; otherwise it returns to the pool, if there is room. A trap on a warm instance
//! decides nothing: the call is repeated on a fresh one, whose outcome depends on the expression
//! and its input alone (I2 of [the room](super)).

use super::config::EngineConfig;
use super::instance::{Budget, Failure, Instance, InstanceTemplate};
use super::{CompileError, EXPRESSION_BYTES_MAX, EngineError, EvalProblem, Expression, Meter, Scope, Size, depth};
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::{Arc, OnceLock};
use wasmtime::component::Component;
use wasmtime::{Config, Engine};

/// jq 1.8.2. `guests/jq/README.md` describes how it is built.
static COMPONENT: &[u8] = include_bytes!("../../../guests/jq/jq-1.8.2.wasm");

/// Its BLAKE3 digest, a constant so that no start computes it; a test does.
const DIGEST: &str = "d0f5699d86b7da93181324b49491306fe753ece3489d1d766a32db40cc90fd3c";

/// The prefix of the names that serde_json reserves.
const RESERVED: &str = "$serde_json::private::";

/// The stack of wasm calls. C has another of the same size in the component's memory.
const WASM_STACK_BYTES: usize = 512 * 1024;

/// The source of the component's compiled code: a cache on disk, or the compiler.
pub trait CompiledCode {
    /// Returns the component of these bytes, compiled for that engine.
    ///
    /// # Errors
    /// Says why there is none, for people.
    fn load_or_compile(&self, engine: &Engine, wasm: &[u8]) -> Result<Component, String>;
}

/// Compiles in this process.
struct InProcess;

impl CompiledCode for InProcess {
    fn load_or_compile(&self, engine: &Engine, wasm: &[u8]) -> Result<Component, String> {
        Component::from_binary(engine, wasm).map_err(|error| format!("{error:#}"))
    }
}

/// A filter that jq has accepted. Cloning it is cheap; it outlives the instance that compiled it.
#[derive(Clone, Debug)]
pub struct Filter {
    text: Arc<str>,
}

impl Filter {
    /// The text of the filter.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// jq in the sandbox. Calls are synchronous and may come from any thread.
///
/// The engine is made on first use: plain paths and literals never need it.
pub struct Jq {
    config: EngineConfig,
    code: Box<dyn CompiledCode + Send + Sync>,
    template: OnceLock<Result<InstanceTemplate, EngineError>>,
    warm: Mutex<Vec<Instance>>,
}

impl Jq {
    /// Makes the engine of the embedded component, compiled in this process at once, which takes
    /// about half a second.
    ///
    /// # Errors
    /// Fails if the component cannot be compiled.
    pub fn new(config: EngineConfig) -> Result<Self, EngineError> {
        let jq = Self::with_code(config, InProcess);
        jq.template().map(|_| ()).map_err(Clone::clone)?;
        Ok(jq)
    }

    /// Makes the engine of the embedded component, whose compiled code is loaded on first use. If
    /// that fails, each expression that needs it fails with the reason.
    pub fn with_code(config: EngineConfig, code: impl CompiledCode + Send + Sync + 'static) -> Self {
        Self { config, code: Box::new(code), template: OnceLock::new(), warm: Mutex::default() }
    }

    fn template(&self) -> Result<&InstanceTemplate, &EngineError> {
        let make = || {
            let host = |error: wasmtime::Error| EngineError(format!("{error:#}"));
            let engine = Engine::new(&engine_config()).map_err(host)?;
            let component = self.code.load_or_compile(&engine, COMPONENT).map_err(EngineError)?;
            InstanceTemplate::new(engine, &component).map_err(host)
        };
        self.template.get_or_init(make).as_ref()
    }

    /// The digest of the component (BLAKE3, hexadecimal), which fixes the meaning of expressions in
    /// a run.
    #[must_use]
    pub fn digest(&self) -> &'static str {
        DIGEST
    }

    /// Compiles the text of a filter.
    ///
    /// # Errors
    /// Returns all errors that jq finds, each with its span.
    pub fn compile(&self, text: &str) -> Result<Filter, Vec<CompileError>> {
        if text.len() > EXPRESSION_BYTES_MAX {
            let message = format!("the expression is longer than {EXPRESSION_BYTES_MAX} bytes");
            return Err(vec![CompileError { message, span: 0..text.len() }]);
        }
        let text: Arc<str> = text.into();
        let compiled = self.on_an_instance(&text, |instance| instance.compile(&text, &self.config).map(|_| ()));
        match compiled {
            Ok(()) => Ok(Filter { text }),
            Err(Failure::Ordinary(errors)) => Err(errors),
            Err(Failure::Trapped(problem)) => {
                let message = format!("jq could not compile it: {problem}");
                Err(vec![CompileError { message, span: 0..text.len() }])
            }
        }
    }

    /// Evaluates a filter on a JSON text. The outputs are JSON texts without white space, as from
    /// `jq -c`.
    ///
    /// # Errors
    /// See [`EvalProblem`].
    pub fn evaluate_text(&self, filter: &Filter, input: &[u8]) -> Result<Vec<String>, EvalProblem> {
        // jq accepts more than JSON, and nests deeper than this host.
        serde_json::from_slice::<serde::de::IgnoredAny>(input)
            .map_err(|error| EvalProblem::BadInput(error.to_string()))?;
        depth::check_input(depth::of_text(input))?;
        self.run(&filter.text, input, &Meter::default())
    }

    /// Checks with jq that an expression is valid. A plain path or a literal needs no check.
    ///
    /// # Errors
    /// Returns all errors that jq finds, each with its span.
    pub fn check(&self, expression: &Expression) -> Result<(), Vec<CompileError>> {
        match expression.parsed.native {
            Some(_) => Ok(()),
            None => self.compile(expression.text()).map(|_| ()),
        }
    }

    /// Evaluates an expression on what it refers to: natively if it is a plain path or a literal,
    /// otherwise in the sandbox.
    ///
    /// # Errors
    /// See [`EvalProblem`].
    pub fn evaluate(&self, expression: &Expression, scope: &Scope<'_>) -> Result<Vec<Value>, EvalProblem> {
        self.evaluate_metered(expression, scope, &Meter::default())
    }

    fn evaluate_metered(
        &self,
        expression: &Expression,
        scope: &Scope<'_>,
        meter: &Meter,
    ) -> Result<Vec<Value>, EvalProblem> {
        let native = expression.parsed.native.as_ref().and_then(|native| native.evaluate(scope, meter));
        native.unwrap_or_else(|| self.sandboxed(expression, scope, meter))
    }

    /// Evaluates an expression in the sandbox even if it could be evaluated natively, with the same
    /// result.
    ///
    /// # Errors
    /// See [`EvalProblem`].
    pub fn evaluate_in_sandbox(&self, expression: &Expression, scope: &Scope<'_>) -> Result<Vec<Value>, EvalProblem> {
        self.sandboxed(expression, scope, &Meter::default())
    }

    fn sandboxed(&self, expression: &Expression, scope: &Scope<'_>, meter: &Meter) -> Result<Vec<Value>, EvalProblem> {
        let input = scope.write(expression.references())?;
        let outputs = self.run(&expression.parsed.text, &input, meter)?;
        let value = |text: &String| meter.take(Size::of_text(text)).and_then(|()| value_of(text));
        outputs.iter().map(value).collect()
    }

    /// Evaluates an expression that must have exactly one output.
    ///
    /// # Errors
    /// See [`EvalProblem`].
    pub fn evaluate_one(&self, expression: &Expression, scope: &Scope<'_>) -> Result<Value, EvalProblem> {
        self.evaluate_one_metered(expression, scope, &Meter::default())
    }

    /// Like [`evaluate_one`](Self::evaluate_one), counted and bounded together with other
    /// evaluations.
    ///
    /// # Errors
    /// See [`EvalProblem`].
    pub fn evaluate_one_metered(
        &self,
        expression: &Expression,
        scope: &Scope<'_>,
        meter: &Meter,
    ) -> Result<Value, EvalProblem> {
        let mut outputs = self.evaluate_metered(expression, scope, meter)?;
        match outputs.pop() {
            Some(value) if outputs.is_empty() => Ok(value),
            last => Err(EvalProblem::NotOneOutput { count: outputs.len() + usize::from(last.is_some()) }),
        }
    }

    /// Evaluates a condition: false and null are false, as in jq, and everything else is true.
    ///
    /// # Errors
    /// See [`EvalProblem`].
    pub fn test(&self, expression: &Expression, scope: &Scope<'_>) -> Result<bool, EvalProblem> {
        Ok(!matches!(self.evaluate_one(expression, scope)?, Value::Null | Value::Bool(false)))
    }

    fn run(&self, text: &Arc<str>, input: &[u8], meter: &Meter) -> Result<Vec<String>, EvalProblem> {
        let input = std::str::from_utf8(input).map_err(|error| EvalProblem::BadInput(error.to_string()))?;
        let EngineConfig { fuel_base, fuel_per_byte, memory_base_bytes, memory_per_byte, .. } = self.config;
        let fuel = fuel_base.saturating_add(fuel_per_byte.saturating_mul(input.len() as u64)).min(self.config.fuel_max);
        let fuel_left = self.config.fuel_max.saturating_sub(meter.fuel());
        let memory_bytes = memory_base_bytes.saturating_add(memory_per_byte.saturating_mul(input.len()));
        let budget = Budget {
            fuel: fuel.min(fuel_left),
            memory_bytes: memory_bytes.min(self.config.memory_max_bytes),
            outputs: self.config.outputs_max,
            output_bytes: self.config.output_bytes_max,
        };
        meter.begin(input.len());
        let mut fuel_used = 0;
        let outcome = self.on_an_instance(text, |instance| {
            let filter = instance.compile(text, &self.config).map_err(|failure| match failure {
                Failure::Ordinary(errors) => Failure::Ordinary(invalid(errors)),
                Failure::Trapped(problem) => Failure::Trapped(problem),
            })?;
            let outcome = instance.evaluate(filter, input, budget);
            fuel_used = budget.fuel.saturating_sub(instance.fuel_left());
            outcome
        });
        meter.used(fuel_used);
        outcome.map_err(|failure| match failure {
            Failure::Trapped(EvalProblem::TooExpensive { .. }) if fuel_left < fuel => {
                EvalProblem::TooExpensiveTogether { fuel: self.config.fuel_max }
            }
            Failure::Ordinary(problem) | Failure::Trapped(problem) => problem,
        })
    }

    /// Makes a call on a warm instance, and on a fresh one if there is none or the warm one
    /// trapped.
    fn on_an_instance<T, E>(
        &self,
        text: &str,
        mut call: impl FnMut(&mut Instance) -> Result<T, Failure<E>>,
    ) -> Result<T, Failure<E>> {
        if let Some(mut instance) = self.take_warm(text) {
            let result = call(&mut instance);
            if !matches!(result, Err(Failure::Trapped(_))) {
                self.return_instance(instance);
                return result;
            }
        }
        let template = self.template().map_err(|error| Failure::Trapped(EvalProblem::Crashed(error.to_string())))?;
        let mut fresh = template.instantiate(&self.config)?;
        let result = call(&mut fresh);
        if !matches!(result, Err(Failure::Trapped(_))) {
            self.return_instance(fresh);
        }
        result
    }

    /// Takes a warm instance: one that has compiled that filter, else the one used last of those
    /// that may compile it.
    fn take_warm(&self, text: &str) -> Option<Instance> {
        let mut warm = self.warm.lock();
        let at = warm.iter().rposition(|instance| instance.has_filter(text));
        at.or_else(|| warm.iter().rposition(Instance::has_room)).map(|at| warm.remove(at))
    }

    /// Keeps an instance; the one that was not used for the longest time makes room for it.
    fn return_instance(&self, instance: Instance) {
        if !instance.is_small() {
            return;
        }
        let mut warm = self.warm.lock();
        warm.push(instance);
        let unused = (warm.len() > self.config.warm_instances_max).then(|| warm.remove(0));
        drop(warm);
        drop(unused);
    }
}

impl std::fmt::Debug for Jq {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jq").field("config", &self.config).field("digest", &DIGEST).finish_non_exhaustive()
    }
}

/// Parses the text of an output.
fn value_of(text: &str) -> Result<Value, EvalProblem> {
    depth::check_output(depth::of_text(text.as_bytes()))?;
    // For serde_json, an object with such a name is a number or a raw text.
    if text.contains(RESERVED) {
        return Err(EvalProblem::Failed(format!("the output has {RESERVED} in it, which this host reserves")));
    }
    serde_json::from_str(text).map_err(|error| EvalProblem::Crashed(format!("its output is not JSON: {error}")))
}

fn invalid(errors: Vec<CompileError>) -> EvalProblem {
    let none = || CompileError { message: "jq does not accept it".into(), span: 0..0 };
    EvalProblem::Invalid(errors.into_iter().next().unwrap_or_else(none))
}

fn engine_config() -> Config {
    let mut config = Config::new();
    config.consume_fuel(true);
    config.max_wasm_stack(WASM_STACK_BYTES);
    config.cranelift_nan_canonicalization(true);
    config.concurrency_support(false);
    config
}

#[cfg(test)]
mod tests {
    use super::{EngineConfig, Jq};

    #[test]
    fn a_full_instance_stays_for_the_filters_that_it_has() {
        let jq = Jq::new(EngineConfig { warm_instances_max: 2, ..EngineConfig::default() }).unwrap();
        let filter = |number: usize| jq.compile(&format!(". + {number}")).unwrap();
        let kept = |number: usize| jq.warm.lock().iter().any(|warm| warm.has_filter(&format!(". + {number}")));
        (0..300).for_each(|number| drop(filter(number)));
        assert_eq!(jq.warm.lock().len(), 2);
        assert!((0..300).all(kept));
        // A third makes the one go that was not used for longest.
        assert_eq!(jq.evaluate_text(&filter(299), b"1").unwrap(), ["300"]);
        (300..600).for_each(|number| drop(filter(number)));
        assert_eq!(jq.warm.lock().len(), 2);
        assert!(!kept(0) && kept(299) && kept(599));
    }

    #[test]
    fn the_digest_is_that_of_the_component() {
        assert_eq!(blake3::hash(super::COMPONENT).to_hex().as_str(), super::DIGEST);
    }
}
