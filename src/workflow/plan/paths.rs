//! Paths in the files of a workflow that are not in its folder, but below it.

use crate::workflow::model::{Action, Step, Workflow};

/// Bytes and parts of the path of a workflow file. Arbitrary.
const PATH_BYTES_MAX: usize = 1_024;
const PATH_PARTS_MAX: usize = 32;

/// The folder of a path; empty if the path has none.
pub(super) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The path of a file that is named in a folder: `order/label.yaml` for `../order/./label.yaml` in
/// `stock`.
///
/// # Errors
/// Says why no file of the workflow has such a path.
pub(super) fn within(folder: &str, path: &str) -> Result<String, String> {
    if path.len() > PATH_BYTES_MAX {
        return Err(format!("its path has more than {PATH_BYTES_MAX} bytes"));
    }
    if path.starts_with('/') || path.contains('\\') {
        return Err("its path is not relative to the folder of the file that names it".to_owned());
    }
    if matches!(path.rsplit('/').next(), Some("" | "." | "..")) {
        return Err("it names no file".to_owned());
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => return Err("it is not below the workflow's folder".to_owned()),
            ".." => {}
            part => parts.push(part),
        }
    }
    if parts.len() > PATH_PARTS_MAX {
        return Err(format!("it is more than {PATH_PARTS_MAX} folders deep"));
    }
    Ok(parts.join("/"))
}

/// Lets the sources and folders of a file's components start from the workflow's folder, instead of
/// the file's own.
pub(super) fn rebase(workflow: &mut Workflow, folder: &str) {
    if folder.is_empty() {
        return;
    }
    let mut declared = Vec::new();
    for component in &mut workflow.components {
        declared.push(component.name.value.clone());
        component.source.value = joined(folder, &component.source.value);
        for (_, path) in &mut component.folders {
            path.value = joined(folder, &path.value);
        }
    }
    declared.extend(workflow.unread_components.iter().cloned());
    rebase_steps(&mut workflow.steps, folder, &declared);
}

fn rebase_steps(steps: &mut [Step], folder: &str, declared: &[String]) {
    for step in steps {
        match &mut step.action {
            Action::Uses { component, .. } => {
                let is_source = !declared.contains(&component.value) && super::components::is_source(&component.value);
                if is_source {
                    component.value = joined(folder, &component.value);
                }
            }
            Action::Steps(block) => rebase_steps(&mut block.steps, folder, declared),
            Action::Switch(cases) => {
                for case in cases {
                    rebase_steps(&mut case.block.steps, folder, declared);
                }
            }
            _ => {}
        }
        if let Some(undo) = &mut step.compensate {
            rebase_steps(std::slice::from_mut(&mut **undo), folder, declared);
        }
    }
}

/// A source that starts from an outer folder.
fn joined(folder: &str, source: &str) -> String {
    if source.starts_with(['/', '\\']) || source.starts_with("native:") || source.contains("://") {
        return source.to_owned();
    }
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in source.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    match parts.first() {
        Some(&"..") => parts.join("/"),
        _ => format!("./{}", parts.join("/")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_path_below_the_workflows_folder() {
        let path = |folder: &str, path: &str| within(folder, path);
        assert_eq!(path("", "./a.yaml").unwrap(), "a.yaml");
        assert_eq!(path("", "lib/../lib//./a.yaml").unwrap(), "lib/a.yaml");
        assert_eq!(path("stock/eu", "../../order/a.yaml").unwrap(), "order/a.yaml");
        for (folder, wrong) in [("", "../a.yaml"), ("a", "../../b.yaml"), ("", "/a.yaml"), ("", "a\\b.yaml")] {
            path(folder, wrong).unwrap_err();
        }
        for none in [".", "..", "a/", "a/.."] {
            path("x", none).unwrap_err();
        }
        path("", &"a/".repeat(40)).unwrap_err();
        path("", &"a".repeat(2_000)).unwrap_err();
    }

    #[test]
    fn a_source_in_a_folder_below_is_named_from_the_workflows() {
        assert_eq!(joined("order", "./a.wasm"), "./order/a.wasm");
        assert_eq!(joined("order/eu", "../lib/a.js"), "./order/lib/a.js");
        assert_eq!(joined("order", "../../a.wasm"), "../a.wasm");
        assert_eq!(joined("order", "../../../a.wasm"), "../../a.wasm");
        for same in ["/a.wasm", "native:x", "oci://registry.example.com/a:1"] {
            assert_eq!(joined("order", same), same);
        }
    }
}
