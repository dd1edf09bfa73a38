//! The engine: instances of the jq component, their budgets, and the filters compiled in them.

use super::{CompileError, EngineError, EvalProblem, Expression, Scope};
use serde_json::Value;
use std::sync::Arc;

/// The limits of the engine. The defaults suit a host that runs untrusted workflows.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Warm instances kept between calls.
    pub warm_instances_max: usize,
    /// Units of fuel for a call, whatever its input.
    pub fuel_base: u64,
    /// Units of fuel added for each byte of input.
    pub fuel_per_byte: u64,
    /// Bytes of memory for a call, whatever its input.
    pub memory_base_bytes: usize,
    /// Bytes of memory added for each byte of input.
    pub memory_per_byte: usize,
    /// Outputs of a call.
    pub outputs_max: u32,
    /// Bytes of all outputs of a call.
    pub output_bytes_max: u32,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            warm_instances_max: 4,
            fuel_base: 50_000_000,
            fuel_per_byte: 500,
            memory_base_bytes: 16 << 20,
            memory_per_byte: 16,
            outputs_max: 10_000,
            output_bytes_max: 16 << 20,
        }
    }
}

/// A filter that jq has accepted. Cloning it is cheap; it stays valid whatever becomes of the instance that compiled it.
#[derive(Clone, Debug)]
pub struct Filter {
    text: Arc<str>,
}

/// jq in the sandbox. Calls are synchronous and may come from any thread.
pub struct Jq {
    config: EngineConfig,
}

impl Jq {
    /// Makes the engine of the embedded component.
    ///
    /// # Errors
    /// The component cannot be compiled, or the host has no room for an instance.
    pub fn new(config: EngineConfig) -> Result<Self, EngineError> {
        Ok(Self { config })
    }

    /// The digest of the component (BLAKE3, hexadecimal): what pins the meaning of expressions in a run.
    #[must_use]
    pub fn digest(&self) -> &str {
        todo!()
    }

    /// Compiles the text of a filter.
    ///
    /// # Errors
    /// All errors that jq finds, each with its place.
    pub fn compile(&self, text: &str) -> Result<Filter, Vec<CompileError>> {
        let _ = &self.config;
        todo!("{text}")
    }

    /// Evaluates a filter on JSON text. The outputs are JSON texts without white space, as `jq -c` prints them.
    ///
    /// # Errors
    /// See [`EvalProblem`].
    pub fn evaluate_text(&self, filter: &Filter, input: &[u8]) -> Result<Vec<String>, EvalProblem> {
        todo!("{} {input:?}", filter.text)
    }

    /// Asks jq whether an expression is valid.
    ///
    /// # Errors
    /// All errors that jq finds, each with its place.
    pub fn check(&self, expression: &Expression) -> Result<(), Vec<CompileError>> {
        self.compile(expression.text()).map(|_| ())
    }

    /// Evaluates an expression: natively where it is a plain path or a literal, else in the sandbox, on what it refers to.
    ///
    /// # Errors
    /// See [`EvalProblem`].
    pub fn evaluate(&self, expression: &Expression, scope: &Scope<'_>) -> Result<Vec<Value>, EvalProblem> {
        todo!("{expression:?} {scope:?}")
    }

    /// Evaluates an expression that must have exactly one output.
    ///
    /// # Errors
    /// See [`EvalProblem`].
    pub fn evaluate_one(&self, expression: &Expression, scope: &Scope<'_>) -> Result<Value, EvalProblem> {
        let mut outputs = self.evaluate(expression, scope)?;
        match (outputs.pop(), outputs.len()) {
            (Some(value), 0) => Ok(value),
            (last, rest) => Err(EvalProblem::NotOneOutput { count: rest + usize::from(last.is_some()) }),
        }
    }

    /// Evaluates a condition: false and null are false, as in jq, and everything else is true.
    ///
    /// # Errors
    /// See [`EvalProblem`].
    pub fn test(&self, expression: &Expression, scope: &Scope<'_>) -> Result<bool, EvalProblem> {
        Ok(!matches!(self.evaluate_one(expression, scope)?, Value::Null | Value::Bool(false)))
    }
}
