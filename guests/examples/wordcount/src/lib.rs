//! Counts words, as a map over parts of a text and a reduce of their counts.
//!
//! `run` splits the text and spawns the others. A workflow can do it with `for-each` over `map`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wfhost_guest::{Ctx, Problem, try_join_all};

type Counts = BTreeMap<String, u64>;

#[derive(Deserialize, Serialize)]
struct Part {
    text: String,
}

#[derive(Deserialize, Serialize)]
struct Partials {
    partials: Vec<Counts>,
}

#[derive(Deserialize)]
struct Whole {
    text: String,
    #[serde(default = "four")]
    parts: usize,
}

fn four() -> usize {
    4
}

async fn map(_ctx: Ctx, part: Part) -> Result<Counts, Problem> {
    Ok(count(&part.text))
}

async fn reduce(_ctx: Ctx, input: Partials) -> Result<Counts, Problem> {
    Ok(merge(input.partials))
}

async fn run(ctx: Ctx, whole: Whole) -> Result<Counts, Problem> {
    let maps = split(&whole.text, whole.parts).map(|text| ctx.spawn("map", Part { text: text.to_owned() }));
    let partials = try_join_all(maps).await?;
    ctx.spawn("reduce", Partials { partials }).await
}

/// A word is a run of letters and digits; case does not count.
fn count(text: &str) -> Counts {
    let mut counts = Counts::new();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    counts
}

fn merge(partials: Vec<Counts>) -> Counts {
    let mut all = Counts::new();
    for (word, count) in partials.into_iter().flatten() {
        *all.entry(word).or_default() += count;
    }
    all
}

/// Parts of about the same length, cut where a word ends.
fn split(text: &str, parts: usize) -> impl Iterator<Item = &str> {
    let length = text.len().div_ceil(parts.max(1)).max(1);
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut cut = length.min(rest.len());
        while !rest.is_char_boundary(cut) {
            cut += 1;
        }
        let word = rest[cut..].find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len() - cut);
        let (part, after) = rest.split_at(cut + word);
        rest = after;
        Some(part)
    })
}

wfhost_guest::export! { "map" => map, "reduce" => reduce, "run" => run }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_count_as_much_as_the_whole() {
        let text = "The quick brown fox; the LAZY dog — the Ärger, the ärger. a1 a1 a1";
        for parts in 1..=text.len() + 1 {
            assert_eq!(merge(split(text, parts).map(count).collect()), count(text), "{parts} parts");
            assert_eq!(split(text, parts).collect::<String>(), text);
        }
        assert_eq!(count(text)["the"], 4);
        assert_eq!(count(text)["ärger"], 2);
        assert_eq!(split("", 4).count(), 0);
    }
}
