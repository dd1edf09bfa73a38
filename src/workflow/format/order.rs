//! Moves the lines of entries, so that keys have their order.

use super::layout::{Kind, Line};
use super::outline::{Ordered, Outline};

/// Sorts the entries of all mappings that have an order. Each moves with the comments and blank
/// lines above it; what is above the first key of a file stays there.
pub(super) fn sort(lines: &mut [Line], outline: &Outline) {
    for mapping in &outline.ordered {
        if !mapping.entries.is_sorted_by_key(|(_, rank)| *rank) {
            sort_mapping(lines, mapping);
        }
    }
}

/// The last line of a mapping, with the comments below it that belong to its last entry.
fn last_line(lines: &[Line], mapping: &Ordered) -> usize {
    let mut last = mapping.last;
    for (at, line) in lines.iter().enumerate().skip(mapping.last + 1) {
        match line.kind {
            Kind::Comment if line.indent > mapping.column => last = at,
            Kind::Blank => {}
            _ => break,
        }
    }
    last
}

fn sort_mapping(lines: &mut [Line], mapping: &Ordered) {
    let Ordered { column, entries, is_item, .. } = mapping;
    let last = last_line(lines, mapping);
    let first_line = entries[0].0;
    if *is_item {
        // The dash is put back before what is first.
        let line = &mut lines[first_line];
        line.indent = *column;
        line.text = line.text.strip_prefix("- ").unwrap_or(&line.text).to_owned();
    }
    // Where each entry begins, with what is above its key.
    let mut begins = vec![first_line];
    for pair in entries.windows(2) {
        let mut begin = pair[1].0;
        while begin > pair[0].0 + 1 {
            let above = &lines[begin - 1];
            let belongs = match above.kind {
                Kind::Blank => true,
                Kind::Comment => above.indent == *column,
                Kind::Other => false,
            };
            if !belongs {
                break;
            }
            begin -= 1;
        }
        begins.push(begin);
    }
    let ends = begins[1..].iter().copied().chain([last + 1]);
    let mut blocks: Vec<(usize, usize, Vec<Line>)> = entries
        .iter()
        .zip(begins.iter().zip(ends))
        .map(|((key_line, rank), (begin, end))| (*rank, key_line - begin, lines[*begin..end].to_vec()))
        .collect();
    blocks.sort_by_key(|(rank, ..)| *rank);
    let mut sorted: Vec<Line> = Vec::new();
    for (at, (_, key, mut block)) in blocks.into_iter().enumerate() {
        if at == 0 && *is_item {
            // A comment above the first key is one above the item.
            let dash = column - 2;
            block[..key].iter_mut().for_each(|line| line.indent = dash.min(line.indent));
            block[key].indent = dash;
            block[key].text.insert_str(0, "- ");
        }
        sorted.extend(block);
    }
    lines[first_line..=last].clone_from_slice(&sorted);
}
