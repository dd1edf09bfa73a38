//! What can be said of a component without running it.

use super::wit;
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
        /// How it differs, in the engine's words.
        difference: String,
        /// The component's own, as WIT writes it.
        found: String,
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
    /// Which export or import it is: `wfhost:process/guest@0.1.0#step`.
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

    /// What the contract has there, as WIT writes it.
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
            Self::ImportType { .. } => "imports of the types that wit/process.wit has".to_owned(),
        }
    }

    /// What the component has there, as WIT writes it; empty where it has nothing.
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
                write!(f, "{interface} is to have `{}`, not `{found}` ({difference})", self.expected())
            }
            Self::ImportNotOffered { import } => write!(f, "it imports {import}, which is not offered"),
            Self::ImportType { difference } => write!(f, "an import has another type: {difference}"),
        }
    }
}
