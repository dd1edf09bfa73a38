//! The files of the folder that a service deploys.

use super::ServerError;
use crate::host::is_workflow;
use std::io;
use std::path::{Path, PathBuf};

/// The workflow files of a folder, in the order of their names.
pub(super) fn workflow_files(folder: &Path) -> Result<Vec<PathBuf>, ServerError> {
    let fails = |error| ServerError::Workflows { path: folder.to_owned(), error };
    let files =
        std::fs::read_dir(folder).and_then(|files| files.map(|file| Ok(file?.path())).collect::<io::Result<Vec<_>>>());
    let mut files: Vec<PathBuf> = files.map_err(fails)?.into_iter().filter(|path| is_workflow(path)).collect();
    files.sort();
    Ok(files)
}
