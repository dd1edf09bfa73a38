//! A step of a workflow: `run` is its entry.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use wfhost_guest::{Ctx, Problem};

#[derive(Deserialize)]
struct Input {
    name: String,
}

#[derive(Serialize)]
struct Output {
    greeting: String,
}

async fn run(ctx: Ctx, input: Input) -> Result<Output, Problem> {
    if input.name.is_empty() {
        return Err(Problem::new("no-name", "There is nobody to greet"));
    }
    ctx.sleep(Duration::from_millis(10)).await?;
    Ok(Output { greeting: format!("Hello, {}!", input.name) })
}

wfhost_guest::export! { "run" => run }

#[cfg(test)]
mod tests {
    use super::run;
    use wfhost_guest::testing::{Stepped, completed};
    use wfhost_guest::{Action, Payload, start};

    fn started(name: &str) -> Stepped {
        let input = Payload::Json(format!(r#"{{ "name": "{name}" }}"#));
        Stepped::start(|ctx, input| start(run, ctx, input), input).unwrap()
    }

    #[test]
    fn it_greets_after_a_moment() {
        let mut process = started("Ann");
        let first = process.step(vec![]);
        let [sleep] = &first.commands[..] else { panic!("{first:?}") };
        assert!(matches!(sleep.action, Action::Sleep(10_000)));
        let last = process.answer(sleep.tag, Ok(Payload::null()));
        assert_eq!(completed(&last), Some(r#"{"greeting":"Hello, Ann!"}"#));
    }

    #[test]
    fn a_name_is_needed() {
        let outcome = started("").step(vec![]);
        assert!(format!("{:?}", outcome.status).contains("no-name"));
    }
}
