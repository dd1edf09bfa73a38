//! What a person at a terminal is asked. The terminal is that of Python's `pty`; where there is no
//! Python nothing is tried.

use super::support::{World, eventually};
use super::{cache, root};
use serde_json::json;
use std::process::{Command, Stdio};

const ASKS: &str = "steps: [{ id: asks, wait: { signal: answer } }]\noutputs: { got: \"${ .steps.asks.output }\" }\n";

/// Runs a command in a terminal of its own and does the steps of a script: waits for a text that
/// the terminal shows, or types one. Prints all that was shown, and the exit code.
const AT_A_TERMINAL: &str = "
import os, pty, select, sys, time
words = sys.argv[2:]
cut = words.index('--')
script, command = words[:cut], words[cut + 1:]
pid, terminal = pty.fork()
if pid == 0:
    # A job of its own that the shell of the terminal, which is this process, does not put in front.
    job = os.fork() if sys.argv[1] == 'background' else 0
    if job == 0:
        if sys.argv[1] == 'background':
            os.setpgid(0, 0)
        os.execvp(command[0], command)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(job, 0)[1]))
shown = b''
def read(until):
    global shown
    end = time.time() + 60
    while until is None or until not in shown:
        ready, _, _ = select.select([terminal], [], [], 1)
        if time.time() > end:
            sys.exit('not shown: %r in %r' % (until, shown))
        if ready:
            try:
                part = os.read(terminal, 4096)
            except OSError:
                return
            if not part:
                return
            shown += part
for step in script:
    kind, text = step.split(':', 1)
    if kind == 'wait':
        read(text.encode())
    else:
        os.write(terminal, text.encode().decode('unicode_escape').encode())
read(None)
sys.stdout.buffer.write(shown)
print('\\nexit', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

/// What is shown, or none where there is no terminal to be had.
fn at_a_terminal(world: &World, id: &str, script: &[&str]) -> Option<String> {
    as_a_job(world, "foreground", id, script)
}

/// The same of a command in the foreground or background of its terminal.
fn as_a_job(world: &World, place: &str, id: &str, script: &[&str]) -> Option<String> {
    let mut python = Command::new("python3");
    python.arg("-c").arg(AT_A_TERMINAL).arg(place).args(script).arg("--").arg(env!("CARGO_BIN_EXE_wfhost"));
    python.args(["run", "--color", "never", "--run-id", id, &world.file]).current_dir(root()).stdin(Stdio::null());
    python.env("WFHOST_CACHE", cache()).env("WFHOST_DATA", &world.data).env("TERM", "xterm").env_remove("NO_COLOR");
    let Ok(output) = python.output() else {
        eprintln!("SKIPPED: there is no python3");
        return None;
    };
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{shown}{}", String::from_utf8_lossy(&output.stderr));
    Some(shown)
}

const ASKED: &str = "wait:d suspends it until `wfhost resume`";

#[test]
fn a_run_can_be_left_for_others() {
    let world = World::new(ASKS);
    // The letter 3 is Ctrl-C.
    let script = ["wait:asks", "type:\\x03", ASKED, "type:d\\n"];
    let Some(shown) = at_a_terminal(&world, "left", &script) else { return };
    assert!(shown.contains("exit 3") && shown.contains("to resume it: wfhost resume left"), "{shown}");
    assert_eq!(world.tells(&["status", "--json", "left"])["status"], "suspended");
}

#[test]
fn a_run_goes_on_while_it_is_asked_what_is_to_become_of_it() {
    let world = World::new(ASKS);
    std::thread::scope(|scope| {
        let shown =
            scope.spawn(|| at_a_terminal(&world, "on", &["wait:asks", "type:\\x03", ASKED, "type:\\n", "wait:got"]));
        // Without a terminal there is no run to be told anything.
        eventually(|| {
            (shown.is_finished() || world.does(&["signal", "on", "answer", "1"]).status.success()).then_some(())
        });
        let Some(shown) = shown.join().unwrap() else { return };
        assert!(shown.contains("\"got\": 1") && shown.contains("exit 0"), "{shown}");
        assert_eq!(world.tells(&["status", "--json", "on"])["outputs"], json!({ "got": 1 }));
    });
}

#[test]
fn a_second_interrupt_cancels_and_so_does_the_letter() {
    let world = World::new(ASKS);
    for (id, last) in [("twice", "type:\\x03"), ("letter", "type:c\\n")] {
        let Some(shown) = at_a_terminal(&world, id, &["wait:asks", "type:\\x03", ASKED, last]) else { return };
        assert!(
            shown.contains("cancelling the run; interrupt again to kill it") && shown.contains("exit 3"),
            "{shown}"
        );
        assert_eq!(world.tells(&["status", "--json", id])["status"], "cancelled");
    }
}

/// In the background the terminal is somebody else's, who writes on it too: there are lines, each
/// written once.
#[test]
fn only_a_command_in_the_foreground_draws_on_the_terminal() {
    let world = World::new(ASKS);
    for place in ["foreground", "background"] {
        std::thread::scope(|scope| {
            let shown = scope.spawn(|| as_a_job(&world, place, place, &["wait:answer JSON"]));
            eventually(|| (shown.is_finished() || world.is_at(place, "asks")).then_some(()));
            // So long that it would have drawn several times.
            std::thread::sleep(std::time::Duration::from_millis(500));
            world.does(&["signal", place, "answer", "1"]);
            let Some(shown) = shown.join().unwrap() else { return };
            assert!(shown.contains("exit 0") && shown.contains("✓ asks: succeeded"), "{shown}");
            assert!(shown.contains("hint: wfhost signal"), "{shown}");
            assert_eq!(shown.contains("\x1b["), place == "foreground", "{shown:?}");
            assert_eq!(shown.contains("\nasks: waits for signal answer"), place == "background", "{shown:?}");
        });
    }
}
