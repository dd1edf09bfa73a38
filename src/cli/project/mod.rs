//! Projects of guests: recognized by their files, and built by their language's own tool chain.
//!
//! - **I1** A tool chain runs with the user's rights, as if the user had typed its command: a
//!   project is trusted as its Makefile would be. Nothing here runs what a workflow or a component
//!   says.
//! - **I2** What a tool chain makes is read and checked as any component.

mod c;
mod component;
mod engine;
mod go;
mod image;
mod node;
mod python;
mod rust;
mod tool;
mod zig;

use crate::cli::report::error::{UserError, kind};
use std::path::{Path, PathBuf};

pub(in crate::cli) use engine::python_engine;
pub(in crate::cli) use tool::Talk;

/// A language, by the files of a project.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::cli) enum Language {
    Rust,
    Python,
    Go,
    JavaScript,
    Zig,
    C,
}

impl Language {
    const ALL: [Self; 6] = [Self::Rust, Self::Python, Self::Go, Self::JavaScript, Self::Zig, Self::C];

    /// As people write it.
    pub(in crate::cli) fn name(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::Python => "Python",
            Self::Go => "Go",
            Self::JavaScript => "JavaScript",
            Self::Zig => "Zig",
            Self::C => "C",
        }
    }

    /// The file that shows it.
    fn mark(self) -> &'static str {
        match self {
            Self::Rust => "Cargo.toml",
            Self::Python => "pyproject.toml",
            Self::Go => "go.mod",
            Self::JavaScript => "package.json",
            Self::Zig => "wfhost/wfhost.zig",
            Self::C => "wfhost.h",
        }
    }
}

/// A folder with a program that can become a component.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::cli) struct Project {
    pub(in crate::cli) folder: PathBuf,
    pub(in crate::cli) language: Language,
    /// As the project's own file has it.
    pub(in crate::cli) name: String,
}

impl Project {
    /// The project in that folder; `None` if there is none.
    pub(in crate::cli) fn of(folder: &Path) -> Option<Self> {
        let language = Language::ALL.into_iter().find(|language| folder.join(language.mark()).is_file())?;
        let text = std::fs::read_to_string(folder.join(language.mark())).ok()?;
        let name = match language {
            Language::Rust => toml_name(&text, "package"),
            Language::Python => toml_name(&text, "project"),
            Language::Go => module_name(&text),
            Language::JavaScript => package_name(folder),
            Language::Zig | Language::C => None,
        };
        let name = name.or_else(|| {
            let folder = folder.canonicalize().ok()?;
            Some(folder.file_name()?.to_str()?.to_owned())
        })?;
        Some(Self { folder: folder.to_owned(), language, name })
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

    /// The file that its component is written to if the user names no other.
    pub(in crate::cli) fn component(&self) -> PathBuf {
        let file = format!("{}.wasm", self.name);
        if self.folder == Path::new(".") { PathBuf::from(file) } else { self.folder.join(file) }
    }

    /// Runs the language's tool chain, and makes a component of a core module.
    ///
    /// # Errors
    /// Fails if a tool is missing or does not succeed, or the module has no contract.
    pub(in crate::cli) fn build(&self, talk: Talk) -> Result<Vec<u8>, UserError> {
        match self.language {
            Language::Rust => component::of(rust::build(&self.folder, talk)?, &self.name),
            Language::Python => python::build(&self.folder, talk),
            Language::Go => component::of_runtime(go::build(&self.folder, talk)?, &self.name),
            Language::JavaScript => node::build(&self.folder, talk),
            Language::Zig => component::of(zig::build(&self.folder, talk)?, &self.name),
            Language::C => component::of(c::build(&self.folder, talk)?, &self.name),
        }
    }
}

/// Writes a component whole: a run that reads it meanwhile has the old one or the new one.
///
/// # Errors
/// Fails if it cannot be written.
pub(in crate::cli) fn write(path: &Path, component: &[u8]) -> Result<(), UserError> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let written = std::fs::write(&temporary, component).and_then(|()| std::fs::rename(&temporary, path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&temporary);
        UserError::new(kind::UNREADABLE, format!("cannot write {}: {error}", path.display()))
    })
}

/// The `name` in a table of a file in TOML, as the tools of a language write it.
fn toml_name(text: &str, table: &str) -> Option<String> {
    let header = format!("[{table}]");
    let lines = text.lines().map(str::trim).skip_while(|line| *line != header).skip(1);
    let mut values = lines.take_while(|line| !line.starts_with('[')).filter_map(|line| line.split_once('='));
    let (_, value) = values.find(|(key, _)| key.trim() == "name")?;
    let value = value.trim().strip_prefix(['"', '\''])?;
    Some(value.split(['"', '\'']).next()?.to_owned()).filter(|name| is_name(name))
}

/// The last part of the module's path in a `go.mod`.
fn module_name(text: &str) -> Option<String> {
    let path = text.lines().find_map(|line| line.trim().strip_prefix("module "))?.trim();
    path.rsplit('/').next().map(str::to_owned).filter(|name| is_name(name))
}

/// A `package.json`, if it is one.
fn package_json(folder: &Path) -> Option<serde_json::Value> {
    serde_json::from_slice(&std::fs::read(folder.join("package.json")).ok()?).ok()
}

/// The name in a `package.json`, without its scope.
fn package_name(folder: &Path) -> Option<String> {
    let package = package_json(folder)?;
    let name = package.get("name")?.as_str()?.rsplit('/').next()?.to_owned();
    Some(name).filter(|name| is_name(name))
}

/// Whether a name can be that of a file.
fn is_name(name: &str) -> bool {
    let is_plain = |one: char| one.is_alphanumeric() || "-_.".contains(one);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_has_the_name_of_its_file_or_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Project::of(folder.path()), None);
        let named = |text: &str| {
            std::fs::write(folder.path().join("Cargo.toml"), text).unwrap();
            Project::of(folder.path()).unwrap().name
        };
        assert_eq!(
            named("[lib]\nname = \"no\"\n[package]\nname = \"first-step\" # mine\n[x]\nname = 'y'"),
            "first-step"
        );
        let own = folder.path().canonicalize().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        for text in ["[package]\n", "[package]\nname = \"../x\"", "[package]\nname = 7", "name = \"x\""] {
            assert_eq!(named(text), own, "{text}");
        }
        assert_eq!(module_name("// x\nmodule example.com/a/order\n\ngo 1.24\n").as_deref(), Some("order"));
        assert_eq!(module_name("module ..\n"), None);
    }
}
