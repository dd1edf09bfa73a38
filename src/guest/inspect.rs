//! What can be said of a component without running it.

use std::fmt;

/// A way in which a component does not fit the contract.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Misfit {
    /// Something that every guest exports is not there.
    ExportMissing {
        /// The interface.
        interface: String,
        /// The function of it; empty where the whole interface is missing.
        function: String,
    },
    /// An export has another type than the contract's.
    ExportType {
        /// The interface.
        interface: String,
        /// The function of it.
        function: String,
        /// How it differs.
        difference: String,
    },
    /// An import that the host does not offer.
    ImportNotOffered {
        /// Its name, with its version.
        import: String,
    },
    /// An import that is offered with another type.
    ImportType {
        /// Which, and how it differs.
        difference: String,
    },
}

impl Misfit {
    pub(crate) fn export_missing(interface: &str, function: &str) -> Self {
        Self::ExportMissing { interface: interface.into(), function: function.into() }
    }

    pub(crate) fn export_type(interface: &str, function: &str, error: &wasmtime::Error) -> Self {
        Self::ExportType { interface: interface.into(), function: function.into(), difference: format!("{error:#}") }
    }

    pub(crate) fn import_missing(import: &str) -> Self {
        Self::ImportNotOffered { import: import.into() }
    }

    pub(crate) fn import_type(error: &wasmtime::Error) -> Self {
        Self::ImportType { difference: format!("{error:#}") }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ExportMissing { interface, function } if function.is_empty() => {
                write!(f, "it does not export {interface}")
            }
            Self::ExportMissing { interface, function } => write!(f, "{interface} lacks the function {function}"),
            Self::ExportType { interface, function, difference } => {
                write!(f, "{function} of {interface} has another type: {difference}")
            }
            Self::ImportNotOffered { import } => write!(f, "it imports {import}, which is not offered"),
            Self::ImportType { difference } => write!(f, "an import has another type: {difference}"),
        }
    }
}
