//! Approval links and their page.

use crate::journal::catalog::Link;
use crate::process::{Json, Timestamp};
use crate::serve::hook::link::{BadAnswer, Choice, LinkDetail, LinkSecret, LinkState, act_id, hash_of, state_of};
use crate::serve::hook::page::{Page, headers};
use serde_json::json;

fn detail(value: serde_json::Value) -> LinkDetail {
    serde_json::from_value(value).unwrap()
}

fn html(detail: &LinkDetail) -> String {
    let (workflow, run, expires) = ("publish", "r1", Timestamp(1_700_000_000_000_000));
    Page::Link { detail, workflow, run, expires, state: LinkState::Open }.to_html()
}

#[test]
fn a_secret_is_found_by_its_hash_alone() {
    let (one, other) = (LinkSecret::random().unwrap(), LinkSecret::random().unwrap());
    assert_eq!(one.text.len(), 43);
    assert_eq!(hash_of(&one.text), Some(one.hash));
    assert!(one.hash != other.hash && act_id(&one.hash) != act_id(&other.hash));
    for bad in ["", "a", &one.text[1..], &format!("{}A", one.text), &one.text.replace(|_| true, "+"), "../../x"] {
        assert_eq!(hash_of(bad), None, "{bad}");
    }
}

#[test]
fn a_link_ends_when_it_is_used_and_when_its_time_is_over() {
    let link = |used: Option<u64>| Link {
        hash: [0; 32],
        run: "r".into(),
        signal: "s".into(),
        detail: None,
        created: Timestamp(0),
        author: "ann".into(),
        expires: Timestamp(100),
        used: used.map(Timestamp),
    };
    assert_eq!(state_of(&link(None), Timestamp(99)), LinkState::Open);
    assert_eq!(state_of(&link(None), Timestamp(100)), LinkState::Expired);
    assert_eq!(state_of(&link(Some(5)), Timestamp(200)), LinkState::Used(Timestamp(5)));
    assert_eq!(LinkDetail::of(&link(None)), Some(detail(json!({}))));
    assert_eq!(LinkDetail::of(&Link { detail: Some("{".into()), ..link(None) }), None);
}

#[test]
fn the_button_that_was_pressed_decides() {
    let usual = detail(json!({}));
    assert_eq!(usual.answer(b"choice=0&comment="), Ok(json!({ "approved": true })));
    assert_eq!(
        usual.answer("choice=1&comment=+not%0D%0Anow%C3%A9+&x=y".as_bytes()),
        Ok(json!({ "approved": false, "comment": "not\nnowé" }))
    );
    let own =
        detail(json!({ "choices": [{ "label": "A", "body": 1 }, { "label": "B", "body": { "comment": "theirs" } }] }));
    assert_eq!(own.answer(b"choice=0&comment=dropped"), Ok(json!(1)));
    assert_eq!(own.answer(b"choice=1&comment=mine"), Ok(json!({ "comment": "mine" })));
    for form in ["", "choice=", "choice=2", "choice=-1", "comment=a", "choice=0x1"] {
        assert_eq!(own.answer(form.as_bytes()), Err(BadAnswer::NoChoice), "{form}");
    }
    let long = format!("choice=0&comment={}", "x".repeat(4_001));
    assert_eq!(usual.answer(long.as_bytes()), Err(BadAnswer::LongComment));
}

#[test]
fn what_is_shown_is_bounded_and_comes_from_the_wait_if_the_link_says_nothing() {
    let prompt = Json::parse(r#"{"name": "approve", "title": "Publish?", "text": 5}"#).unwrap();
    assert_eq!(detail(json!({})).or_of_wait(Some(&prompt)).title.as_deref(), Some("Publish?"));
    assert_eq!(detail(json!({ "title": "Mine" })).or_of_wait(Some(&prompt)), detail(json!({ "title": "Mine" })));
    assert_eq!(detail(json!({})).or_of_wait(None), detail(json!({})));
    let choice = |label: &str, bytes: usize| Choice { label: label.to_owned(), body: json!("x".repeat(bytes)) };
    let bad = LinkDetail {
        title: Some("x".repeat(201)),
        text: Some("x".repeat(4_001)),
        choices: [choice("", 0), choice("a", 20_000)].into_iter().chain((0..7).map(|_| choice("b", 0))).collect(),
    };
    let pointers: Vec<_> = bad.faults().into_iter().map(|(pointer, _)| pointer).collect();
    assert_eq!(pointers, ["/title", "/text", "/choices/0/label", "/choices", "/choices/1/body"]);
    assert_eq!(detail(json!({ "title": "é".repeat(200) })).faults(), []);
}

/// Whatever texts a workflow or a caller brings, the page has the tags that it is written with, and
/// no others.
#[test]
fn no_text_becomes_a_part_of_the_page() {
    let tags = |html: &str| html.matches('<').count();
    let plain = html(&detail(json!({ "title": "t", "text": "t", "choices": [{ "label": "t", "body": {} }] })));
    for hostile in [
        "<script>alert(1)</script>",
        "</title><img src=x onerror=alert(1)>",
        "\" onfocus=\"alert(1)\" autofocus=\"",
        "' style='x",
        "</style></main><form action=//evil.example>",
        "&lt;b&gt;",
        "a\u{202e}b\u{2066}c\u{0}d\u{7}\u{85}",
        "javascript:alert(1)",
    ] {
        let page =
            html(&detail(json!({ "title": hostile, "text": hostile, "choices": [{ "label": hostile, "body": {} }] })));
        assert_eq!(tags(&page), tags(&plain), "{hostile}");
        assert!(!page.contains(hostile) || hostile.starts_with("javascript"), "{hostile}");
        assert!(page.chars().all(|c| c == '\n' || !c.is_control() && !('\u{202a}'..='\u{202e}').contains(&c)));
    }
    assert!(!plain.contains("<script") && !plain.contains("src=") && !plain.contains("href="));
}

#[test]
fn the_policy_permits_the_style_of_the_page_and_nothing_else() {
    let policy = headers().into_iter().find(|(name, _)| *name == "content-security-policy").unwrap().1;
    let page = html(&detail(json!({})));
    let style = page.split_once("<style>").and_then(|(_, rest)| rest.split_once("</style>")).unwrap().0;
    let hash = ring::digest::digest(&ring::digest::SHA256, style.as_bytes());
    let hash = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, hash);
    assert!(policy.contains(&format!("style-src 'sha256-{hash}'")), "{policy}");
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("script-src") && !policy.contains("unsafe"));
    assert!(page.contains("until 2023-11-14 22:13:20 UTC"), "{page}");
    for page in [Page::Done, Page::Other("There is no such link", "a <b>")] {
        assert!(!page.to_html().contains("<form") && !page.to_html().contains("<b>"));
    }
    let (empty, expires) = (detail(json!({})), Timestamp(0));
    for state in [LinkState::Expired, LinkState::Used(Timestamp(1))] {
        let page = Page::Link { detail: &empty, workflow: "w", run: "r", expires, state }.to_html();
        assert!(!page.contains("<form") && !page.contains("<button"), "nothing can be pressed: {page}");
    }
}
