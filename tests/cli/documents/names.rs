//! Names of the source in the pages: each file, and each `Type::item`, is there; and where a page
//! tells the way of something, each function is in the file that is named before it.

use super::{Page, fail_if_any, pages, root};
use regex::Regex;
use std::path::{Path, PathBuf};

/// Every source file of the library with its text.
fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
}

/// A name in backticks outside of blocks.
struct Name {
    line: usize,
    text: String,
    /// Whether it stands where the way of something is told.
    is_on_way: bool,
}

fn names(page: &Page) -> Vec<Name> {
    let text = std::fs::read_to_string(root().join(page.path())).unwrap();
    let code = Regex::new("`([^` ]+)`").unwrap();
    let (mut is_block, mut is_on_way) = (false, false);
    let mut names = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        is_block ^= line.trim_start().starts_with("```");
        if is_block {
            continue;
        }
        if line.starts_with('#') {
            is_on_way = line.starts_with("## The way of");
        }
        let of_line = code.captures_iter(line).map(|name| name[1].to_owned());
        names.extend(of_line.map(|text| Name { line: number, text, is_on_way }));
    }
    names
}

#[test]
fn every_file_and_type_that_a_page_names_is_there() {
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    let is_defined = |name: &str, item: &str| {
        let owner = Regex::new(&format!(r"\b(struct|enum|trait|type) {name}\b")).unwrap();
        let item = Regex::new(&format!(r"\b(fn|const) {item}\b|(?m)^\s+(pub )?{item}\b")).unwrap();
        files.iter().any(|(_, text)| owner.is_match(text))
            && files.iter().any(|(_, text)| text.contains(name) && item.is_match(text))
    };
    let source = Regex::new(r"^[\w./-]+/[\w.-]+\.rs$").unwrap();
    let member = Regex::new(r"^([A-Z]\w*)::([a-z_]\w*|[A-Z]\w*)$").unwrap();
    let function = Regex::new(r"^[a-z][a-z0-9_]*$").unwrap();
    let mut problems = Vec::new();
    // The history names what was there before.
    let is_of_now = |page: &&Page| !page.path().starts_with("guests") && page.path() != Path::new("CHANGELOG.md");
    for page in pages().iter().filter(is_of_now) {
        let mut last = None;
        for Name { line, text: name, is_on_way } in names(page) {
            let at = format!("{}:{line}", page.path().display());
            if source.is_match(&name) && !name.contains("NAME") {
                let places = ["", "src", "tests"].map(|folder| root().join(folder).join(&name));
                last = places.into_iter().find(|place| place.is_file());
                if last.is_none() {
                    problems.push(format!("{at}: no file {name}"));
                }
            } else if let Some(parts) = member.captures(&name) {
                if !is_defined(&parts[1], &parts[2]) {
                    problems.push(format!("{at}: no {name}"));
                }
            } else if is_on_way
                && function.is_match(&name)
                && let Some(file) = &last
            {
                let text = std::fs::read_to_string(file).unwrap();
                if !text.contains(&format!("fn {name}")) {
                    problems.push(format!("{at}: no function {name} in {}", file.display()));
                }
            }
        }
    }
    fail_if_any(&problems);
}
