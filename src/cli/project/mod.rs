//! Projects of guests: recognized by their files, and built by their language's own tool chain.
//!
//! - **I1** A tool chain runs with the user's rights, as if the user had typed its command: a
//!   project is trusted as its Makefile would be. Nothing here runs what a workflow or a component
//!   says.
//! - **I2** What a tool chain makes is read and checked as any component.

mod component;
mod rust;
mod tool;

use crate::cli::report::error::{UserError, kind};
use std::path::{Path, PathBuf};

pub(in crate::cli) use tool::Talk;

/// A language, by the files of a project.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::cli) enum Language {
    Rust,
}

impl Language {
    const ALL: [Self; 1] = [Self::Rust];

    /// As people write it.
    pub(in crate::cli) fn name(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
        }
    }

    /// The file that shows it.
    fn mark(self) -> &'static str {
        match self {
            Self::Rust => "Cargo.toml",
        }
    }
}

/// A folder with a program that can become a component.
pub(in crate::cli) struct Project {
    pub(in crate::cli) folder: PathBuf,
    pub(in crate::cli) language: Language,
}

/// What a tool chain has made.
pub(in crate::cli) struct Made {
    /// What the project calls itself.
    pub(in crate::cli) name: String,
    /// The component. A language's own builder may leave a core module.
    pub(in crate::cli) bytes: Vec<u8>,
}

impl Project {
    /// The project in that folder; `None` if there is none.
    pub(in crate::cli) fn of(folder: &Path) -> Option<Self> {
        let language = Language::ALL.into_iter().find(|language| folder.join(language.mark()).is_file())?;
        Some(Self { folder: folder.to_owned(), language })
    }

    /// The project in that folder.
    ///
    /// # Errors
    /// Fails if there is none.
    pub(in crate::cli) fn find(folder: &Path) -> Result<Self, UserError> {
        Self::of(folder).ok_or_else(|| {
            let marks: Vec<&str> = Language::ALL.into_iter().map(Language::mark).collect();
            let title = format!("there is no project in {}: it has no {}", folder.display(), marks.join(", "));
            UserError::new(kind::UNREADABLE, title).hint("`wfhost new NAME --lang LANGUAGE` makes one")
        })
    }

    /// Runs the language's tool chain, and makes a component of a core module.
    ///
    /// # Errors
    /// Fails if a tool is missing or does not succeed, or the module has no contract.
    pub(in crate::cli) fn build(&self, talk: Talk) -> Result<Made, UserError> {
        let Made { name, bytes } = match self.language {
            Language::Rust => rust::build(&self.folder, talk),
        }?;
        let bytes = component::of(bytes, &name)?;
        Ok(Made { name, bytes })
    }
}
