//! Which outcomes of a step are used again.

use super::Template;
use super::expressions::TemplateReader;
use super::references::ExpressionSite;
use crate::process::Micros;
use crate::workflow::model;

/// Which outcomes of a step are used again by others.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    /// Those of a guest that depend on nothing but its input.
    Auto,
    /// All that succeed.
    Kept {
        /// How long one may be used.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        ttl: Option<Micros>,
        /// What it is found by, in place of the input.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        key: Option<Template>,
    },
}

impl Cache {
    /// What outcomes are found by, if it is not the input.
    #[must_use]
    pub fn key(&self) -> Option<&Template> {
        if let Self::Kept { key, .. } = self { key.as_ref() } else { None }
    }

    /// How long an outcome may be used; `None` if for ever.
    #[must_use]
    pub fn ttl(&self) -> Option<Micros> {
        if let Self::Kept { ttl, .. } = self { *ttl } else { None }
    }
}

/// Reads `cache:` of a step. `None` if it has a problem, which is reported.
#[allow(clippy::option_option, reason = "the outer one is whether all is well")]
pub(super) fn read(
    cache: Option<&model::Cache>,
    templates: &mut TemplateReader<'_>,
    site: ExpressionSite,
) -> Option<Option<Cache>> {
    Some(match cache {
        None => None,
        Some(model::Cache::Auto) => Some(Cache::Auto),
        Some(model::Cache::Kept { ttl, key }) => {
            let key = key.as_ref().map(|node| templates.value(node, site));
            let key = if let Some(key) = key { Some(key?) } else { None };
            Some(Cache::Kept { ttl: *ttl, key })
        }
    })
}
