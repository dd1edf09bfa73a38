use super::*;
use crate::dispatch::http::target;
use proptest::prelude::*;

fn pattern(text: &str) -> Pattern {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn grants(text: &str, method: &str, url: &str) -> bool {
    let method = method.parse().unwrap();
    target::parse(url).is_ok_and(|url| pattern(text).matches(&method, &url))
}

#[test]
fn what_a_pattern_grants() {
    for (text, method, url) in [
        ("https://example.com", "GET", "https://example.com/any/path?query=1"),
        ("https://example.com", "HEAD", "https://example.com"),
        ("GET https://example.com", "GET", "https://EXAMPLE.com:443/"),
        ("GET https://example.com", "GET", "https://example.com/#fragment"),
        ("GET https://EXAMPLE.com:443", "GET", "https://example.com/"),
        ("GET,POST https://example.com", "POST", "https://example.com/"),
        ("* https://example.com", "DELETE", "https://example.com/"),
        ("GET http://example.com:8080", "GET", "http://example.com:8080/"),
        ("GET http://example.com:*", "GET", "http://example.com:8080/"),
        ("GET https://*.example.com", "GET", "https://a.example.com/"),
        ("GET https://*.example.com", "GET", "https://a.b.example.com/"),
        ("GET https://*", "GET", "https://anything.test/"),
        ("GET https://bücher.example", "GET", "https://xn--bcher-kva.example/"),
        ("GET https://xn--bcher-kva.example", "GET", "https://BÜCHER.example/"),
        ("GET http://127.0.0.1", "GET", "http://0x7f.1/"),
        ("GET http://[::1]:80", "GET", "http://[0:0::1]/"),
        ("GET https://a.test/path/*", "GET", "https://a.test/path/"),
        ("GET https://a.test/path/*", "GET", "https://a.test/path/x/y/z"),
        ("GET https://a.test/path/*", "GET", "https://a.test/p%61th/x"),
        ("GET https://a.test/p%61th/*", "GET", "https://a.test/path/x"),
        ("GET https://a.test/path/*", "GET", "https://a.test/other/../path/x"),
        ("GET https://a.test/path/*", "GET", "https://a.test/path/a..b"),
        ("GET https://a.test/*/items", "GET", "https://a.test/42/items"),
        ("GET https://a.test/", "GET", "https://a.test"),
        ("GET https://a.test/a%20b", "GET", "https://a.test/a b"),
        ("GET https://a.test", "GET", "https://a.test/a%2Fb"),
    ] {
        assert!(grants(text, method, url), "{text} should grant {method} {url}");
    }
}

#[test]
fn what_a_pattern_does_not_grant() {
    for (text, method, url) in [
        ("https://example.com", "POST", "https://example.com/"),
        ("HEAD https://example.com", "GET", "https://example.com/"),
        ("GET https://example.com", "GET", "http://example.com/"),
        ("GET http://example.com", "GET", "https://example.com/"),
        ("GET https://example.com", "GET", "http://example.com:443/"),
        ("GET https://a.test/a", "GET", "https://a.test/a/b"),
        ("GET https://example.com", "GET", "https://example.com:8443/"),
        ("GET https://example.com", "GET", "https://a.example.com/"),
        ("GET https://example.com", "GET", "https://example.com.evil.test/"),
        ("GET https://example.com", "GET", "https://example.com@evil.test/"),
        ("GET https://example.com", "GET", "https://user@example.com/"),
        ("GET https://example.com", "GET", "https://evil.test/https://example.com"),
        ("GET https://example.com", "GET", "https://evil.test\\@example.com/"),
        ("GET https://example.com", "GET", "https://example.com./"),
        ("GET https://*.example.com", "GET", "https://example.com/"),
        ("GET https://*.example.com", "GET", "https://badexample.com/"),
        ("GET https://*.example.com", "GET", "https://.example.com/"),
        ("GET https://*.1", "GET", "https://127.0.0.1/"),
        ("GET https://a.test/path/*", "GET", "https://a.test/path"),
        ("GET https://a.test/path/*", "GET", "https://a.test/pathological"),
        ("GET https://a.test/path/*", "GET", "https://a.test/Path/x"),
        ("GET https://a.test/path/*", "GET", "https://a.test/path/../admin"),
        ("GET https://a.test/path/*", "GET", "https://a.test/path/%2e%2e/admin"),
        ("GET https://a.test/path/*", "GET", "https://a.test/path/..%2fadmin"),
        ("GET https://a.test/path/*", "GET", "https://a.test/path/..%5cadmin"),
        ("GET https://a.test/path/*", "GET", "https://a.test/path/%252e%252e/admin"),
        ("GET https://a.test/path/*", "GET", "https://a.test/path/%25252e%25252e%25252fadmin"),
        ("GET https://a.test/path/*", "GET", "https://a.test/path/%2525252525252e"),
        ("GET https://a.test/path/*", "GET", "https://a.test/path/..;/admin"),
        ("GET https://a.test/path/*", "GET", "https://a.test/path/..%3b/admin"),
        ("GET https://a.test/path/*", "GET", "https://a.test/path/..;a=b/admin"),
        ("GET https://a.test/path/*", "GET", "https://a.test/path/x%00"),
        ("GET https://a.test/path/*", "GET", "https://a.test/path\\..\\admin"),
        ("GET https://a.test/path/*", "GET", "https://a.test//path/x"),
        ("GET https://a.test/*/items", "GET", "https://a.test/4/2/items"),
        ("GET https://a.test/", "GET", "https://a.test/x"),
    ] {
        // A pattern that cannot even be written grants nothing either.
        assert!(
            text.parse::<Pattern>().is_err() || !grants(text, method, url),
            "{text} should not grant {method} {url}"
        );
    }
}

#[test]
fn names_in_other_scripts_are_what_the_resolver_is_asked_for() {
    for (written, asked) in [
        ("bu\u{308}cher.example", "xn--bcher-kva.example"),
        ("ＢÜＣＨＥＲ.example", "xn--bcher-kva.example"),
        ("faß.example", "xn--fa-hia.example"),
        ("例え。example", "xn--r8jz45g.example"),
        ("مثال.example", "xn--mgbh0fb.example"),
        ("क्\u{200d}ष.example", "xn--11b2ezcw70k.example"),
        ("１２７.0.0.1", "127.0.0.1"),
    ] {
        assert!(grants(&format!("GET https://{written}"), "GET", &format!("https://{asked}/")), "{written}");
        assert!(grants(&format!("GET https://{asked}"), "GET", &format!("https://{written}/")), "{written}");
    }
    for refused in ["a\u{5d0}.example", "a\u{200d}b.example", "\u{202e}a.example", "xn--a.example"] {
        assert!(format!("GET https://{refused}").parse::<Pattern>().is_err(), "{refused}");
    }
}

#[test]
fn what_is_no_pattern() {
    for text in [
        "",
        "*",
        "example.com",
        "GET example.com",
        "FETCH https://example.com",
        "get https://example.com",
        "CONNECT https://example.com",
        "GET ftp://example.com",
        "GET  https://example.com",
        "GET https://",
        "GET https://a.*.com",
        "GET https://a*.com",
        "GET https://*.127.0.0.1",
        "GET https://user@example.com",
        "GET https://example.com?x=1",
        "GET https://example.com#x",
        "GET https://example.com:x",
        "GET https://example.com:99999",
        "GET https://[::1",
        "GET https://[::1]x",
        "GET https://example.com/pre*",
        "GET https://example.com/../x",
        "GET https://example.com/a%2fb",
        "GET https://example.com.",
    ] {
        assert!(text.parse::<Pattern>().is_err(), "{text}");
    }
    assert!(format!("GET https://example.com/{}", "x".repeat(3000)).parse::<Pattern>().is_err());
}

#[test]
fn narrower_and_wider() {
    let covers = |granted: &str, wanted: &str| pattern(granted).covers(&pattern(wanted));
    for (granted, wanted) in [
        ("GET,POST https://a.test", "POST https://a.test/x/*"),
        ("* https://*", "GET https://a.test/x"),
        ("GET https://*.a.test", "GET https://*.b.a.test"),
        ("GET https://*.a.test", "HEAD https://b.a.test/x"),
        ("GET https://a.test/x/*", "GET https://a.test/x/*"),
        ("GET https://a.test/x/*", "GET https://a.test/x/*/y"),
        ("GET https://a.test/x/*", "GET https://a.test/x/y/*"),
        ("GET https://a.test:*", "GET https://a.test:8443"),
    ] {
        assert!(covers(granted, wanted), "{granted} covers {wanted}");
    }
    for (granted, wanted) in [
        ("GET https://a.test", "* https://a.test"),
        ("GET https://a.test/x/*", "GET https://a.test"),
        ("GET https://a.test/x/*", "GET https://a.test/x"),
        ("GET https://a.test/x/y", "GET https://a.test/x/*"),
        ("GET https://a.test/x/*/y", "GET https://a.test/x/*"),
        ("GET https://*.a.test", "GET https://a.test"),
        ("GET https://*.a.test", "GET https://*"),
        ("GET https://b.a.test", "GET https://*.a.test"),
        ("GET https://a.test", "GET http://a.test"),
        ("GET https://a.test", "GET https://a.test:*"),
    ] {
        assert!(!covers(granted, wanted), "{granted} does not cover {wanted}");
    }
}

/// Patterns and URLs over so few parts that they often meet.
fn parts() -> (impl Strategy<Value = String>, impl Strategy<Value = String>) {
    let method = prop_oneof![Just("GET "), Just("POST "), Just("* "), Just("GET,HEAD "), Just("")];
    let host = prop_oneof![Just("*"), Just("a.test"), Just("*.a.test"), Just("b.a.test"), Just("*.b.a.test")];
    let port = prop_oneof![Just(""), Just(":*"), Just(":8443"), Just(":443")];
    let segment = || prop_oneof![Just("/x"), Just("/y"), Just("/*"), Just("/")];
    let path = proptest::collection::vec(segment(), 0..4);
    let patterns = (method, host, port, path)
        .prop_map(|(method, host, port, path)| format!("{method}https://{host}{port}{}", path.concat()));
    let host = prop_oneof![Just("a.test"), Just("b.a.test"), Just("c.b.a.test"), Just("other.test")];
    let port = prop_oneof![Just(""), Just(":8443")];
    let segment = prop_oneof![Just("/x"), Just("/y"), Just("/"), Just("/..%2f"), Just("/..;"), Just("/%2e%2e")];
    let urls = (host, port, proptest::collection::vec(segment, 0..4))
        .prop_map(|(host, port, path)| format!("https://{host}{port}{}", path.concat()));
    (patterns, urls)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn what_is_covered_is_granted(granted in parts().0, wanted in parts().0, url in parts().1) {
        let (granted, wanted) = (pattern(&granted), pattern(&wanted));
        prop_assert!(granted.covers(&granted));
        if granted.covers(&wanted) {
            let url = target::parse(&url).unwrap();
            for method in [Method::GET, Method::HEAD, Method::POST] {
                prop_assert!(granted.matches(&method, &url) || !wanted.matches(&method, &url));
            }
        }
    }

    #[test]
    fn no_url_below_a_path_pattern_climbs_out_of_it(tail in "[a-z./;%\\\\25efcEFC]{0,24}") {
        let granted = pattern("GET https://a.test/in/*");
        let url = format!("https://a.test/in/{tail}");
        if let Ok(url) = target::parse(&url) && granted.matches(&Method::GET, &url) {
            // A careless server: it decodes as often as it can, drops path parameters, and then
            // resolves dots.
            let mut path = url.path().to_owned();
            loop {
                let decoded = percent_decode_str(&path).decode_utf8_lossy().into_owned();
                if decoded == path { break }
                path = decoded;
            }
            let mut stack = Vec::new();
            for segment in path.replace('\\', "/").split('/') {
                match segment.split(';').next().unwrap() {
                    "." | "" => {}
                    ".." => { stack.pop(); }
                    name => stack.push(name.to_owned()),
                }
            }
            prop_assert_eq!(stack.first().map(String::as_str), Some("in"), "{}", url);
        }
    }

    #[test]
    fn reading_a_pattern_or_a_url_never_panics(text in "\\PC{0,60}") {
        let _ = text.parse::<Pattern>();
        let _ = format!("GET https://{text}").parse::<Pattern>();
        let _ = target::parse(&text);
        let _ = target::parse(&format!("https://{text}"));
    }
}
