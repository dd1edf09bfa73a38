//! The components that are being compiled, as a terminal shows them.

use std::time::{Duration, Instant};

/// Loading is shown when it takes longer: then something is being compiled. Arbitrary.
const SHOWN_AFTER: Duration = Duration::from_millis(400);

/// What is being compiled, in the order in which it began.
#[derive(Default)]
pub(super) struct Compilations(Vec<Compilation>);

struct Compilation {
    component: String,
    text: String,
    since: Instant,
}

impl Compilations {
    pub(super) fn begin(&mut self, component: String, text: String) {
        self.0.push(Compilation { component, text, since: Instant::now() });
    }

    pub(super) fn end(&mut self, component: &str) {
        self.0.retain(|one| one.component != component);
    }

    /// What is shown while a workflow is loaded, which `began` then: texts with their times.
    pub(super) fn lines(&self, began: Instant) -> Vec<(&str, Duration)> {
        let all: Vec<(&str, Duration)> = if self.0.is_empty() {
            vec![("loading", began.elapsed())]
        } else {
            self.0.iter().map(|one| (one.text.as_str(), one.since.elapsed())).collect()
        };
        all.into_iter().filter(|(_, elapsed)| *elapsed >= SHOWN_AFTER).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_are_shown_each_until_its_end() {
        let mut all = Compilations::default();
        let long_ago = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        assert_eq!(all.lines(long_ago)[0].0, "loading");
        assert!(all.lines(Instant::now()).is_empty());
        for name in ["a", "b"] {
            all.begin(name.to_owned(), format!("compiling {name}"));
        }
        assert!(all.lines(long_ago).is_empty(), "they have just begun");
        all.0.iter_mut().for_each(|one| one.since = long_ago);
        let texts = |all: &Compilations| all.lines(long_ago).iter().map(|line| line.0.to_owned()).collect::<Vec<_>>();
        assert_eq!(texts(&all), ["compiling a", "compiling b"]);
        all.end("a");
        assert_eq!(texts(&all), ["compiling b"]);
    }
}
