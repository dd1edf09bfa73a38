use super::*;
use serde_json::json;

fn schema(value: Value) -> Schema {
    serde_json::from_value(value).unwrap()
}

fn told(schema: &Schema, value: &Value) -> Vec<String> {
    schema.check(value).into_iter().map(|v| format!("{} {}", v.pointer, v.message)).collect()
}

#[test]
fn everything_wrong_is_told_with_its_place() {
    let schema = schema(json!({
        "type": ["array"], "minItems": 2, "uniqueItems": true,
        "items": {"type": ["object"], "required": ["url"], "additionalProperties": false,
            "properties": [["url", {"type": ["string"], "format": "uri"}], ["n", {"type": ["integer"], "minimum": 1.0, "exclusiveMaximum": 9.0}]]},
    }));
    assert!(told(&schema, &json!([{"url": "https://a.b/"}, {"url": "x:y", "n": 8}])).is_empty());
    assert_eq!(
        told(&schema, &json!([{"url": "nope", "n": 9, "z/~": 1}])),
        [
            " must have at least 2 items; it has 1",
            "/0/url must be a URI (https://example.com); it is \"nope\"",
            "/0/n must be less than 9; it is 9",
            "/0 there is no key `z/~`",
        ]
    );
    assert_eq!(
        told(&schema, &json!([{"n": 0}, {"n": 0}])),
        [
            " must have no item twice; an object is",
            "/0 `url` is missing",
            "/0/n must be at least 1; it is 0",
            "/1 `url` is missing",
            "/1/n must be at least 1; it is 0",
        ]
    );
    assert_eq!(told(&schema, &json!("x")), [" must be a list; it is \"x\""]);
}

#[test]
fn one_and_one_point_zero_are_one_integer() {
    let schema = schema(json!({"type": ["integer"], "enum": [1, 2]}));
    let number = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert!(told(&schema, &number("1.0")).is_empty());
    assert!(told(&schema, &number("2")).is_empty());
    assert_eq!(told(&schema, &number("1.5")), [" must be a whole number; it is 1.5"]);
    assert_eq!(told(&schema, &number("3")), [" must be one of 1, 2; it is 3"]);
}

#[test]
fn formats() {
    let cases = [
        ("uri", "https://example.com/", "/relative"),
        ("date", "2026-02-28", "2026-02-30"),
        ("date-time", "2026-02-28T10:00:00Z", "2026-02-28 10:00"),
        ("email", "a@b.c", "a b@c"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567"),
        ("duration", "5m", "soon"),
    ];
    for (name, good, bad) in cases {
        let schema = schema(json!({"format": name}));
        assert!(told(&schema, &json!(good)).is_empty(), "{name} {good}");
        assert_eq!(told(&schema, &json!(bad)).len(), 1, "{name} {bad}");
    }
}
