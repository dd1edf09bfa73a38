//! Statistics over CSV text, as a map over parts and a reduce of their partial results.
//!
//! - `split` cuts a text into parts of whole records, each with the header.
//! - `map` computes a part: count, sum, extremes, mean and deviations by group and column.
//! - `reduce` merges such results, in any grouping, and adds variance and standard deviation.
//! - `run` does all three with children of its own.

mod csv;
mod moments;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wfhost_guest::{Ctx, OrProblem, Problem, try_map};

use csv::Records;
use moments::{Moments, Summary};

/// By group, then by column.
type Table<T> = BTreeMap<String, BTreeMap<String, T>>;

#[derive(Clone, Deserialize, Serialize)]
struct Part {
    csv: String,
    /// The column whose values are the groups; without it there is one group, `all`.
    #[serde(default, rename = "group-by")]
    group_by: Option<String>,
    /// The columns to compute.
    columns: Vec<String>,
    /// For `run`: the number of records in a part.
    #[serde(default = "rows")]
    rows: usize,
}

#[derive(Default, Deserialize, Serialize)]
struct Partial {
    records: u64,
    groups: Table<Moments>,
}

#[derive(Deserialize, Serialize)]
struct Partials {
    partials: Vec<Partial>,
}

#[derive(Deserialize, Serialize)]
struct Report {
    records: u64,
    groups: Table<Summary>,
}

#[derive(Deserialize)]
struct Split {
    csv: String,
    #[serde(default = "rows")]
    rows: usize,
}

fn rows() -> usize {
    500
}

async fn split(_ctx: Ctx, input: Split) -> Result<Vec<String>, Problem> {
    csv::split(&input.csv, input.rows.max(1))
}

async fn map(_ctx: Ctx, part: Part) -> Result<Partial, Problem> {
    compute(&part)
}

async fn reduce(_ctx: Ctx, input: Partials) -> Result<Report, Problem> {
    Ok(report(merge(input.partials)))
}

/// The number of parts that `run` works on at a time.
const PARALLEL: usize = 64;

async fn run(ctx: Ctx, mut whole: Part) -> Result<Report, Problem> {
    let parts = csv::split(&core::mem::take(&mut whole.csv), whole.rows.max(1))?;
    let of = |csv| Part { csv, ..whole.clone() };
    let partials = try_map(PARALLEL, parts, |csv| ctx.spawn("map", of(csv))).await?;
    ctx.spawn("reduce", Partials { partials }).await
}

fn compute(part: &Part) -> Result<Partial, Problem> {
    let mut records = Records::new(&part.csv);
    let header = records.next()?.or_problem("no-header", "The CSV text is empty")?;
    let find = |name: &String| {
        let at = header.iter().position(|column| column == name);
        at.ok_or_else(|| Problem::new("no-column", "The CSV text has no such column").detail(name))
    };
    let group = part.group_by.as_ref().map(find).transpose()?;
    let columns: Vec<_> = part.columns.iter().map(|name| Ok((name, find(name)?))).collect::<Result<_, Problem>>()?;
    let mut partial = Partial::default();
    while let Some(record) = records.next()? {
        partial.records += 1;
        let field = |at: usize| record.get(at).map_or("", |field| field.trim());
        let name = group.map_or("all", field);
        if !partial.groups.contains_key(name) {
            partial.groups.insert(name.to_owned(), BTreeMap::new());
        }
        let Some(moments) = partial.groups.get_mut(name) else { continue };
        for (column, at) in &columns {
            let moments = match moments.get_mut(*column) {
                Some(moments) => moments,
                None => moments.entry((*column).clone()).or_default(),
            };
            moments.hear(field(*at));
        }
    }
    Ok(partial)
}

fn merge(partials: Vec<Partial>) -> Partial {
    let mut all = Partial::default();
    for partial in partials {
        all.records += partial.records;
        for (group, columns) in partial.groups {
            let into = all.groups.entry(group).or_default();
            for (column, moments) in columns {
                into.entry(column).or_default().merge(&moments);
            }
        }
    }
    all
}

fn report(partial: Partial) -> Report {
    let summarise = |columns: BTreeMap<String, Moments>| {
        columns.into_iter().map(|(column, moments)| (column, moments.summary())).collect()
    };
    let groups = partial.groups.into_iter().map(|(group, columns)| (group, summarise(columns))).collect();
    Report { records: partial.records, groups }
}

wfhost_guest::export! {
    //! Statistics over CSV text: count, extremes, mean and deviation, by group and column.

    /// Computes a whole text, in parts that children compute.
    "run" => run {
        "type": "object",
        "required": ["csv", "columns"],
        "properties": {
            "csv": { "type": "string", "description": "Records with a header." },
            "group-by": { "type": ["string", "null"], "description": "The column whose values are the groups; without it there is one, `all`." },
            "columns": { "type": "array", "items": { "type": "string" }, "description": "The columns to compute." },
            "rows": { "type": "integer", "minimum": 0, "description": "Records of a part; 500 unless said otherwise." },
        },
    },
    /// Cuts a text into parts of whole records, each with the header.
    "split" => split {
        "type": "object",
        "required": ["csv"],
        "properties": {
            "csv": { "type": "string", "description": "Records with a header." },
            "rows": { "type": "integer", "minimum": 0, "description": "Records of a part; 500 unless said otherwise." },
        },
    },
    /// Computes one part. Its output is for `reduce`.
    "map" => map {
        "type": "object",
        "required": ["csv", "columns"],
        "properties": {
            "csv": { "type": "string", "description": "Records with a header." },
            "group-by": { "type": ["string", "null"], "description": "The column whose values are the groups; without it there is one, `all`." },
            "columns": { "type": "array", "items": { "type": "string" }, "description": "The columns to compute." },
        },
    },
    /// Merges outputs of `map`, and adds variance and standard deviation.
    "reduce" => reduce {
        "type": "object",
        "required": ["partials"],
        "properties": { "partials": { "type": "array", "description": "Outputs of `map`." } },
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "kind,a,b\nx,1,2\ny,3,\nx,\"5\",NA\n\ny,n/a,4\nx,7\nz,-1e3,oops\n";

    fn part(csv: &str) -> Part {
        let columns = vec!["a".to_owned(), "b".to_owned()];
        Part { csv: csv.to_owned(), group_by: Some("kind".to_owned()), columns, rows: 1 }
    }

    #[test]
    fn missing_and_wrong_values_are_counted_apart() {
        let report = report(compute(&part(TEXT)).unwrap());
        assert_eq!(report.records, 6);
        let x = &report.groups["x"]["a"];
        assert_eq!((x.count, x.missing, x.sum, x.min, x.max), (3, 0, 13.0, Some(1.0), Some(7.0)));
        let b = &report.groups["x"]["b"];
        assert_eq!((b.count, b.missing, b.wrong), (1, 2, 0));
        let z = &report.groups["z"]["b"];
        assert_eq!((z.count, z.missing, z.wrong, z.mean), (0, 0, 1, None));
        assert_eq!(report.groups["z"]["a"].min, Some(-1000.0));
    }

    #[test]
    fn parts_merge_to_the_whole() {
        let whole = report(compute(&part(TEXT)).unwrap());
        for rows in 1..8 {
            let parts = csv::split(TEXT, rows).unwrap();
            let merged = report(merge(parts.iter().map(|csv| compute(&part(csv)).unwrap()).collect()));
            assert_eq!(merged.records, whole.records);
            for (group, columns) in &whole.groups {
                for (column, summary) in columns {
                    let other = &merged.groups[group][column];
                    assert_eq!(
                        (other.count, other.missing, other.wrong),
                        (summary.count, summary.missing, summary.wrong)
                    );
                    assert_eq!((other.min, other.max), (summary.min, summary.max));
                    let close = |a: Option<f64>, b: Option<f64>| match (a, b) {
                        (Some(a), Some(b)) => (a - b).abs() <= 1e-12 * a.abs().max(1.0),
                        (a, b) => a == b,
                    };
                    assert!(
                        close(other.mean, summary.mean) && close(other.variance, summary.variance),
                        "{group} {column}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_missing_column_and_an_empty_text_are_problems() {
        assert_eq!(compute(&part("")).err().unwrap().kind, "no-header");
        assert_eq!(compute(&part("kind,a\n")).err().unwrap().detail.as_deref(), Some("b"));
        assert_eq!(csv::split("", 1).err().unwrap().kind, "no-header");
    }
}
