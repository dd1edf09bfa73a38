//! Values: where they come from, and how they are found.

use super::*;
use zeroize::Zeroizing;

fn store(value: &'static str) -> Secrets {
    let source = SecretSource::function(move || Ok(value.as_bytes().to_vec()));
    let secrets = Secrets::default().with("KEY", source, None).unwrap();
    secrets.check(["KEY"]).unwrap();
    secrets
}

fn redacted(value: &'static str, text: &str) -> Option<String> {
    store(value).redacted(text.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn a_value_is_found_in_each_way_that_a_server_may_write_it() {
    let value = "p\"a/s+s w\\ö<rd>&%41";
    let base64 = |text: &str| {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(text)
    };
    let json = serde_json::to_string(value).unwrap();
    let twice = serde_json::to_string(&json).unwrap();
    let percent = percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC).to_string();
    let hex = value.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    for text in [
        value.to_owned(),
        json.trim_matches('"').to_owned(),
        json.replace('/', "\\/").replace('ö', "\\u00f6").trim_matches('"').to_owned(),
        twice.replace('/', "\\/"),
        percent.clone(),
        percent.to_lowercase().replace("%2b", "+").replace('+', "%2B"),
        percent.replace("%20", "+"),
        value.replace('%', "%25").replace('+', "%2B").replace(' ', "+"),
        hex.to_uppercase(),
        hex,
        base64(value),
        base64(&format!("ann:{value}")),
        base64(&format!("an:{value}:more")),
        base64(&format!("{{\"a\":\"b\",\"token\":\"{value}\"}}")),
        base64(value).replace('/', "\\/"),
        base64(value).replace('+', "-").replace('/', "_"),
        "p&quot;a/s+s w\\&#246;&lt;rd&gt;&amp;%41".to_owned(),
        "p&#x22;a&#47;s+s w\\ö<rd>&amp;%41".to_owned(),
    ] {
        let whole = format!("before {text} after");
        let out = redacted(value, &whole).unwrap_or_else(|| panic!("{text}"));
        assert!(out.starts_with("before ") && out.ends_with(" after") && out.contains("[secret KEY]"), "{out}");
    }
    for text in ["", "p\"a/s+s w", "password", &base64("something else that is long enough")] {
        assert_eq!(redacted(value, text), None, "{text}");
    }
}

#[test]
fn a_value_is_found_in_the_name_of_a_field_in_any_case() {
    let value = "AbC0123456789-defGHI";
    let name = |text: &str| store(value).redacted_name(text.as_bytes()).map(|name| String::from_utf8(name).unwrap());
    let hex = value.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    // Without the last digit, which depends on what follows.
    let base64 = "QWJDMDEyMzQ1Njc4OS1kZWZHSE";
    for text in [value, &value.to_lowercase(), &value.to_uppercase(), &hex, &base64.to_lowercase(), base64] {
        assert_eq!(name(&format!("x-{text}-y")).as_deref(), Some("x-secret-KEY-y"), "{text}");
    }
    assert_eq!(name("%41bc0123456789%2ddefghi").as_deref(), Some("secret-KEY"));
    for text in ["", "x-abc0123456789", "content-type"] {
        assert_eq!(name(text), None, "{text}");
    }
    // A text keeps its case, so another case is another value.
    assert_eq!(redacted(value, &value.to_lowercase()), None);
}

#[test]
fn what_is_around_values_stays() {
    let value = "0123456789abcdef";
    let text = format!(r#"{{"a\n":"{value}","b":"{value}{value}","c\u0041":"x%20{value}&amp;"}}"#);
    let expected = text.replace(value, "[secret KEY]");
    assert_eq!(redacted(value, &text), Some(expected));
}

#[test]
fn odd_escapes_are_no_escapes() {
    for text in
        ["%", "%4", "%zz", "\\", "\\u00", "\\ud800\\u0041", "\\x", "&", "&#;", "&#99999999999;", "&#xd800;", "+"]
    {
        assert_eq!(redacted("0123456789abcdef", text), None);
        let text = format!("{text}0123456789abcdef{text}");
        assert!(redacted("0123456789abcdef", &text).unwrap().contains("[secret KEY]"), "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_is_a_fault_and_no_value_remains(before in ".{0,40}", after in ".{0,40}", extra in "[%+&\\\\]{0,4}") {
        let value = "sEcReT/+\"\\&%";
        let text = format!("{before}{extra}{value}{after}");
        let out = redacted(value, &text).unwrap();
        proptest::prop_assert!(!out.contains(value));
        proptest::prop_assert!(out.starts_with(&before) || !before.is_ascii() || before.contains(['%', '&', '\\']));
    }
}

#[test]
fn values_are_bounded_and_end_without_white_space() {
    let new = |bytes: &[u8]| SecretValue::new(Zeroizing::new(bytes.to_vec()));
    assert_eq!(new(b"12345678 \r\n").ok().unwrap().bytes(), b"12345678");
    assert_eq!(new(b"1234567\n").err().unwrap(), "a secret has at least 8 bytes, and this one has 7");
    assert!(new(&vec![b'x'; SECRET_BYTES_MAX]).is_ok());
    assert!(new(&vec![b'x'; SECRET_BYTES_MAX + 1]).err().unwrap().contains("at most 65536"));
}

#[test]
fn a_replaced_file_counts_at_once_and_both_values_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "the first value\n").unwrap();
    let secrets = Secrets::default().with("KEY", SecretSource::File(path.clone()), None).unwrap();
    assert_eq!(secrets.load("KEY").unwrap().bytes(), b"the first value");
    std::fs::write(&path, "the second value").unwrap();
    assert_eq!(secrets.load("KEY").unwrap().bytes(), b"the second value");
    let text = secrets.redacted(b"the first value, the second value").unwrap();
    assert_eq!(text, b"[secret KEY], [secret KEY]");
    std::fs::remove_file(&path).unwrap();
    let why = secrets.load("KEY").err().unwrap();
    assert!(why.to_string().contains("No such file") && !why.is_unknown, "{why}");
    assert!(secrets.load("OTHER").err().unwrap().is_unknown);
}

#[test]
fn a_command_runs_once_a_minute_or_after_a_refusal() {
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    let script = folder.path().join("ask");
    std::fs::write(&script, format!("echo x >> {0}; echo secret-$(wc -l < {0})-value", count.display())).unwrap();
    let source = SecretSource::Command(vec!["sh".into(), script.to_str().unwrap().into()]);
    let secrets = Secrets::default().with("KEY", source, None).unwrap();
    assert!(secrets.waits("KEY"));
    for _ in 0..3 {
        assert_eq!(secrets.load("KEY").unwrap().bytes(), b"secret-1-value");
    }
    assert!(!secrets.waits("KEY"));
    secrets.renew("KEY");
    assert_eq!(secrets.load("KEY").unwrap().bytes(), b"secret-2-value");
}

#[test]
fn a_command_that_fails_is_an_error_without_its_words() {
    let run = |words: &[&str]| {
        let source = SecretSource::Command(words.iter().map(ToString::to_string).collect());
        Secrets::default().with("KEY", source, None).unwrap().load("KEY").err().unwrap().to_string()
    };
    let why = run(&["sh", "-c", "echo half-a-secret-value; echo said >&2; exit 3"]);
    assert!(why.contains("exit status: 3") && !why.contains("half") && !why.contains("said"), "{why}");
    assert!(run(&["/no/such/program", "argument"]).contains("No such file"));
    assert!(run(&["true"]).contains("at least 8 bytes"));
    assert!(run(&["sh", "-c", "yes"]).contains("at most 65536"));
}

#[test]
fn sources_are_read_from_flags() {
    for (text, shown) in [
        ("env:A", "the variable \"A\""),
        ("file:/run/a", "the file \"/run/a\""),
        ("command:pass show  s3", "the command \"pass\""),
    ] {
        assert_eq!(format!("{:?}", text.parse::<SecretSource>().unwrap()), shown);
    }
    for bad in ["", "env:", "file: ", "command:", "value:x", "A"] {
        assert!(bad.parse::<SecretSource>().is_err(), "{bad}");
    }
}

#[test]
fn names_and_hosts_are_checked() {
    let with = |name: &str, host: &str| {
        Secrets::default().with(name, SecretSource::Env("A".into()), Some(vec![host.to_owned()])).map(drop)
    };
    assert!(with("KEY", "a.example").is_ok());
    assert!(with("a-b", "a.example").is_err() && with("KEY", "*").is_err());
}

#[test]
fn a_text_in_parts_has_no_value_at_their_ends() {
    let value = "0123456789abcdef";
    let secrets = store(value);
    for before in 0..40 {
        let text = format!("{}{value}{}", "x".repeat(before), "y".repeat(40));
        let (end, start) = secrets.redacted_start(text.as_bytes(), 30);
        let start = start.unwrap_or_else(|| text.as_bytes()[..end].to_vec());
        let rest = secrets.redacted(&text.as_bytes()[end..]).unwrap_or_else(|| text.as_bytes()[end..].to_vec());
        let whole = String::from_utf8([start, rest].concat()).unwrap();
        assert_eq!(whole, text.replace(value, "[secret KEY]"), "{before}");
    }
}

#[test]
fn base64_of_urls_is_found_at_each_place_of_a_longer_text() {
    use base64::Engine;
    let value = "~~~???>>>secret";
    for before in ["", "a", "ab"] {
        let text = base64::engine::general_purpose::URL_SAFE.encode(format!("{before}{value}"));
        assert!(text.contains('-') && text.contains('_'), "{text}");
        assert!(redacted(value, &text).is_some_and(|out| out.contains("[secret KEY]")), "{text}");
    }
}

/// A value that has not come whole yet cannot be recognised.
#[test]
fn as_much_is_left_as_the_longest_way_to_write_a_value_takes() {
    let value = "0123456789abcdef";
    let secrets = store(value);
    let hex = value.bytes().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    let escaped = hex.bytes().fold(String::new(), |escaped, byte| escaped + &format!("&#x{byte:08x};"));
    assert_eq!(redacted(value, &escaped).as_deref(), Some("[secret KEY]"));
    let text = format!("{}{escaped}", "x".repeat(500));
    for arrived in 500..text.len() {
        let (end, start) = secrets.redacted_start(&text.as_bytes()[..arrived], secrets.longest());
        assert!(end <= 500 && start.is_none(), "{arrived}: {end}");
    }
}
