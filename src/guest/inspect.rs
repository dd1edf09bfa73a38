//! What can be said about a component without running it.

use super::wit;
use std::fmt;

/// A way in which a component does not fit the contract.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Misfit {
    /// Every guest must export this, and the component does not.
    ExportMissing {
        /// The interface, with its version.
        interface: String,
        /// The function; empty if the whole interface is missing.
        function: String,
    },
    /// An export has another type than the contract's.
    ExportType {
        /// The interface, with its version.
        interface: String,
        /// The function in that interface.
        function: String,
        /// The difference, in the engine's words.
        difference: String,
        /// The component's own type, in WIT.
        found: String,
    },
    /// An import that the host does not offer.
    ImportNotOffered {
        /// The import's name, with its version.
        import: String,
    },
    /// An import that the host offers with another type.
    ImportType {
        /// The import and the difference, in the engine's words.
        difference: String,
    },
}

impl Misfit {
    pub(crate) fn export_missing(interface: &str, function: &str) -> Self {
        Self::ExportMissing { interface: interface.into(), function: function.into() }
    }

    pub(crate) fn export_type(interface: &str, function: &str, found: String, error: &wasmtime::Error) -> Self {
        let difference = format!("{error:#}");
        Self::ExportType { interface: interface.into(), function: function.into(), difference, found }
    }

    pub(crate) fn import_missing(import: &str) -> Self {
        Self::ImportNotOffered { import: import.into() }
    }

    pub(crate) fn import_type(error: &wasmtime::Error) -> Self {
        Self::ImportType { difference: format!("{error:#}") }
    }
}

impl Misfit {
    /// Returns which export or import it is: `wfhost:process/guest@0.1.0#step`.
    #[must_use]
    pub fn at(&self) -> String {
        match self {
            Self::ExportMissing { interface, function } if function.is_empty() => interface.clone(),
            Self::ExportMissing { interface, function } | Self::ExportType { interface, function, .. } => {
                format!("{interface}#{function}")
            }
            Self::ImportNotOffered { import } => import.clone(),
            Self::ImportType { .. } => "imports".to_owned(),
        }
    }

    /// Returns what the contract has there, in WIT.
    #[must_use]
    pub fn expected(&self) -> String {
        match self {
            Self::ExportMissing { interface, function } if function.is_empty() => format!("export {interface};"),
            Self::ExportMissing { interface, function } | Self::ExportType { interface, function, .. } => {
                wit::contract(interface, function).map_or_else(|| format!("{function}: func"), str::to_owned)
            }
            Self::ImportNotOffered { .. } => {
                "import wfhost:process/host@0.1.0; or, of WASI 0.2, cli, clocks, filesystem, io, random, sockets"
                    .to_owned()
            }
            Self::ImportType { .. } => "imports of the types in wit/process.wit".to_owned(),
        }
    }

    /// Returns what the component has there, in WIT; empty if it has nothing.
    #[must_use]
    pub fn found(&self) -> String {
        match self {
            Self::ExportMissing { .. } => String::new(),
            Self::ExportType { found, .. } => found.clone(),
            Self::ImportNotOffered { import } => format!("import {import};"),
            Self::ImportType { difference } => difference.clone(),
        }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ExportMissing { interface, function } if function.is_empty() => {
                write!(f, "it does not export {interface}")
            }
            Self::ExportMissing { interface, function } => write!(f, "{interface} lacks the function {function}"),
            Self::ExportType { interface, difference, found, .. } => {
                write!(f, "{interface} must have `{}`, not `{found}` ({difference})", self.expected())
            }
            Self::ImportNotOffered { import } => write!(f, "it imports {import}, which is not offered"),
            Self::ImportType { difference } => write!(f, "the type of an import differs: {difference}"),
        }
    }
}
