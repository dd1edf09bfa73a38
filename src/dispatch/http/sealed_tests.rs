//! Placeholders in texts.

use super::*;
use crate::process::secret::PlaceholderKey;

fn found(text: &str) -> Vec<(usize, String)> {
    find(text.as_bytes()).map(|found| (found.range.start, found.name.to_owned())).collect()
}

#[test]
fn placeholders_are_found_by_their_form() {
    let key = PlaceholderKey::of_seed(&[1; 32]);
    let (a, b) = (key.placeholder("A"), key.placeholder("S3_KEY_2"));
    assert_eq!(found(&a), [(0, "A".to_owned())]);
    assert_eq!(found(&format!("x{a}{b}")), [(1, "A".to_owned()), (1 + a.len(), "S3_KEY_2".to_owned())]);
    // Of any run, and of digits in capitals.
    assert_eq!(found(&format!("{PREFIX}K-{}", "F".repeat(32))).len(), 1);
    for text in [
        "",
        PREFIX,
        "wfhost-secret-A",
        &format!("{PREFIX}-{}", "0".repeat(32)),
        &format!("{PREFIX}a-b-{}", "0".repeat(32)),
        &format!("{PREFIX}A-{}", "0".repeat(31)),
        &format!("{PREFIX}A-{}", "g".repeat(32)),
        &format!("{PREFIX}{}-{}", "A".repeat(65), "0".repeat(32)),
        &a.replace("secret", "secre"),
    ] {
        assert_eq!(found(text), [], "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_is_a_fault(bytes: Vec<u8>, cut in 0_usize..60) {
        let text = PlaceholderKey::of_seed(&[1; 32]).placeholder("KEY");
        let whole = [&bytes, &text.as_bytes()[..cut.min(text.len())], &bytes].concat();
        find(&whole).for_each(drop);
        let whole = [&bytes, text.as_bytes(), &bytes].concat();
        proptest::prop_assert!(find(&whole).any(|found| found.text == text));
    }
}
