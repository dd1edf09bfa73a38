//! The case files that arguments mean.

use crate::cli::report::error::{UserError, kind};
use crate::testing::suite::{CASE_FILE_END, Suite, case_file_of, is_case_file};
use crate::workflow::diagnostics::closest;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Case files that are found in folders. Arbitrary.
const FILES_MAX: usize = 10_000;
/// How deep folders are searched. Arbitrary.
const DEPTH_MAX: usize = 16;

/// The case files of the arguments, each once, in their order.
pub(super) fn case_files(arguments: &[PathBuf]) -> Result<Vec<PathBuf>, UserError> {
    let here = [PathBuf::from(".")];
    let arguments = if arguments.is_empty() { &here[..] } else { arguments };
    let mut files = Vec::new();
    for argument in arguments {
        if argument.is_dir() {
            let before = files.len();
            search(argument, 0, &mut files)?;
            if files.len() == before {
                let title = format!("there are no case files (*{CASE_FILE_END}) in {}", argument.display());
                return Err(UserError::new(kind::UNREADABLE, title)
                    .hint("`wfhost example orders` writes a workflow with its tests; docs/testing.md describes them"));
            }
        } else if is_case_file(argument) {
            files.push(argument.clone());
        } else {
            let file = case_file_of(argument);
            if !file.exists() {
                let title = if argument.exists() {
                    format!("{} has no tests: there is no {}", argument.display(), file.display())
                } else {
                    format!("there is no file {}", argument.display())
                };
                return Err(UserError::new(kind::UNREADABLE, title)
                    .hint("a file of cases begins with `cases:`; docs/testing.md describes them"));
            }
            files.push(file);
        }
    }
    let mut seen = BTreeSet::new();
    files.retain(|file| seen.insert(file.clone()));
    Ok(files)
}

/// Adds the case files in a folder, in the order of their names. Links to folders are not followed.
fn search(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), UserError> {
    let unreadable = |error: std::io::Error| UserError::new(kind::UNREADABLE, format!("{}: {error}", folder.display()));
    let mut entries: Vec<std::fs::DirEntry> =
        std::fs::read_dir(folder).map_err(unreadable)?.collect::<Result<_, _>>().map_err(unreadable)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name();
        let is_hidden = name.to_string_lossy().starts_with('.');
        let skipped = ["node_modules", "target"].iter().any(|one| name == **one);
        let Ok(kind) = entry.file_type() else { continue };
        let path = if folder == Path::new(".") { PathBuf::from(name) } else { entry.path() };
        if kind.is_dir() && !is_hidden && !skipped && depth < DEPTH_MAX {
            search(&path, depth + 1, files)?;
        } else if !kind.is_dir() && is_case_file(&path) {
            if files.len() >= FILES_MAX {
                let title = format!("there are more than {FILES_MAX} case files");
                return Err(UserError::new(kind::USAGE, title).hint("name the files, or a folder below"));
            }
            files.push(path);
        }
    }
    Ok(())
}

/// No case has a name with this text in it.
pub(super) fn no_match(text: &str) -> UserError {
    UserError::new(kind::USAGE, format!("no case has `{text}` in its name"))
        .hint("`wfhost test --list` lists the cases")
}

/// No case has this name.
pub(super) fn no_case(name: &str, suites: &[Suite]) -> UserError {
    let names = || suites.iter().flat_map(Suite::cases).map(|case| case.name.value.as_str());
    let hint = closest(name, names()).map(|meant| format!("did you mean `{meant}`?"));
    UserError::new(kind::USAGE, format!("there is no case `{name}`"))
        .hint_maybe(hint.or_else(|| Some("`wfhost test --list` lists the cases".to_owned())))
}
