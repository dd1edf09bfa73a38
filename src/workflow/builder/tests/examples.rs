//! Files of the folder `workflows`, written in Rust.

use super::*;
use serde_json::json;

fn assert_same_as_example(definition: &Definition, name: &str) {
    let path = format!("{}/workflows/{name}", env!("CARGO_MANIFEST_DIR"));
    assert_same(definition, &std::fs::read_to_string(path).unwrap());
}

#[test]
fn approval() {
    let definition = Definition::new("approval")
        .description("Waits for somebody, however long that takes.")
        .component("fib", "../guests/built/fib.wasm")
        .component("hello", "../guests/built/hello.wasm")
        .step("price", Step::uses("fib").with(json!({ "n": 15 })))
        .step("approval", Step::wait(Signal::named("approve")).needs(["price"]))
        .step(
            "thanks",
            Step::uses("hello").needs(["approval"]).with(json!({ "name": expr(".steps.approval.output.by") })),
        )
        .output("price", expr(".steps.price.output"))
        .output("thanks", expr(".steps.thanks.output.greeting"));
    assert_same_as_example(&definition, "approval.yaml");
}

#[test]
fn trip() {
    #[derive(serde::Serialize)]
    struct Set<T> {
        op: &'static str,
        key: Expr,
        value: T,
    }
    let kv = || Step::call("kv").allow("kv", ["*"]);
    let set = |key: &str, value| kv().with(Set { op: "set", key: template(key), value });
    let delete = |key: &str| kv().with(json!({ "op": "delete", "key": template(key) }));
    let pay = "const { price, budget } = input;\n\
               if (price > budget) throw new Error(`the trip costs ${price}, and there are ${budget}`);\n\
               return { paid: price };\n";
    let definition = Definition::new("trip")
        .input("who", Input::string().default_value("Ann"))
        .input("cities", Input::array().items(Input::string()).default_value(["Rome", "Naples"]))
        .input("budget", Input::integer().default_value(1000))
        .step("flight", set("flight", json!({ "of": expr(".inputs.who"), "price": 120 })).compensate(delete("flight")))
        .step(
            "rooms",
            set("room/${ .item }", json!({ "price": 95 }))
                .needs(["flight"])
                .for_each(expr(".inputs.cities"))
                .compensate(delete("room/${ .item }")),
        )
        .step("price", Step::set(expr("120 + 95 * (.inputs.cities | length)")).needs(["rooms"]))
        .step(
            "pay",
            Step::script(ScriptLanguage::JavaScript, pay)
                .with(json!({ "price": expr(".steps.price.output"), "budget": expr(".inputs.budget") })),
        )
        .on_failure("left", kv().with(json!({ "op": "list" })))
        .on_failure(
            "tell",
            Step::call("log").with(json!({
                "level": "warn",
                "message": template("${ .inputs.who } stays at home; still booked: ${ .steps.left.output }"),
            })),
        )
        .output("paid", expr(".steps.pay.output.paid"));
    assert_same_as_example(&definition, "trip.yaml");
}

#[test]
fn shipments() {
    let get = |url: &str| {
        Step::call("http").with(json!({ "url": template(url) })).allow("http", ["GET http://localhost:8000"])
    };
    let way = Step::switch([
        Case::when(
            expr(".steps.order.output.body.total >= .inputs[\"insured-from\"]"),
            [("premium", Step::set(expr(".steps.order.output.body.total * 2 / 100")))],
        )
        .output("by", "courier")
        .output("premium", expr(".steps.premium.output")),
        Case::otherwise([("stamps", Step::set(expr("1 + (.steps.order.output.body.total / 40 | floor)")))])
            .output("by", "post")
            .output("stamps", expr(".steps.stamps.output")),
    ]);
    let definition = Definition::new("shipments")
        .input("insured-from", Input::integer().default_value(50))
        .step("open", get("http://localhost:8000/open.json"))
        .step(
            "shipment",
            Step::group([("order", get("http://localhost:8000/${ .item }.json")), ("way", way)])
                .for_each(expr(".steps.open.output.body"))
                .timeout(seconds(60))
                .retry(Retry::times(2))
                .output("to", expr(".steps.order.output.body.customer"))
                .output("way", expr(".steps.way.output")),
        )
        .output("shipments", expr(".steps.shipment.output"));
    assert_same_as_example(&definition, "shipments.yaml");
}
