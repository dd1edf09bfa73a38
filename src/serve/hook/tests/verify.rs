//! Deliveries as their senders sign them: with the vectors that they publish.

use crate::serve::hook::secret::Secret;
use crate::serve::hook::verify::{Genuine, Received, Refusal, Verify};
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use serde_json::json;

/// A delivery, and how it is verified.
struct Vector {
    verify: Verify,
    secret: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// When it was signed.
    at: u64,
    /// The headers that are the signature or are signed.
    signed: Vec<&'static str>,
}

impl Vector {
    fn check(&self, now: u64) -> Result<Genuine, Refusal> {
        self.check_by(now, &[self.secret])
    }

    fn check_by(&self, now: u64, secrets: &[&str]) -> Result<Genuine, Refusal> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            // A header as it comes from the network: any bytes but controls.
            let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) else { return Err(Refusal::Forged) };
            headers.append(HeaderName::from_static(name), value);
        }
        let secrets: Vec<_> = secrets.iter().map(|secret| Secret::of(*secret)).collect();
        self.verify.check_by(&Received { headers: &headers, body: &self.body, now }, &secrets)
    }

    fn header(&mut self, name: &str) -> &mut String {
        &mut self.headers.iter_mut().find(|(known, _)| *known == name).expect("the vector has it").1
    }
}

fn verify(spec: &serde_json::Value) -> Verify {
    serde_json::from_value(spec.clone()).unwrap()
}

fn secrets() -> serde_json::Value {
    json!([{ "from": "env", "name": "SECRET" }])
}

/// The example of GitHub's documentation, "Validating webhook deliveries".
fn github() -> Vector {
    Vector {
        verify: verify(&json!({ "scheme": "github", "secrets": secrets() })),
        secret: "It's a Secret to Everybody",
        headers: vec![
            ("x-hub-signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17".into()),
            ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958".into()),
        ],
        body: b"Hello, World!".to_vec(),
        at: 1_700_000_000,
        signed: vec!["x-hub-signature-256"],
    }
}

/// The example of Slack's documentation, "Verifying requests from Slack".
fn slack() -> Vector {
    let body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V\
                &channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=\
                &response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F\
                96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    Vector {
        verify: verify(&json!({ "scheme": "slack", "secrets": secrets() })),
        secret: "8f742231b10e8888abcd99yyyzzz85a5",
        headers: vec![
            ("x-slack-signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503".into()),
            ("x-slack-request-timestamp", "1531420618".into()),
        ],
        body: body.into(),
        at: 1_531_420_618,
        signed: vec!["x-slack-signature", "x-slack-request-timestamp"],
    }
}

/// The example of the Standard Webhooks specification and of its libraries.
fn standard() -> Vector {
    Vector {
        verify: verify(&json!({ "scheme": "standard", "secrets": secrets() })),
        secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        headers: vec![
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek".into()),
            ("webhook-timestamp", "1614265330".into()),
            ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=".into()),
        ],
        body: br#"{"test": 2432232314}"#.to_vec(),
        at: 1_614_265_330,
        signed: vec!["webhook-id", "webhook-timestamp", "webhook-signature"],
    }
}

/// The payload of the tests of Stripe's libraries, signed by its library for Python, 16.1.0. Stripe
/// publishes no signature with its secret.
fn stripe() -> Vector {
    Vector {
        verify: verify(&json!({ "scheme": "stripe", "secrets": secrets() })),
        secret: "whsec_test_secret",
        headers: vec![(
            "stripe-signature",
            "t=1492774577,v1=c2f890decbc5ede7c5060bb9a6d31e0626a4342bacb9aeae2adb1bcea72f9812,v0=6ffbb59b2300aae6\
             3f272406069a9788598b792a944a07aba816edb039989a39"
                .into(),
        )],
        body: b"{\n  \"id\": \"evt_test_webhook\",\n  \"object\": \"event\"\n}".to_vec(),
        at: 1_492_774_577,
        signed: vec![],
    }
}

/// Test case 2 of RFC 4231, with a hash that is not the usual one.
fn rfc_4231() -> Vector {
    Vector {
        verify: verify(&json!({
            "scheme": "hmac", "secrets": secrets(), "header": "X-Signature", "prefix": "sha512=", "algorithm": "sha512",
            "encoding": "hex", "signed": "body",
        })),
        secret: "Jefe",
        headers: vec![(
            "x-signature",
            "sha512=164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6\
             fdcaeab1a34d4a6b4b636e070a38bce737"
                .into(),
        )],
        body: b"what do ya want for nothing?".to_vec(),
        at: 0,
        signed: vec!["x-signature"],
    }
}

fn all() -> [Vector; 5] {
    [github(), slack(), standard(), stripe(), rfc_4231()]
}

#[test]
fn what_senders_publish_is_genuine() {
    for vector in all() {
        let genuine = vector.check(vector.at).unwrap_or_else(|why| panic!("{:?}: {why}", vector.verify));
        assert!(genuine.key.is_some());
    }
    let id = |vector: Vector| vector.check(vector.at).unwrap().id.unwrap();
    assert_eq!(id(github()), "72d3162e-cc78-11e3-81ab-4c9367dc0958");
    assert_eq!(id(standard()), "msg_p5jXN8AQM9LWM0D4loKWxJek");
    assert_eq!(id(stripe()), "event-evt_test_webhook");
}

/// A flipped bit of what is signed is refused, or changes only how the signature is written: then
/// the delivery is recognised as the same one.
#[test]
fn each_flipped_bit_of_what_is_signed_is_refused() {
    for original in all() {
        let key = original.check(original.at).unwrap().key;
        let bits = |bytes: usize| (0..bytes).flat_map(|byte| (0..8).map(move |bit| (byte, 1_u8 << bit)));
        for (byte, bit) in bits(original.body.len()) {
            let mut body = original.body.clone();
            body[byte] ^= bit;
            let flipped = Vector { body, ..all().into_iter().find(|one| one.verify == original.verify).unwrap() };
            assert_eq!(flipped.check(original.at), Err(Refusal::Forged), "{:?} {byte} {bit}", original.verify);
        }
        for name in &original.signed {
            let length = original.headers.iter().find(|(known, _)| known == name).unwrap().1.len();
            for (byte, bit) in bits(length) {
                let mut flipped = all().into_iter().find(|one| one.verify == original.verify).unwrap();
                let mut bytes = flipped.header(name).clone().into_bytes();
                bytes[byte] ^= bit;
                // What is not UTF-8 is not ASCII either, which a test of its own has.
                let Ok(text) = String::from_utf8(bytes) else { continue };
                *flipped.header(name) = text.clone();
                match flipped.check(original.at) {
                    Err(_) => {}
                    Ok(genuine) => {
                        assert_eq!(genuine.key, key, "{text:?}");
                        assert!(
                            text.eq_ignore_ascii_case(&original.headers.iter().find(|(n, _)| n == name).unwrap().1)
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn another_secret_is_refused_and_two_serve_for_a_change() {
    let other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    for vector in all() {
        assert_eq!(vector.check_by(vector.at, &[other]), Err(Refusal::Forged), "{:?}", vector.verify);
        let genuine = vector.check(vector.at);
        assert_eq!(vector.check_by(vector.at, &[other, vector.secret]), genuine);
        assert_eq!(vector.check_by(vector.at, &[vector.secret, other]), genuine);
        assert_eq!(vector.check_by(vector.at, &[]), Err(Refusal::Forged));
    }
    // The sender changes it, and signs with both.
    let mut both = standard();
    *both.header("webhook-signature") = format!("v1a,AAAA v1,{} {}", "A".repeat(43) + "=", standard().headers[2].1);
    assert_eq!(both.check(both.at), standard().check(both.at));
}

#[test]
fn a_delivery_is_genuine_within_five_minutes_and_recognised_by_its_key() {
    for vector in [slack(), standard(), stripe()] {
        let (at, key) = (vector.at, vector.check(vector.at).unwrap().key);
        for now in [at + 1, at + 300, at - 300] {
            assert_eq!(vector.check(now).unwrap().key, key);
        }
        assert_eq!(vector.check(at + 301), Err(Refusal::Late(301)));
        assert_eq!(vector.check(at + 3600), Err(Refusal::Late(3600)));
        assert_eq!(vector.check(at - 301), Err(Refusal::Early(301)));
        assert!(vector.check(0).is_err() && vector.check(u64::MAX).is_err());
    }
    // What has no time is recognised for ever, whatever is written beside the signature.
    let mut later = github();
    *later.header("x-github-delivery") = "another".into();
    assert_eq!(later.check(u64::MAX).unwrap().key, github().check(0).unwrap().key);
}

#[test]
fn what_is_sent_again_with_a_new_signature_is_recognised() {
    let sign = |message: &[u8], secret: &str| {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
        let tag = ring::hmac::sign(&key, message);
        super::hex(tag.as_ref())
    };
    let mut again = stripe();
    let at = again.at + 3600;
    let tag = sign(&[format!("{at}.").as_bytes(), &again.body].concat(), again.secret);
    *again.header("stripe-signature") = format!("t={at},v1={tag}");
    assert_eq!(again.check(at).unwrap(), stripe().check(stripe().at).unwrap());
    let mut again = slack();
    let at = again.at + 3600;
    let tag = sign(&[format!("v0:{at}:").as_bytes(), &again.body].concat(), again.secret);
    *again.header("x-slack-signature") = format!("v0={tag}");
    *again.header("x-slack-request-timestamp") = at.to_string();
    assert_eq!(again.check(at).unwrap(), slack().check(slack().at).unwrap());
}

#[test]
fn headers_that_are_missing_repeated_or_malformed_are_refused() {
    for vector in all() {
        for at in 0..vector.headers.len() {
            let fresh = || all().into_iter().find(|one| one.verify == vector.verify).unwrap();
            let name = vector.headers[at].0;
            if name == "x-github-delivery" {
                continue;
            }
            let mut one = fresh();
            one.headers.remove(at);
            assert_eq!(one.check(one.at).unwrap_err(), Refusal::Missing(header_name(&vector.verify, name)));
            let mut one = fresh();
            one.headers.push(vector.headers[at].clone());
            assert_eq!(one.check(one.at).unwrap_err(), Refusal::Repeated(header_name(&vector.verify, name)));
            for text in ["", " ", "v1,", "sha256=", "t=", "é", "t=1492774577", "+1614265330", "1e9", "v1=00,v1=11"] {
                let mut one = fresh();
                *one.header(name) = text.into();
                assert!(one.check(one.at).is_err(), "{name}: {text:?}");
            }
        }
    }
    let mut two = stripe();
    two.header("stripe-signature").push_str(",t=1492774577");
    assert!(two.check(two.at).unwrap_err().to_string().contains("does not have one `t=`"));
    let mut many = standard();
    *many.header("webhook-signature") = vec!["v1,AAAA"; 17].join(" ");
    assert!(many.check(many.at).unwrap_err().to_string().contains("too many"));
    // A dot would let the id and the time end elsewhere in what is signed.
    let mut dotted = standard();
    *dotted.header("webhook-id") = "msg.1".into();
    assert!(dotted.check(dotted.at).unwrap_err().to_string().contains("is not an id"));
}

/// As the refusal shows it: as the webhook's owner wrote it.
fn header_name(verify: &Verify, name: &str) -> String {
    match verify {
        Verify::Hmac { header, .. } => header.clone(),
        _ => name.to_owned(),
    }
}

#[test]
fn a_token_is_compared_whole() {
    let vector = |token: &str, id: Option<&str>| Vector {
        verify: verify(&json!({
            "scheme": "token", "secrets": secrets(), "header": "Authorization", "prefix": "Bearer ", "id": "X-Event",
        })),
        secret: "a token of some length",
        headers: [("authorization", token.to_owned())]
            .into_iter()
            .chain(id.map(|id| ("x-event", id.to_owned())))
            .collect(),
        body: Vec::new(),
        at: 0,
        signed: vec![],
    };
    let genuine = vector("Bearer a token of some length", Some("7")).check(0).unwrap();
    assert_eq!(genuine.key.as_deref(), Some("7"));
    for token in ["a token of some length", "Bearer a token of some lengti", "Bearer a token", "Bearer ", ""] {
        assert_eq!(vector(token, Some("7")).check(0), Err(Refusal::Forged), "{token}");
    }
    assert_eq!(vector("Bearer a token of some length", None).check(0), Err(Refusal::Missing("X-Event".into())));
    assert!(vector("Bearer a token of some length", Some(&"x".repeat(256))).check(0).is_err());
}

#[test]
fn a_description_with_anything_unknown_is_refused() {
    for spec in [
        json!({ "scheme": "github", "secrets": secrets(), "header": "X" }),
        json!({ "scheme": "github" }),
        json!({ "scheme": "md5", "secrets": secrets() }),
        json!({ "scheme": "none", "secrets": [] }),
        json!({ "secrets": secrets() }),
        json!({ "scheme": "github", "secrets": [{ "from": "env", "name": "A", "value": "B" }] }),
        json!({ "scheme": "github", "secrets": ["plain"] }),
    ] {
        assert!(serde_json::from_value::<Verify>(spec.clone()).is_err(), "{spec}");
    }
    assert_eq!(verify(&json!({ "scheme": "none" })), Verify::None { id: None });
}

proptest! {
    /// Whatever a stranger sends in any header, and as the body, is refused, and ends nobody.
    #[test]
    fn no_text_is_taken_for_a_signature(
        text in "[ -~]{0,80}|(v1|v0|t|sha256|sha512)[=,][0-9a-zA-Z+/=, ]{0,140}|t=[0-9]{1,22},v1=[0-9a-f]{0,70}",
        other in "[0-9]{0,25}|[ -~]{0,40}",
        body in proptest::collection::vec(any::<u8>(), 0..200),
        now in any::<u64>(),
    ) {
        for vector in all() {
            let headers = vector.headers.iter().enumerate();
            let headers = headers.map(|(at, (name, _))| (*name, if at == 0 { text.clone() } else { other.clone() }));
            let forged = Vector { headers: headers.collect(), body: body.clone(), ..vector };
            prop_assert!(forged.check(now).is_err(), "{:?}", forged.headers);
        }
    }
}
