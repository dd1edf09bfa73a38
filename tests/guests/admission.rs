//! Many more guests than slots: those that wait give up theirs, so that those that they wait for
//! can run.

use crate::support::{host, outputs, run};

/// 5,167 guests in 8 slots; each parent waits for its children.
#[test]
fn fib_18_in_a_pool_of_eight() {
    let host = host(2, 8);
    let outcome = run(
        &host,
        "{ steps: [{ id: fib, uses: ./fib.wasm, with: { n: 18 } }], outputs: { fib: \"${ .steps.fib.output }\" } }",
    );
    assert_eq!(outputs(&outcome)["fib"], 2584);
    // A number above 2 has two children; the root is one more.
    assert_eq!(outcome.counts.processes, 2 * 2584 - 1 + 1);
    let (evictions, restores) = (host.stats().evictions, host.guests().restores());
    // One that is cancelled, or ends otherwise while it is evicted, does not come back.
    assert!(evictions > 0 && (1..=evictions).contains(&restores), "{restores} of {evictions}");
    assert_eq!(host.stats().admitting, 0);
}

/// A thousand parents that all wait for their children, in a hundred slots.
#[test]
fn a_thousand_families_in_a_pool_of_a_hundred() {
    let host = host(2, 100);
    let outcome = run(
        &host,
        "{ steps: [{ id: all, uses: ./family.wasm, with: { parents: 1000, children: 10 } }],
           outputs: { home: \"${ .steps.all.output }\" } }",
    );
    assert_eq!(outputs(&outcome)["home"], 10_000);
    assert_eq!(outcome.counts.processes, 1 + 1 + 1_000 + 10_000);
    // Of a thousand parents at least nine hundred waited without a slot.
    assert!(host.stats().evictions >= 900, "{:?}", host.stats());
}

/// One slot is enough for a tree of any size.
#[test]
fn fib_in_a_pool_of_one() {
    let host = host(1, 1);
    let text =
        "{ steps: [{ id: fib, uses: ./fib.wasm, with: { n: 9 } }], outputs: { fib: \"${ .steps.fib.output }\" } }";
    assert_eq!(outputs(&run(&host, text))["fib"], 34);
}
