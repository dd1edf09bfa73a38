//! Records of CSV text (RFC 4180, and what spreadsheets make of it).

use csv_core::{ReadRecordResult, Reader};
use wfhost_guest::{OrProblem, Problem};

/// The fields of one record; there may be fewer or more than in the header.
pub(crate) type Record = Vec<String>;

/// Reads record by record, and knows where each one ends in the text.
pub(crate) struct Records<'a> {
    reader: Reader,
    rest: &'a [u8],
    fields: Vec<u8>,
    ends: Vec<usize>,
}

impl<'a> Records<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        // Excel puts a byte order mark before the header.
        let rest = text.strip_prefix('\u{feff}').unwrap_or(text).as_bytes();
        Self { reader: Reader::new(), rest, fields: vec![0; 1024], ends: vec![0; 32] }
    }

    /// The number of bytes left in the text.
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next record; empty lines are skipped. (Not an iterator: it fails.)
    pub(crate) fn next(&mut self) -> Result<Option<Record>, Problem> {
        let (mut filled, mut ended) = (0, 0);
        loop {
            let (fields, ends) = (&mut self.fields[filled..], &mut self.ends[ended..]);
            let (result, read, written, found) = self.reader.read_record(self.rest, fields, ends);
            self.rest = &self.rest[read..];
            filled += written;
            ended += found;
            match result {
                // With nothing left, the next call sees the end of the last record.
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => self.fields.resize(self.fields.len() * 2, 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                ReadRecordResult::Record => return self.record(ended).map(Some),
                ReadRecordResult::End => return Ok(None),
            }
        }
    }

    fn record(&self, count: usize) -> Result<Record, Problem> {
        let mut start = 0;
        let field = |end: &usize| {
            let bytes = &self.fields[start..*end];
            start = *end;
            Ok(str::from_utf8(bytes)?.to_owned())
        };
        self.ends[..count].iter().map(field).collect()
    }
}

/// Parts of at most `rows` records, each with the header before it; quoted records stay whole.
pub(crate) fn split(text: &str, rows: usize) -> Result<Vec<String>, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut records = Records::new(text);
    records.next()?.or_problem("no-header", "The CSV text is empty")?;
    let mut start = text.len() - records.left();
    let header = text[..start].trim_end_matches(['\r', '\n']);
    let mut parts = Vec::new();
    let mut count = 0;
    loop {
        let more = records.next()?.is_some();
        count += usize::from(more);
        if count == rows || (!more && count > 0) {
            let end = text.len() - records.left();
            parts.push([header, text[start..end].trim_start_matches(['\r', '\n'])].join("\n"));
            (start, count) = (end, 0);
        }
        if !more {
            return Ok(parts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<Record> {
        let mut records = Records::new(text);
        std::iter::from_fn(|| records.next().unwrap()).collect()
    }

    #[test]
    fn quotes_line_ends_and_large_fields() {
        let large = "x".repeat(5000);
        let text = format!("\u{feff}a,b\r\n\"1\n,\"\"2\",{large}\r\n\r\nlast,é");
        assert_eq!(all(&text), [vec!["a", "b"], vec!["1\n,\"2", &large], vec!["last", "é"]]);
        let wide = ["1"; 100].join(",");
        assert_eq!(all(&wide)[0].len(), 100);
    }

    #[test]
    fn a_split_keeps_every_record() {
        let text = "h\r\n\"a\r\nb\"\r\nc\r\n\r\nd\r\n";
        for rows in 1..5 {
            let parts = split(text, rows).unwrap();
            assert_eq!(parts.len(), 3usize.div_ceil(rows));
            let records: Vec<_> = parts.iter().flat_map(|part| all(part).split_off(1)).collect();
            assert_eq!(records, [vec!["a\r\nb"], vec!["c"], vec!["d"]]);
        }
        assert!(split("h", 1).unwrap().is_empty());
    }
}
