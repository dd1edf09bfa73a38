//! The files of the folder that a service deploys.

use super::ServerError;
use std::io;
use std::path::{Path, PathBuf};

/// The workflow files of a folder, in the order of their names.
pub(super) fn workflow_files(folder: &Path) -> Result<Vec<PathBuf>, ServerError> {
    let fails = |error| ServerError::Workflows { path: folder.to_owned(), error };
    let files =
        std::fs::read_dir(folder).and_then(|files| files.map(|file| Ok(file?.path())).collect::<io::Result<Vec<_>>>());
    let is_workflow = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "yaml" || kind == "yml");
    let mut files: Vec<PathBuf> = files.map_err(fails)?.into_iter().filter(is_workflow).collect();
    files.sort();
    Ok(files)
}
