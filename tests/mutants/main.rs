//! Mutants: faults that are put into a copy of the source one at a time, to see that a test fails
//! for each.
//!
//! The files of `list/` name them: for each an id, the text that it replaces, and the tiers of
//! tests that should see it. Equivalent ones carry their proof instead. The first test here runs
//! with all others, and fails if a text of the list is no longer in the source. The second one is
//! run on demand: it weaves all mutants into a copy as switches, so that each tier is built once,
//! runs the tiers of each mutant, and writes the table of `README.md`.
//!
//! ```text
//! cargo test --test mutants -- --ignored --nocapture
//! WFHOST_MUTANTS=sleep,park-without-fence cargo test --test mutants -- --ignored --nocapture
//! ```
//!
//! `WFHOST_MUTANTS` takes parts of ids and of files, `WFHOST_MUTANTS_TIERS` names of tiers; the
//! table is then only printed. `WFHOST_MUTANTS_JOBS` is the number of tests that run at the same
//! time (1). A slow tier is run only if no other has caught the mutant, and with
//! `WFHOST_MUTANTS_FIRST=1` so is each.
//!
//! Each row is written into `target/mutants/rows.jsonl` as it comes. `WFHOST_MUTANTS_RESUME=1`
//! reuses those that a test saw, so that the table can be made in several sittings. It does not
//! detect changes in tests or in files other than the mutant's: after such a change, name the
//! mutants once, as above. With `WFHOST_MUTANTS_NONE=1` as well no test is run: the table then
//! shows what is known.

mod list;
mod project;
mod results;
mod table;
mod tiers;
mod weave;

use list::Fate;
use project::Project;
use results::Results;
use std::path::Path;
use tiers::Manner;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_mutant_still_fits_the_source() {
    let mutants = list::read(root()).unwrap();
    let mut misfits = Vec::new();
    for (file, of_file) in list::by_file(&mutants) {
        let source = std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        if let Err(why) = weave::weave(&source, &of_file) {
            misfits.extend(why.into_iter().map(|why| format!("{file}: {why}")));
        }
    }
    assert!(misfits.is_empty(), "the list of mutants has to follow the source:\n{}", misfits.join("\n"));
    assert!(mutants.len() >= 120, "{} mutants", mutants.len());
}

#[test]
#[ignore = "takes an hour or more: see README.md"]
fn every_mutant_is_caught() {
    let all = list::read(root()).unwrap();
    let mut mutants = list::read(root()).unwrap();
    let (chosen, tiers) = (std::env::var("WFHOST_MUTANTS").ok(), std::env::var("WFHOST_MUTANTS_TIERS").ok());
    if let Some(chosen) = &chosen {
        let parts: Vec<&str> = chosen.split(',').collect();
        mutants.retain(|mutant| parts.iter().any(|part| mutant.id.contains(part) || mutant.file.contains(part)));
    }
    if let Some(tiers) = &tiers {
        let tiers: Vec<&str> = tiers.split(',').collect();
        for mutant in &mut mutants {
            if let Fate::Caught(by) = &mut mutant.fate {
                by.retain(|tests| tiers.contains(&tests.tier.as_str()));
            }
        }
    }
    let jobs = std::env::var("WFHOST_MUTANTS_JOBS").map_or(1, |text| text.parse().expect("a number"));
    let project = Project::copy(root(), &all).unwrap();
    let is_set = |name: &str| std::env::var_os(name).is_some();
    let (resumes, none) = (is_set("WFHOST_MUTANTS_RESUME"), is_set("WFHOST_MUTANTS_NONE"));
    let results = Results::open(&project.root.with_file_name("rows.jsonl"), root(), &all, resumes).unwrap();
    let manner = Manner { jobs, first_only: is_set("WFHOST_MUTANTS_FIRST"), none };
    let table = tiers::run(&project, mutants, &results, manner).unwrap();
    if chosen.is_none() && tiers.is_none() {
        std::fs::write(root().join("tests/mutants/README.md"), table.render()).unwrap();
    } else {
        println!("{}", table.render());
    }
    let survivors: Vec<&str> = table.survivors().chain(table.not_run()).map(|mutant| mutant.id.as_str()).collect();
    assert!(survivors.is_empty(), "nothing caught {survivors:?}");
}

#[test]
fn a_list_is_woven_into_its_source() {
    let text = "file a.rs\n\n= one\n  Of a call.\nby unit:a loom\n- «push(1);» fence();\n+ push(2);\n\n= two\n  Of a value.\n\
                equivalent Nobody looks.\n- x = «1 + y»;\n+ 0\n\n= three\n  Of a part of it.\nby sim\n- x = 1 + «y»;\n+ z\n";
    let mutants = list::parse(text).unwrap();
    assert!(matches!(&mutants[0].fate, Fate::Caught(by) if by.len() == 2 && by[0].filters == ["a"]));
    assert!(matches!(&mutants[1].fate, Fate::Equivalent(proof) if proof == "Nobody looks."));
    let woven = weave::weave(
        "{\n    push(1);\n    fence();\n    let x =\n        1 + y;\n}\n",
        &mutants.iter().collect::<Vec<_>>(),
    );
    let switch = |id: &str| format!("crate::base::mutant({id:?})");
    let expected = format!(
        "{{\n    if {} {{ push(2); }} else {{ push(1); }}\n    fence();\n    let x =\n        (if {} {{ 0 }} else {{ 1 + (if {} {{ z }} else {{ y }}) }});\n}}\n",
        switch("one"),
        switch("two"),
        switch("three")
    );
    assert_eq!(woven.unwrap(), expected);
    let misfits = weave::weave("fence(); y", &mutants.iter().collect::<Vec<_>>()).unwrap_err();
    assert_eq!(misfits.len(), 3, "{misfits:?}");
}
