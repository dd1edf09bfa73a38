//! Puts mutants into a source, each behind a switch: `if` the mutant is on, its text, `else` the
//! original.

use super::list::{Hunk, Mutant};
use std::ops::Range;

/// What the room `base` of a source with mutants must contain.
pub(crate) const SWITCH: &str = r#"
/// Whether this mutant is on.
pub(crate) fn mutant(id: &str) -> bool {
    static ON: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    ON.get_or_init(|| std::env::var("WFHOST_MUTANT").unwrap_or_default()) == id
}
"#;

/// Replacements and their ranges.
struct Patch<'a> {
    place: Range<usize>,
    id: &'a str,
    new: &'a str,
}

/// The source with all of these in it, or what does not fit.
pub(crate) fn weave(source: &str, mutants: &[&Mutant]) -> Result<String, Vec<String>> {
    let squeezed = Squeezed::new(source);
    let mut misfits = Vec::new();
    let mut patches = Vec::new();
    for (mutant, hunk) in mutants.iter().flat_map(|mutant| mutant.hunks.iter().map(move |hunk| (mutant, hunk))) {
        match squeezed.find(hunk) {
            Ok(place) => patches.push(Patch { place, id: &mutant.id, new: &hunk.new }),
            Err(why) => misfits.push(format!("{}: {why}", mutant.id)),
        }
    }
    // Outer ones before those within them.
    patches.sort_by_key(|patch| (patch.place.start, std::cmp::Reverse(patch.place.end)));
    for (at, Patch { place, id, .. }) in patches.iter().enumerate() {
        let crosses = |other: &&Patch| other.place.start < place.end && other.place.end > place.end;
        misfits.extend(patches[at..].iter().find(crosses).map(|other| format!("{id} and {} overlap", other.id)));
    }
    if misfits.is_empty() { Ok(woven(source, 0..source.len(), &patches)) } else { Err(misfits) }
}

/// A range of the source with the patches inside it.
fn woven(source: &str, range: Range<usize>, patches: &[Patch]) -> String {
    let mut text = String::new();
    let (mut at, mut next) = (range.start, 0);
    while let Some(Patch { place, id, new }) = patches.get(next) {
        let inner = patches[next + 1..].iter().take_while(|other| other.place.start < place.end).count();
        text.push_str(&source[at..place.start]);
        let old = woven(source, place.clone(), &patches[next + 1..=next + inner]);
        let is_statement = old.ends_with([';', '}']);
        let switch = format!("if crate::base::mutant({id:?}) {{ {new} }} else {{ {old} }}");
        text.push_str(&if is_statement { switch } else { format!("({switch})") });
        (at, next) = (place.end, next + 1 + inner);
    }
    text + &source[at..range.end]
}

/// A text whose blanks do not count, with the positions of its other characters.
struct Squeezed {
    text: String,
    /// For each of its bytes, the position in the source.
    places: Vec<usize>,
}

impl Squeezed {
    fn new(source: &str) -> Self {
        let (mut text, mut places) = (String::new(), Vec::new());
        for (at, letter) in source.char_indices().filter(|(_, letter)| !letter.is_whitespace()) {
            text.push(letter);
            places.extend(at..at + letter.len_utf8());
        }
        Self { text, places }
    }

    /// The position in the source of the part that is replaced.
    fn find(&self, Hunk { old: whole, part, .. }: &Hunk) -> Result<Range<usize>, String> {
        let squeeze = |text: &str| Self::new(text).text;
        let old = squeeze(whole);
        let mut found = self.text.match_indices(&old).map(|(at, _)| at);
        let at = match (found.next(), found.next()) {
            (Some(at), None) => at,
            (None, _) => return Err(format!("there is no such text:\n{whole}")),
            (Some(_), Some(_)) => return Err(format!("the text is there more than once:\n{whole}")),
        };
        let from = at + squeeze(&whole[..part.start]).len();
        let to = from + squeeze(&whole[part.clone()]).len();
        if from == to { Err("it replaces nothing".to_owned()) } else { Ok(self.places[from]..self.places[to - 1] + 1) }
    }
}
