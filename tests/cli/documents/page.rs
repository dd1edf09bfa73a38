//! A page: its blocks, the commands in them with what is shown of their output, and what of that is
//! compared.

use super::root;
use regex::Regex;
use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

pub(super) struct Page {
    path: PathBuf,
    lines: Vec<String>,
    pub(super) blocks: Vec<Block>,
}

pub(super) struct Block {
    /// The words after the fence.
    pub(super) words: String,
    pub(super) text: String,
    indent: usize,
    /// The lines of the page between the fences, from 0.
    lines: Range<usize>,
}

/// A command of a block and the lines of the page that show its output.
pub(super) struct Command {
    pub(super) text: String,
    shown: Range<usize>,
    indent: usize,
}

impl Page {
    pub(super) fn read(path: PathBuf) -> Self {
        let text = std::fs::read_to_string(root().join(&path)).unwrap();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut blocks = Vec::new();
        let mut open = None;
        for (number, line) in lines.iter().enumerate() {
            let Some(words) = line.trim_start().strip_prefix("```") else { continue };
            open = match open {
                None => Some((number, words.trim().to_owned(), line.len() - line.trim_start().len())),
                Some((fence, words, indent)) => {
                    let within = fence + 1..number;
                    let text = lines[within.clone()].iter().map(|line| stripped(line, indent).to_owned() + "\n");
                    blocks.push(Block { words, text: text.collect(), indent, lines: within });
                    None
                }
            };
        }
        assert!(open.is_none(), "{}: a block is not closed", path.display());
        Self { path, lines, blocks }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn at(&self, block: &Block) -> String {
        format!("{}:{}", self.path.display(), block.lines.start)
    }

    pub(super) fn has_commands(&self) -> bool {
        self.blocks.iter().any(Block::is_session)
    }

    /// All commands, in order.
    pub(super) fn commands(&self) -> Vec<Command> {
        self.blocks.iter().filter(|block| block.is_session()).flat_map(|block| self.commands_of(block)).collect()
    }

    pub(super) fn commands_of(&self, block: &Block) -> Vec<Command> {
        let mut commands: Vec<Command> = Vec::new();
        for number in block.lines.clone() {
            let line = stripped(&self.lines[number], block.indent);
            if let Some(text) = line.strip_prefix("$ ") {
                let shown = number + 1..number + 1;
                commands.push(Command { text: text.to_owned(), shown, indent: block.indent });
                continue;
            }
            let last = commands.last_mut();
            let last = last.unwrap_or_else(|| panic!("{}: output without a command", self.at(block)));
            if let Some(text) = line.strip_prefix("> ").filter(|_| last.shown.is_empty()) {
                last.text += &format!("\n{text}");
                last.shown = number + 1..number + 1;
            } else {
                last.shown.end = number + 1;
            }
        }
        commands
    }

    /// Links within the repository that lead nowhere: to no file, or to no heading of a page.
    pub(super) fn broken_links(&self) -> Vec<String> {
        let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
        let is_code = |number: &usize| self.blocks.iter().any(|block| block.lines.contains(number));
        let prose = self.lines.iter().enumerate().filter(|(number, _)| !is_code(number));
        // A link may be cut by the end of a line within its text, never within its target.
        let targets = prose.flat_map(|(number, line)| link.captures_iter(line).map(move |found| (number + 1, found)));
        let broken = targets.filter_map(|(number, found)| {
            let target = found.get(1).unwrap().as_str();
            let (path, heading) = target.split_once('#').map_or((target, None), |(path, to)| (path, Some(to)));
            let path = if path.is_empty() { self.path.clone() } else { self.path.parent().unwrap().join(path) };
            let leads = target.contains("://")
                || root().join(&path).exists() && heading.is_none_or(|heading| headings(&path).contains(heading));
            (!leads).then(|| format!("{}:{number}: {target} leads nowhere", self.path.display()))
        });
        broken.collect()
    }

    fn shown(&self, command: &Command) -> String {
        let lines = self.lines[command.shown.clone()].iter().map(|line| stripped(line, command.indent));
        lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    /// Where the page shows something else than was printed.
    pub(super) fn differences(&self, printed: &[String]) -> Vec<String> {
        let commands = self.commands();
        assert_eq!(commands.len(), printed.len(), "{}: the shell has ended before", self.path.display());
        let pairs = commands.iter().zip(printed);
        let different = pairs.filter(|(command, printed)| !fits(&self.shown(command), printed));
        let text = |(command, printed): (&Command, &String)| {
            let (path, line, shown) = (self.path.display(), command.shown.start, self.shown(command));
            format!("{path}:{line}: $ {}\n--- shown\n{shown}\n--- printed\n{printed}", command.text)
        };
        different.map(text).collect()
    }

    /// Writes what was printed in the place of what the page shows, where that differs.
    pub(super) fn write(&self, printed: &[String]) {
        let mut lines = self.lines.clone();
        for (command, printed) in self.commands().iter().zip(printed).rev() {
            let shown = self.shown(command);
            if !fits(&shown, printed) && !shown.lines().any(|line| line == "…") {
                let indent = " ".repeat(command.indent);
                let printed = printed.lines().map(|line| format!("{indent}{line}").trim_end().to_owned());
                lines.splice(command.shown.clone(), printed.collect::<Vec<_>>());
            }
        }
        if lines != self.lines {
            std::fs::write(root().join(&self.path), lines.join("\n") + "\n").unwrap();
        }
    }
}

impl Block {
    pub(super) fn language(&self) -> &str {
        self.words.split([' ', ',']).next().unwrap()
    }

    pub(super) fn runs(&self) -> bool {
        !self.words.split(' ').any(|word| word == "not-run")
    }

    pub(super) fn is_session(&self) -> bool {
        self.language() == "console" && self.runs()
    }

    /// Its file is there for the commands of the page.
    pub(super) fn is_written(&self) -> bool {
        ["js", "python", "ts", "yaml"].contains(&self.language())
    }

    /// A workflow that is no file of the repository.
    pub(super) fn is_workflow(&self) -> bool {
        let is_setting = self.name().is_some_and(|name| name.starts_with("~/"));
        self.language() == "yaml" && self.runs() && self.file().is_none() && !is_setting
    }

    /// What the first line names: a file.
    pub(super) fn name(&self) -> Option<&str> {
        let first = self.text.lines().next()?;
        let name = first.strip_prefix("# ").or_else(|| first.strip_prefix("// "))?.trim();
        let extension = name.rsplit_once('.')?.1;
        (!name.contains(' ') && ["js", "py", "rs", "sh", "toml", "ts", "wit", "yaml"].contains(&extension))
            .then_some(name)
    }

    /// The same where it is a file of the repository.
    pub(super) fn file(&self) -> Option<&str> {
        self.name().filter(|name| name.contains('/') && root().join(name).is_file())
    }

    /// The text without the line that names the file.
    pub(super) fn body(&self) -> &str {
        self.text.split_once('\n').map_or("", |(_, body)| body)
    }
}

fn stripped(line: &str, indent: usize) -> &str {
    &line[indent.min(line.len() - line.trim_start().len())..]
}

/// The names by which links reach the headings of a page.
fn headings(path: &Path) -> HashSet<String> {
    let text = std::fs::read_to_string(root().join(path)).unwrap();
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let name = |heading: &str| {
        let kept = heading.to_lowercase().replace(' ', "-");
        kept.chars().filter(|one| one.is_alphanumeric() || "-_".contains(*one)).collect()
    };
    headings.map(name).collect()
}

pub(super) fn without_leading_comments(text: &str) -> String {
    let is_comment = |line: &&str| line.is_empty() || line.starts_with('#') || line.starts_with("//");
    text.lines().skip_while(is_comment).map(|line| line.to_owned() + "\n").collect()
}

/// Whether this was printed. A line `…` stands for any lines.
fn fits(shown: &str, printed: &str) -> bool {
    let (shown, printed) = (comparable(shown), comparable(printed));
    let mut parts = shown.split(|line| line == "…");
    let first = parts.next().unwrap();
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = (0..=rest.len()).find(|at| rest[*at..].starts_with(part)) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

/// The lines without what differs from run to run and from machine to machine.
fn comparable(text: &str) -> Vec<String> {
    const FILTERS: &[(&str, &str)] = &[
        (r"\b(under )?\d+(\.\d+)? (µs|ms|s|min|h|d)\b( \d+ (ms|s|min|h)\b)?", "[time]"),
        (r"\d{4}-\d\d-\d\d", "[date]"),
        (r"\d\d:\d\d:\d\d(\.\d+)?Z?", "[clock]"),
        (r"\b[0-9a-f]{12}-[0-9a-f]{10}\b", "[run]"),
        (r"\b[0-9a-f]{32,64}\b", "[digest]"),
        (r"~[0-9a-f]{16}\b", "~[digest]"),
        (r"\bprocess \d+", "process [n]"),
        (r#""request-id":"[^"]*""#, "[request]"),
        (r"\bwfh_[0-9a-f]+_[\w-]{43}_[0-9a-f]{8}\b", "[token]"),
        (r"/a/[\w-]{43}", "/a/[link]"),
        (r"(running|waiting|paused)  +\d+", "$1  [n]"),
        (r"(?m), \d+\.\d [KM]iB$", ", [size]"),
        (r" {2,}", "  "),
    ];
    let filters = FILTERS.iter().map(|(pattern, stands)| (Regex::new(pattern).unwrap(), *stands));
    let text = filters.fold(text.to_owned(), |text, (pattern, stands)| pattern.replace_all(&text, stands).into_owned());
    let lines: Vec<String> = text.lines().map(|line| line.trim_end().to_owned()).collect();
    let end = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    lines[..end].to_vec()
}
