//! Guesses what was meant.

use std::collections::BTreeSet;

/// Cost of swapping two neighbouring letters, the likeliest mistake. Letters in another order cost
/// the same: `whit` is `with` and not `wait`.
const SWAP: usize = 2;
/// Cost of any other edit.
const EDIT: usize = 3;

/// Fewest letters of a part that stands for the whole name: `max` alone is too vague.
const PART_LETTERS_MIN: usize = 4;

/// The candidate closest to `word`, if one is close enough to be a misspelling: at most a third of
/// the letters differ, or all are there in another order. Otherwise the only candidate that
/// contains the word or is contained in it: `parallel` is `max-parallel`.
pub(crate) fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A long word is no misspelling of a short one, and the table below is quadratic.
    if word.len() > 64 {
        return None;
    }
    let word = plain(word);
    let mut nearest: Option<((usize, bool, usize), &str)> = None;
    let mut parts = Vec::new();
    for candidate in candidates {
        let name = plain(candidate);
        let (letters, wanted) = (word.chars().count(), name.chars().count());
        let cost = if is_shuffled(&word, &name) { SWAP } else { distance(&word, &name) };
        let cost = if word == name { 0 } else { cost };
        // If every letter differs, the two are unrelated.
        if cost <= EDIT * (letters.max(wanted) / 3).clamp(1, 3) && cost < EDIT * letters.max(wanted) {
            // A tie goes to the same first letter, then to the closer length.
            let rank = (cost, word.chars().next() != name.chars().next(), letters.abs_diff(wanted));
            if nearest.is_none_or(|(best, _)| rank < best) {
                nearest = Some((rank, candidate));
            }
        } else if is_part(&word, &name) || is_part(&name, &word) {
            parts.push(candidate);
        }
    }
    match (nearest, parts.as_slice()) {
        (Some((_, meant)), _) => Some(meant),
        (None, [only]) => Some(only),
        _ => None,
    }
}

/// A name in plain spelling: no capitals, and dashes for underscores and blanks.
pub(crate) fn plain(text: &str) -> String {
    text.to_lowercase().replace(['_', ' '], "-")
}

/// Returns whether two words have the same first letter and the same letters.
fn is_shuffled(a: &str, b: &str) -> bool {
    let sorted = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    a.chars().next() == b.chars().next() && a.len() == b.len() && sorted(a) == sorted(b)
}

/// Returns whether `name` begins with `part`, or has it between dashes.
fn is_part(part: &str, name: &str) -> bool {
    part.chars().count() >= PART_LETTERS_MIN && (name.starts_with(part) || name.split('-').any(|piece| piece == part))
}

/// Lists names as "`a`, `b` or `c`", each once.
pub(crate) fn one_of<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    listed(names, "or")
}

/// Lists names as "`a`, `b` and `c`", each once.
pub(crate) fn all_of<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    listed(names, "and")
}

fn listed<'a>(names: impl IntoIterator<Item = &'a str>, before_last: &str) -> String {
    let mut seen = BTreeSet::new();
    let names = names.into_iter().filter(|name| seen.insert(*name));
    let mut names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    match names.pop() {
        None => "nothing".to_owned(),
        Some(last) if names.is_empty() => last,
        Some(last) => format!("{} {before_last} {last}", names.join(", ")),
    }
}

/// The edit distance with swaps of neighbours (optimal string alignment), weighted.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).map(|letters| letters * EDIT).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i * EDIT];
        for j in 1..=b.len() {
            let change = if a[i - 1] == b[j - 1] { 0 } else { EDIT };
            let mut best = (rows[i - 1][j] + EDIT).min(row[j - 1] + EDIT).min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + SWAP);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspellings_are_found_and_unrelated_words_are_not() {
        let keys = ["for-each", "max-parallel", "timeout", "uses"];
        assert_eq!(closest("foreach", keys), Some("for-each"));
        assert_eq!(closest("for_each", keys), Some("for-each"));
        assert_eq!(closest("timeuot", keys), Some("timeout"));
        assert_eq!(closest("maxParallel", keys), Some("max-parallel"));
        assert_eq!(closest("colour", keys), None);
        assert_eq!(closest("x", keys), None);
    }

    #[test]
    fn the_nearest_is_chosen_and_a_swap_is_nearer_than_a_change() {
        let keys = ["wait", "with", "when", "if", "id", "retry", "max-parallel"];
        assert_eq!(closest("whit", keys), Some("with"));
        assert_eq!(closest("wiht", keys), Some("with"));
        assert_eq!(closest("wiat", keys), Some("wait"));
        assert_eq!(closest("wen", keys), Some("when"));
        assert_eq!(closest("di", keys), Some("id"));
        assert_eq!(closest("fi", keys), Some("if"));
        assert_eq!(closest("rtery", keys), Some("retry"));
        assert_eq!(closest("x", ["n", "m"]), None);
        assert_eq!(closest("smtp", ["http", "kv", "log"]), None);
    }

    #[test]
    fn a_part_of_one_name_is_that_name() {
        let steps = ["download-images", "resize", "resize-again"];
        assert_eq!(closest("download", steps), Some("download-images"));
        assert_eq!(closest("images", steps), Some("download-images"));
        assert_eq!(closest("resize-them-all", steps), Some("resize"));
        assert_eq!(closest("again", ["resize-it-again", "call-it-again"]), None);
        assert_eq!(closest("im", steps), None);
    }

    #[test]
    fn distance_counts_a_swap_once() {
        assert_eq!(distance("abcd", "abdc"), SWAP);
        assert_eq!(distance("", "abc"), 3 * EDIT);
        assert_eq!(distance("kitten", "sitting"), 3 * EDIT);
    }

    #[test]
    fn a_list_names_each_once() {
        assert_eq!(one_of(["a", "b", "a"]), "`a` or `b`");
        assert_eq!(all_of(["a", "b", "c", "b"]), "`a`, `b` and `c`");
        assert_eq!(one_of([]), "nothing");
    }
}
