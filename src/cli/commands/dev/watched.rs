//! The files that a workflow depends on, as far as they are watched.
//!
//! They are polled: some hundred `stat` calls take a fraction of a millisecond, work on every file
//! system, and miss no editor's way of replacing a file.

use crate::cli::project::Project;
use crate::workflow::diagnostics::Diagnostics;
use crate::workflow::syntax::{self, Node, Source};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

/// Files that are watched. Arbitrary: a second of polling a slow disk.
const FILES_MAX: usize = 5_000;

/// Files that name others and are looked into. More than a workflow may have.
const WORKFLOWS_MAX: usize = 1_000;

/// Folders within one another that are looked into. Arbitrary.
const DEPTH_MAX: usize = 16;

/// Folders of tools, which hold nothing that a person edits.
const SKIPPED: [&str; 7] = ["target", "node_modules", "__pycache__", "zig-out", "zig-cache", "dist", "build"];

/// Endings of the files that a script may consist of.
const OF_SCRIPTS: [&str; 7] = ["js", "mjs", "cjs", "ts", "mts", "py", "json"];

/// Endings of files in a project's folder that nothing is built of.
const NO_SOURCES: [&str; 5] = ["md", "yaml", "yml", "wasm", "txt"];

/// The files that a workflow names, and the projects that make some of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Watched {
    /// Files that are named: the workflow and those that its steps run, their components and
    /// scripts, files of inputs.
    files: Vec<PathBuf>,
    /// Folders of scripts.
    scripts: Vec<PathBuf>,
    /// Folders that programs are granted.
    granted: Vec<PathBuf>,
    pub(super) projects: Vec<Project>,
}

/// When each file was written, and its length.
pub(super) type Seen = BTreeMap<PathBuf, (SystemTime, u64)>;

impl Watched {
    /// What the workflow in that file names. If its text cannot be read as YAML, it names what it
    /// named `before`.
    pub(super) fn of(file: &Path, inputs: &[String], before: Option<Self>) -> Self {
        let Some(own) = named(file) else {
            return before.unwrap_or_else(|| Self { files: vec![file.to_owned()], ..Self::default() });
        };
        let mut watched = Self { files: vec![file.to_owned()], ..Self::default() };
        watched.files.extend(inputs.iter().filter_map(|input| Some(PathBuf::from(input.split_once('@')?.1))));
        let mut open = vec![(file.to_owned(), own)];
        while let Some((file, mut named_there)) = open.pop() {
            let workflows = std::mem::take(&mut named_there.workflows);
            watched.add(&file, named_there);
            let folder = file.parent().unwrap_or(Path::new(""));
            for path in workflows.iter().map(|name| without_parents(&folder.join(name))) {
                if watched.files.contains(&path) || watched.files.len() >= WORKFLOWS_MAX {
                    continue;
                }
                watched.files.push(path.clone());
                open.extend(named(&path).map(|named| (path, named)));
            }
        }
        watched.scripts.sort();
        watched.scripts.dedup();
        watched.projects.dedup();
        watched
    }

    /// Adds what a workflow file names.
    fn add(&mut self, file: &Path, Named { sources, folders, .. }: Named) {
        let folder = file.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let within = |name: &str| {
            let path = if folder == Path::new(".") { PathBuf::from(name) } else { folder.join(name) };
            plain(&path)
        };
        self.granted.extend(folders.iter().map(|name| within(name)));
        for source in sources {
            let path = within(&source);
            let beside = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new(".")).to_owned();
            if Path::new(&source).extension().is_some_and(|ending| ending == "wasm") {
                // A component that this project makes, and not one that only is in its folder.
                let project = Project::of(&beside).filter(|project| project.component() == path);
                self.projects.extend(project);
            } else {
                self.scripts.push(beside);
            }
            self.files.push(path);
        }
    }

    /// All watched files as they are now.
    pub(super) fn look(&self) -> Seen {
        let mut seen = Seen::new();
        for file in &self.files {
            see(file, &mut seen);
        }
        for project in &self.projects {
            below(&project.folder, &|_| true, 0, &mut seen);
        }
        for folder in &self.granted {
            below(folder, &|_| true, 0, &mut seen);
        }
        let is_of_script = |path: &Path| {
            path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| OF_SCRIPTS.contains(&ending))
        };
        for folder in &self.scripts {
            below(folder, &is_of_script, 0, &mut seen);
        }
        seen
    }

    /// Whether a file is written by the tools of a project rather than by a person.
    pub(super) fn is_made(&self, path: &Path) -> bool {
        let is_lock = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.contains("lock"));
        self.projects
            .iter()
            .any(|project| project.component() == path || (is_lock && path.starts_with(&project.folder)))
    }
}

/// The files that differ.
pub(super) fn changed(before: &Seen, after: &Seen) -> Vec<PathBuf> {
    let mut all: Vec<&PathBuf> = before.keys().chain(after.keys()).collect();
    all.sort();
    all.dedup();
    all.into_iter().filter(|path| before.get(*path) != after.get(*path)).cloned().collect()
}

/// Returns whether a project's component is missing, or older than one of its sources.
pub(super) fn is_stale(project: &Project, seen: &Seen) -> bool {
    let Some((made, _)) = seen.get(&project.component()) else { return true };
    seen.iter().any(|(path, (written, _))| is_source(project, path) && written > made)
}

/// Returns whether a file may be a source of a project.
pub(super) fn is_source(project: &Project, path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let is_in = project.folder == Path::new(".") && path.is_relative() || path.starts_with(&project.folder);
    is_in && !NO_SOURCES.contains(&ending)
}

/// The path without `.` parts, so that a file has one name.
pub(super) fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

/// The path without `.` and `..` parts, as far as those are below its first one.
fn without_parents(path: &Path) -> PathBuf {
    let mut parts: Vec<Component<'_>> = Vec::new();
    for part in path.components().filter(|part| *part != Component::CurDir) {
        match (part, parts.last()) {
            (Component::ParentDir, Some(Component::Normal(_))) => _ = parts.pop(),
            _ => parts.push(part),
        }
    }
    parts.into_iter().collect()
}

fn see(path: &Path, seen: &mut Seen) {
    if let Ok(metadata) = std::fs::metadata(path)
        && metadata.is_file()
        && seen.len() < FILES_MAX
    {
        let written = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        seen.insert(plain(path), (written, metadata.len()));
    }
}

fn below(folder: &Path, is_watched: &dyn Fn(&Path) -> bool, depth: usize, seen: &mut Seen) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') || seen.len() >= FILES_MAX {
            continue;
        }
        let path = if folder == Path::new(".") { PathBuf::from(&*name) } else { entry.path() };
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && (depth >= DEPTH_MAX || SKIPPED.contains(&&*name)) => {}
            Ok(kind) if kind.is_dir() => below(&path, is_watched, depth + 1, seen),
            Ok(_) if is_watched(&path) => see(&path, seen),
            _ => {}
        }
    }
}

/// The paths in a workflow.
#[derive(Default)]
struct Named {
    /// Of components and scripts.
    sources: Vec<String>,
    /// Of folders that programs are granted.
    folders: Vec<String>,
    /// Of workflows that steps run.
    workflows: Vec<String>,
}

/// The paths in a workflow; `None` if it is no YAML.
fn named(file: &Path) -> Option<Named> {
    let text = std::fs::read_to_string(file).ok()?;
    let source = Source::new(&file.to_string_lossy(), &text);
    let root = syntax::parse(&source, &mut Diagnostics::new(source.clone()))?;
    let mut found = Named::default();
    collect(&root, &mut found);
    found.sources.sort();
    found.sources.dedup();
    Some(found)
}

/// Texts that look like the path of a component or script. Other texts that do are harmless: a file
/// more is watched.
fn collect(node: &Node, found: &mut Named) {
    if let Some(entries) = node.as_mapping() {
        for entry in entries {
            if entry.key == "folders" {
                let folders = entry.value.as_mapping().into_iter().flatten();
                found.folders.extend(folders.filter_map(|folder| Some(folder.value.as_text()?.to_owned())));
            }
            if entry.key == "workflow" {
                found.workflows.extend(entry.value.as_text().map(str::to_owned));
            }
            collect(&entry.value, found);
        }
    } else if let Some(items) = node.as_sequence() {
        for item in items {
            collect(item, found);
        }
    } else if let Some(text) = node.as_text()
        && !text.contains(['\n', '$', ':'])
        && let Some((_, ending)) = text.rsplit_once('.')
        && (ending == "wasm" || OF_SCRIPTS.contains(&ending))
    {
        found.sources.push(text.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn a_file_has_one_name() {
        for path in ["./a/b", "a/./b", "a/b"] {
            assert_eq!(plain(Path::new(path)), Path::new("a/b"));
        }
    }

    #[test]
    fn what_a_workflow_names_and_what_makes_it_is_watched() {
        let text = "components: { own: ./own.wasm, other: { source: lib/other.wasm, folders: { /docs: ./docs } } }\nsteps:\n  - { id: a, uses: own }\n  \
                    - { id: b, uses: scripts/order.js }\n  - { id: c, workflow: stock/count.yaml }\n";
        let count =
            "steps:\n  - { id: a, uses: ./count.js }\n  - { id: again, if: \"${ false }\", workflow: ../flow.yaml }\n";
        let folder = folder(&[
            ("flow.yaml", text),
            ("Cargo.toml", "[package]\nname = \"own\"\n"),
            ("src/lib.rs", ""),
            ("target/x.rs", ""),
            (".hidden/x.rs", ""),
            ("lib/Cargo.toml", "[package]\nname = \"not-other\"\n"),
            ("lib/other.wasm", ""),
            ("scripts/order.js", ""),
            ("scripts/deep/prices.json", ""),
            ("scripts/notes.txt", ""),
            ("docs/a.txt", ""),
            ("stock/count.yaml", count),
            ("stock/count.js", ""),
        ]);
        let file = folder.path().join("flow.yaml");
        let watched = Watched::of(&file, &["csv=@/nowhere/x.csv".to_owned()], None);
        let names: Vec<&str> = watched.projects.iter().map(|project| project.name.as_str()).collect();
        assert_eq!(names, ["own"], "lib/other.wasm is not made by the project beside it");
        let seen = watched.look();
        let relative = |path: &PathBuf| path.strip_prefix(folder.path()).unwrap().to_str().unwrap().to_owned();
        let paths: Vec<String> = seen.keys().map(relative).collect();
        let named = [
            "flow.yaml",
            "src/lib.rs",
            "docs/a.txt",
            "lib/other.wasm",
            "scripts/order.js",
            "scripts/deep/prices.json",
            "stock/count.yaml",
            "stock/count.js",
        ];
        for expected in named {
            assert!(paths.contains(&expected.to_owned()), "{expected}: {paths:?}");
        }
        assert!(!paths.iter().any(|path| path.starts_with("target") || path.starts_with('.')), "{paths:?}");
        assert!(is_stale(&watched.projects[0], &seen));
        assert!(is_source(&watched.projects[0], &folder.path().join("src/lib.rs")));
        assert!(!is_source(&watched.projects[0], &file));
        // A file that is no YAML for a moment names what it named before.
        std::fs::write(&file, "steps: [").unwrap();
        let after = Watched::of(&file, &[], Some(watched.clone()));
        assert_eq!(after, watched);
        assert_eq!(changed(&seen, &after.look()), [file]);
    }
}
