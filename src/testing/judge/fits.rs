//! Whether a call is one that a pattern means.

use super::difference::matches_part;
use crate::testing::case_file::Templated;
use crate::workflow::expression::{Jq, Scope};
use crate::workflow::interpreter::progress::without_items;
use crate::workflow::model::Spanned;
use crate::workflow::syntax::Span;
use serde_json::Value;

/// What the expressions of a pattern are evaluated with.
pub(in crate::testing) struct Fitting<'a> {
    pub(in crate::testing) jq: &'a Jq,
    pub(in crate::testing) scope: &'a Scope<'a>,
}

/// `step`, `with` and `where`.
pub(in crate::testing) type Pattern<'a> = (Option<&'a Spanned<String>>, Option<&'a Templated>, Option<&'a Templated>);

/// Why a call does not fit a pattern; `None` if it does.
///
/// # Errors
/// Fails if an expression cannot be evaluated: where, and why.
pub(in crate::testing) fn fits(
    fitting: &Fitting<'_>,
    (wanted_step, with, condition): Pattern<'_>,
    step: &str,
    args: &Value,
) -> Result<Option<String>, (Span, String)> {
    if let Some(wanted) = wanted_step.filter(|wanted| wanted.value != step && wanted.value != without_items(step)) {
        return Ok(Some(format!("it is for the step `{}`", wanted.value)));
    }
    let evaluate = |templated: &Templated| {
        let evaluated = templated.evaluate(fitting.jq, fitting.scope);
        evaluated.map_err(|bad| (templated.place(&bad.pointer), bad.problem.to_string()))
    };
    if let Some(with) = with
        && let Some(why) = matches_part(&evaluate(with)?, args, "")
    {
        return Ok(Some(why));
    }
    if let Some(condition) = condition
        && matches!(evaluate(condition)?, Value::Null | Value::Bool(false))
    {
        return Ok(Some("its `where` is not true".to_owned()));
    }
    Ok(None)
}
