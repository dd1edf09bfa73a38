//! A component's own description is known when a workflow is loaded.

use crate::support::{guests, host};

#[test]
fn an_entry_that_a_component_does_not_have_is_refused_before_anything_runs() {
    let host = host(1, 2);
    let load = |entry: &str| {
        let text = format!("steps: [{{ id: x, uses: ./stats.wasm, entry: {entry}, with: {{}} }}]");
        host.parse("test.yaml", &text, guests("built")).err().map(|error| error.to_string())
    };
    let error = load("reduse").expect("there is no such entry");
    assert!(error.contains("reduse") && error.contains("reduce"), "{error}");
    assert_eq!(load("reduce"), None);
}
