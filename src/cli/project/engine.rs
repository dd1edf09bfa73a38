//! The engine of scripts in Python, which is too large to be part of the program: its recipe is.

use super::tool::{self, Talk};
use crate::cli::report::error::UserError;
use std::process::Command;

/// A file of the recipe: its path in wfhost's sources, and its text.
macro_rules! recipe {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../", $path)))),*]
    };
}

const RECIPE: &[(&str, &str)] = recipe![
    "guests/python/wfhost/__init__.py",
    "guests/python/wfhost/component.py",
    "guests/python/wfhost/core.py",
    "guests/python/wfhost/engine.py",
    "guests/python/wfhost/inputs.py",
    "guests/python/wfhost/problem.py",
    "guests/python/wfhost/stubs.py",
    "guests/python/wfhost/world.py",
    "guests/script-py/build.sh",
    "guests/toolchain/py.sh",
    "wit/process.wit",
    "wit/script.wit",
];

/// Builds the engine by its recipe: with Python and, from PyPI, componentize-py.
///
/// # Errors
/// Fails if a tool is missing, or nothing can be fetched.
pub(in crate::cli) fn python_engine(talk: Talk) -> Result<Vec<u8>, UserError> {
    let scratch = tool::Scratch::new()?;
    for (path, text) in RECIPE {
        scratch.write(path, text)?;
    }
    // The recipes find each other by their paths.
    let run = "chmod +x guests/toolchain/py.sh && bash guests/script-py/build.sh \"$1\"";
    let component = scratch.path("engine.wasm");
    let mut command = Command::new("bash");
    command.current_dir(scratch.path("")).args(["-c", run, "engine"]).arg(&component);
    tool::run(&mut command, talk, "bash and Python 3.11 or later come with your system's packages")?;
    tool::made(&component)
}

#[cfg(test)]
mod tests {
    use super::RECIPE;

    /// What the recipe copies, it has.
    #[test]
    fn the_modules_of_the_engine_are_all_there() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let of = |name: &str| RECIPE.iter().any(|(path, _)| *path == name);
        for entry in std::fs::read_dir(folder.join("guests/python/wfhost")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let path = format!("guests/python/wfhost/{name}");
            let is_of_projects = ["__main__.py", "__pycache__", "blobs.py", "process.wit", "py.typed", "testing.py"];
            let is_of_projects = is_of_projects.contains(&&*name);
            assert!(of(&path) || is_of_projects, "{path}");
        }
        for entry in std::fs::read_dir(folder.join("wit")).unwrap() {
            let path = format!("wit/{}", entry.unwrap().file_name().into_string().unwrap());
            assert!(of(&path), "{path}");
        }
    }
}
