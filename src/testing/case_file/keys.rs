//! The keys of a case file as editors know them, beside those of workflows in
//! [`keys`](crate::workflow::model::keys).

use super::{answers, expectation, read, statuses};
use crate::workflow::interpreter::progress::NodeEnding;
use crate::workflow::model::keys::{Keys, Shape, Word, schema_of};
use serde_json::Value;

/// The whole file.
pub(crate) static CASE_FILE: Keys = Keys { required: &["cases"], ..Keys::new("case-file", &read::FILE, FILE) };

/// The JSON Schema (draft 2020-12) of a case file.
pub(crate) fn json_schema() -> Value {
    schema_of(
        &CASE_FILE,
        "The tests of a workflow of wfhost",
        "wfhost validate FILE checks what a schema cannot see, too: names of steps, inputs, expressions.",
    )
}

const FILE: &[Word] = &[
    Word::new("workflow", "The workflow that is tested; by default the one beside this file.", Shape::Fixed),
    Word::new("answers", "What calls are answered in all cases, after the answers of the case.", ANSWERS),
    Word::new("cases", "The cases, at most 1,000.", Shape::Some(&Shape::Keys(|| &CASE))),
];

const ANSWERS: Shape = Shape::List(&Shape::Keys(|| &ANSWER));

static CASE: Keys = Keys { required: &["name"], ..Keys::new("test-case", &read::CASE, CASE_WORDS) };

const CASE_WORDS: &[Word] = &[
    Word::new("name", "What it is called: one line, unique in the file.", Shape::Fixed),
    Word::new("inputs", "The inputs of the run.", Shape::Inputs),
    Word::new(
        "clock",
        "When it starts: `2027-01-31T09:00:00+01:00`; otherwise on 1 January 2027 at nine.",
        Shape::Fixed,
    ),
    Word::new("answers", "What calls are answered. The first entry that matches answers.", ANSWERS),
    Word::new("signals", "What it is sent.", Shape::List(&Shape::Keys(|| &SIGNAL))),
    Word::new(
        "cancel",
        "When it is cancelled, after its start: `cancel: 3d`.",
        Shape::Either(&[Shape::Duration, Shape::Keys(|| &CANCEL)]),
    ),
    Word::new(
        "faults",
        "Faults that it is always executed with: `crash@17,lost:http#2`; `none` if none are ever drawn for it.",
        Shape::Fixed,
    ),
    Word::new("expect", "What must be so; without it, the run must succeed.", Shape::Keys(|| &EXPECT)),
];

static SIGNAL: Keys = Keys {
    required: &["name"],
    ..Keys::new(
        "sent-signal",
        &read::SIGNAL,
        &[
            Word::new("at", "When, after the start; by default at once.", Shape::Duration),
            Word::new("name", "The name that a step waits for.", Shape::Signal),
            Word::new("body", "What it carries.", Shape::Any),
        ],
    )
};

static CANCEL: Keys = Keys {
    required: &["at"],
    ..Keys::new("cancel", &read::CANCEL, &[Word::new("at", "When, after the start.", Shape::Duration)])
};

static ANSWER: Keys = Keys { required: &["call"], ..Keys::new("answer", &answers::RULE, ANSWER_WORDS) };

const AFTER: Word = Word::new("after", "How long the server takes; by default no time.", Shape::Duration);

const SAID: Word = Word::new(
    "answer",
    "The answer. Of `http`: `status`, 200 by default, `headers` and `body`. Expressions see what `where` sees.",
    Shape::Either(&[Shape::Keys(|| &RESPONSE), Shape::Any]),
);

const FAILED: Word = Word::new("problem", "A problem instead of an answer.", Shape::Keys(|| &PROBLEM));

const WITH: Word = Word::new(
    "with",
    "Arguments that the call has; it may have more. In texts `*` stands for any text.",
    Shape::Arguments,
);

const STEP: Word = Word::new("step", "Only calls of this step, `pay`, or of one item, `order[2]`.", Shape::StepPath);

const ANSWER_WORDS: &[Word] = &[
    Word::new("call", "The handler.", Shape::Handler),
    STEP,
    WITH,
    Word::new(
        "where",
        "An expression that must be true; it sees `.args`, `.step`, `.inputs`, and `.count`, which is 1 for the first call.",
        Shape::Condition,
    ),
    Word::new("times", "How many calls it answers; otherwise all, or as many as `answers` lists.", COUNT),
    AFTER,
    SAID,
    FAILED,
    Word::new(
        "answers",
        "Several, one for each attempt that is sent: each with `answer` or `problem`, and `after`.",
        Shape::List(&Shape::Keys(|| &REPLY)),
    ),
    Word::new(
        "repeated",
        "The answer to a call that is sent again with the key of one that succeeded, of a server that does not honour keys.",
        Shape::Keys(|| &REPEATED),
    ),
];

const COUNT: Shape = Shape::Whole(0, 1_000_000);

static REPLY: Keys =
    Keys { exactly_one: &["answer", "problem"], ..Keys::new("one-answer", &answers::REPLY, &[AFTER, SAID, FAILED]) };

static REPEATED: Keys =
    Keys { exactly_one: &["answer", "problem"], ..Keys::new("repeated", &answers::REPEATED, &[AFTER, SAID, FAILED]) };

static RESPONSE: Keys = Keys::new(
    "response",
    &answers::RESPONSE,
    &[
        Word::new("status", "The status, from 100 to 599; 200 by default.", STATUS),
        Word::new("headers", "Header fields: names with values.", Shape::Any),
        Word::new("body", "A mapping or a list is sent as JSON, a text as it is.", Shape::Any),
    ],
);

const STATUS: Shape =
    Shape::Either(&[Shape::Whole(answers::STATUS_MIN as u64, answers::STATUS_MAX as u64), Shape::Condition]);

static PROBLEM: Keys = Keys::new(
    "problem",
    &answers::PROBLEM,
    &[
        Word::new("kind", "A short name of what went wrong; `failed` by default.", Shape::Text),
        Word::new("title", "One line for people.", Shape::Text),
        Word::new("detail", "What is special about it.", Shape::Text),
        Word::new("status", "The status of HTTP.", Shape::Whole(0, 999)),
        Word::new(
            "class",
            "`definite`, the default: trying again does not help; `retryable`: it may; `uncertain`: nobody knows whether it \
             happened.",
            Shape::Words(|| answers::CLASSES.map(|(name, _)| name).to_vec()),
        ),
        Word::new("retry-after", "How long to wait before trying again.", Shape::Duration),
        Word::new("data", "Further members.", Shape::Object),
    ],
);

static EXPECT: Keys = Keys::new(
    "expect",
    &expectation::EXPECT,
    &[
        Word::new("status", "How the run ends.", Shape::Words(|| statuses().collect())),
        Word::new("outputs", "The outputs, exactly.", Shape::Outputs),
        Word::new("outputs-match", "A part of the outputs.", Shape::Outputs),
        Word::new(
            "that",
            "Expressions that must be true. They see `.inputs`, `.outputs`, `.status`, `.problem`, `.steps`, `.calls`, \
             `.logs` and `.takes`.",
            Shape::OneOrMore(&Shape::Condition),
        ),
        Word::new(
            "steps",
            "How steps end, by path: `deploy[3].build: succeeded`.",
            Shape::StepPaths(&Shape::Words(|| NodeEnding::ALL.map(NodeEnding::name).to_vec())),
        ),
        Word::new(
            "order",
            "Steps in the order in which they run: each ends before the next one begins.",
            Shape::List(&Shape::StepPath),
        ),
        Word::new("calls", "Calls that are made.", Shape::List(&Shape::Keys(|| &CALL))),
        Word::new("no-other-calls", "`true`: there are no calls but these.", Shape::Bool),
        Word::new(
            "problem",
            "A part of the problem that the run ends with; `cause` may be the kind of its cause.",
            Shape::Object,
        ),
        Word::new(
            "takes",
            "How long the run takes in its own time: `6d`, or `{ min: 5d, max: 6d }`.",
            Shape::Either(&[Shape::Duration, Shape::Keys(|| &TAKES)]),
        ),
        Word::new("logs", "Texts that lines of the log have.", Shape::List(&Shape::Text)),
    ],
);

static CALL: Keys = Keys {
    required: &["call"],
    ..Keys::new(
        "expected-call",
        &expectation::CALL,
        &[
            Word::new("call", "The handler.", Shape::Handler),
            STEP,
            WITH,
            Word::new(
                "where",
                "An expression that must be true; it sees `.args`, `.step` and `.inputs`.",
                Shape::Condition,
            ),
            Word::new("times", "How many there are; otherwise at least one.", COUNT),
            Word::new("sends", "How often they are sent, repeats included.", COUNT),
        ],
    )
};

static TAKES: Keys = Keys::new(
    "takes",
    &expectation::TAKES,
    &[Word::new("min", "At least.", Shape::Duration), Word::new("max", "At most.", Shape::Duration)],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::diagnostics::Diagnostics;
    use crate::workflow::model::keys::all_of_file;
    use crate::workflow::syntax::{Node, Source, parse};
    use std::path::Path;

    #[test]
    fn each_key_of_a_case_file_has_its_words_and_is_in_the_document() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let document = std::fs::read_to_string(root.join("docs/testing.md")).unwrap();
        let all = all_of_file(&CASE_FILE);
        assert!(all.len() > 10, "{}", all.len());
        for keys in all {
            for key in keys.known() {
                assert!(keys.word(key).is_some(), "{}: `{key}` has no words", keys.name);
                let forms = [format!("`{key}`"), format!("{key}:"), format!("`{key}:")];
                assert!(forms.iter().any(|form| document.contains(form.as_str())), "`{key}` is not in docs/testing.md");
            }
            for word in keys.words {
                assert!(keys.known().contains(&word.key), "{}: no key `{}`", keys.name, word.key);
            }
            for key in keys.required.iter().chain(keys.exactly_one) {
                assert!(keys.known().contains(key), "{}: a rule names `{key}`", keys.name);
            }
        }
    }

    #[test]
    fn the_schema_takes_case_files_and_refuses_mistakes() {
        let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
        compiler.add_resource("cases.json", json_schema()).unwrap();
        let index = compiler.compile("cases.json", &mut schemas).unwrap();
        let fault = |text: &str| {
            let source = Source::new("a.test.yaml", text);
            let value = parse(&source, &mut Diagnostics::new(source.clone())).as_ref().map(Node::to_json).unwrap();
            schemas.validate(&value.unwrap(), index).err().map(|error| format!("{error:#}"))
        };
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("workflows");
        let mut folders = vec![root];
        let mut count = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.to_string_lossy().ends_with(".test.yaml") {
                    count += 1;
                    let text = std::fs::read_to_string(&path).unwrap();
                    assert_eq!(fault(&text), None, "{}", path.display());
                }
            }
        }
        assert!(count > 5, "{count}");
        for text in [
            "cases: []",
            "answers: []",
            "cases: [ { inputs: {} } ]",
            "cases: [ { name: a, expects: {} } ]",
            "cases: [ { name: a, expect: { status: success } } ]",
            "cases: [ { name: a, expect: { steps: { pay: done } } } ]",
            "cases: [ { name: a, answers: [ { answer: 1 } ] } ]",
            "cases: [ { name: a, answers: [ { call: http, answers: [ {} ] } ] } ]",
            "cases: [ { name: a, answers: [ { call: http, problem: { class: bad } } ] } ]",
            "cases: [ { name: a, cancel: soon } ]",
        ] {
            assert!(fault(text).is_some(), "{text}");
        }
    }
}
