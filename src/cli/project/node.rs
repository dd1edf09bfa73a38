//! JavaScript and TypeScript: componentize-js and esbuild, which are packages of the project.

use super::tool::{self, Talk};
use crate::cli::report::error::{UserError, kind};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program of the package `wfhost`, where npm puts it.
const PROGRAM: &str = "node_modules/.bin/wfhost-js";

/// The modules with the entries, where `main` of package.json names no other.
const MAINS: [&str; 2] = ["main.js", "main.ts"];

pub(super) fn build(folder: &Path, talk: Talk) -> Result<Vec<u8>, UserError> {
    let main = main(folder)?;
    let npm = if tool::find(folder, "npm").is_some() {
        "npm install"
    } else {
        "apt install nodejs npm, or https://nodejs.org (20.6 or later); then npm install"
    };
    let program = folder.join(PROGRAM);
    if !program.exists() {
        let title = format!("the packages of {} are not installed", folder.join("package.json").display());
        let hint = format!("in the project's folder: {npm}");
        return Err(UserError::new(kind::MISSING_TOOL, title).hint(hint));
    }
    let scratch = tool::Scratch::new()?;
    let component = scratch.path("component.wasm");
    let program = std::path::absolute(program).unwrap_or_else(|_| PathBuf::from(PROGRAM));
    let mut command = Command::new(program);
    command.current_dir(folder).arg("build").arg(main).arg("-o").arg(&component);
    tool::run(&mut command, talk, npm)?;
    tool::made(&component)
}

/// The module with the entries, below the project's folder.
fn main(folder: &Path) -> Result<PathBuf, UserError> {
    let package = super::package_json(folder).and_then(|package| Some(package.get("main")?.as_str()?.to_owned()));
    let names = package.iter().map(String::as_str).chain(MAINS);
    let found = names.map(PathBuf::from).find(|name| folder.join(name).is_file());
    found.ok_or_else(|| {
        let title = format!("there is no main.js or main.ts in {}", folder.display());
        UserError::new(kind::UNREADABLE, title).hint("`main` in package.json names the module with the entries")
    })
}
