//! The list of mutants: plain text, one file for each room.
//!
//! ```text
//! file src/scheduler/sleep.rs
//!
//! = notify-without-fence
//!   A producer may read the counts before its push is seen.
//! by loom:parking shuttle
//! - // Partner: the fence in `park`.
//! - «fence(Ordering::SeqCst);»
//! +
//! ```
//!
//! Lines of `-` are text that the file has exactly once; the part in `«»` (or else all of it) is
//! replaced by the lines of `+`. Blanks and line ends do not matter. A mutant may have several such
//! pairs. A tier may be followed by filters of its tests: `unit:run::tests,journal::`. `equivalent`
//! and a proof replace `by` if no test can distinguish the mutant from the source. Lines of `#` are
//! comments.

use std::collections::BTreeMap;
use std::path::Path;

/// A fault to be put into the source.
pub(crate) struct Mutant {
    pub(crate) id: String,
    /// What goes wrong.
    pub(crate) what: String,
    pub(crate) file: String,
    pub(crate) fate: Fate,
    pub(crate) hunks: Vec<Hunk>,
}

/// A text of the file and its replacement.
pub(crate) struct Hunk {
    /// The text, without its marks.
    pub(crate) old: String,
    /// The range that is replaced, in bytes.
    pub(crate) part: std::ops::Range<usize>,
    pub(crate) new: String,
}

pub(crate) enum Fate {
    /// Tests that should fail.
    Caught(Vec<Tests>),
    /// Why no test can fail.
    Equivalent(String),
}

/// Tests of a tier: all, or those whose names match one of the filters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Tests {
    pub(crate) tier: String,
    pub(crate) filters: Vec<String>,
}

impl std::fmt::Display for Tests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.tier)?;
        if self.filters.is_empty() { Ok(()) } else { write!(f, ":{}", self.filters.join(",")) }
    }
}

/// All mutants of the project.
pub(crate) fn read(root: &Path) -> Result<Vec<Mutant>, String> {
    let folder = root.join("tests/mutants/list");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    let mut mutants: Vec<Mutant> = Vec::new();
    for file in files {
        let name = file.display();
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{name}: {error}"))?;
        mutants.extend(parse(&text).map_err(|why| format!("{name}: {why}"))?);
    }
    let mut ids: Vec<&str> = mutants.iter().map(|mutant| mutant.id.as_str()).collect();
    ids.sort_unstable();
    match ids.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => Err(format!("two mutants are called {}", twice[0])),
        None => Ok(mutants),
    }
}

pub(crate) fn by_file(mutants: &[Mutant]) -> BTreeMap<&str, Vec<&Mutant>> {
    let mut files: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants {
        files.entry(&mutant.file).or_default().push(mutant);
    }
    files
}

pub(crate) fn parse(text: &str) -> Result<Vec<Mutant>, String> {
    let mut file = "";
    let mut mutants = Vec::new();
    for block in text.split("\n\n") {
        let lines: Vec<&str> = block.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()).collect();
        match lines.first() {
            None => {}
            Some(first) if first.starts_with("file ") => file = first["file ".len()..].trim(),
            Some(first) => mutants.push(mutant(file, &lines).map_err(|why| format!("{first}: {why}"))?),
        }
    }
    Ok(mutants)
}

fn mutant(file: &str, lines: &[&str]) -> Result<Mutant, String> {
    let of =
        |mark: &str| -> Vec<&str> { lines.iter().filter_map(|line| line.strip_prefix(mark)).map(str::trim).collect() };
    let known = ["= ", "  ", "by ", "equivalent ", "- ", "+"];
    if let Some(odd) = lines.iter().find(|line| !known.iter().any(|mark| line.starts_with(mark))) {
        return Err(format!("a line that begins with none of {known:?}: {odd}"));
    }
    let (by, proof) = (of("by ").join(" "), of("equivalent ").join(" "));
    let fate = match (by.is_empty(), proof.is_empty()) {
        (false, true) => Fate::Caught(by.split(' ').map(tests).collect()),
        (true, false) => Fate::Equivalent(proof),
        _ => return Err("one of `by` and `equivalent` is to be there".to_owned()),
    };
    let hunks = lines.chunk_by(|line, next| !(line.starts_with('+') && next.starts_with("- ")));
    let hunks = hunks.map(hunk).collect::<Result<Vec<_>, _>>()?;
    let (id, what) = (of("= ").join(" "), of("  ").join(" "));
    if file.is_empty() || id.is_empty() || what.is_empty() {
        return Err("it has no file, no id, or nothing that says what is wrong".to_owned());
    }
    Ok(Mutant { id, what, file: file.to_owned(), fate, hunks })
}

fn hunk(lines: &[&str]) -> Result<Hunk, String> {
    let of = |mark| -> Vec<&str> { lines.iter().filter_map(|line| line.strip_prefix(mark)).map(str::trim).collect() };
    let (marked, new) = (of("- ").join("\n"), of("+"));
    let old = marked.replace(['«', '»'], "");
    let part = match (marked.find('«'), marked.find('»')) {
        (Some(from), Some(to)) if from < to => from..to - '«'.len_utf8(),
        (None, None) => 0..old.len(),
        _ => return Err("the marks « and » do not fit".to_owned()),
    };
    if old.is_empty() || new.is_empty() {
        return Err("there is no text, or nothing that replaces it".to_owned());
    }
    Ok(Hunk { old, part, new: new.join("\n") })
}

pub(crate) fn tests(text: &str) -> Tests {
    let (tier, filters) = text.split_once(':').unwrap_or((text, ""));
    let filters = filters.split(',').filter(|filter| !filter.is_empty()).map(str::to_owned).collect();
    Tests { tier: tier.to_owned(), filters }
}
