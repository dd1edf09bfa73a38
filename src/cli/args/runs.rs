//! Commands upon runs.

use super::DataArguments;
use crate::cli::args::values::{self, Call, Since};
use clap::{Args, ValueEnum};
use std::time::Duration;

/// The status of a run.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum State {
    /// A host runs it, also where it only waits.
    Running,
    /// A host runs it, and all of it waits: for a signal, a time, an answer.
    Waiting,
    /// It has not ended, and no process runs it.
    Suspended,
    /// It has not ended, and cannot be resumed: its records are damaged.
    Damaged,
    /// It gave its outputs.
    Succeeded,
    /// It ended with a problem.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// It was cancelled because it took too long.
    TimedOut,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost ls --status suspended
  wfhost ls --name billing --since 24h --json | jq -r '.[].run'

With --json it is a list with an object for each run:
  run, workflow     its id, and the name of its workflow
  status            running, suspended (nobody runs it), damaged (nobody can, as
                    far as that was seen), succeeded, failed, cancelled,
                    timed-out
  started, ended    as in RFC 3339; ended is null where it has not
  records           how many there are; of a run that goes on how many there
                    were some time ago
  state             of a running one: running, waiting, paused, stalled, as
                    `wfhost ps` has it
  host              of a running one: the id of the process
  damage            of a damaged one, be it over or not: what is wrong, as far
                    as that was seen")]
pub(in crate::cli) struct Ls {
    /// Only runs with this status.
    #[arg(long, value_enum)]
    pub(in crate::cli) status: Option<State>,
    /// Only runs of the workflow with this name.
    #[arg(long)]
    pub(in crate::cli) name: Option<String>,
    /// Only runs started since: `24h` ago, or at a time like 2026-01-31 or 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "WHEN", value_parser = values::since)]
    pub(in crate::cli) since: Option<Since>,
    /// At most so many [default: 50; with --json all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(in crate::cli) limit: Option<u32>,
    /// Print them as JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost ps
  wfhost ps --json | jq '.[] | select(.uncertain > 0) | .run'

With --json it is a list with an object for each run:
  run, workflow     its id, and the name of its workflow; null where it is not
                    durable: such a run is seen only beside durable ones of the
                    same process, so never one of `wfhost run --durability none`
  state             running, waiting (all its processes wait), paused
  host              the id of the process that runs it
  processes         that live
  uncertain         calls whose outcome is unknown: `wfhost resolve`
  counts            what has happened, in numbers")]
pub(in crate::cli) struct Ps {
    /// Print them as JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost status 0198
  wfhost status order-4711 --json | jq '.steps[] | select(.status == \"running\")'

RUN is a run's id, or a unique prefix of it.
With --json it is one object:
  run, workflow, file, status, started, ended, records, host, damage     as
    `wfhost ls --json` has them
  state              of a running one: running, waiting, paused; of a suspended
                     one only paused
  steps              node, status, total, done, failed, flying, attempts, and
                     error where it failed; where it goes on also waiting and
                     queued (items that wait for something, and for their turn),
                     deadline (when it times out), and waits: for (signal, time,
                     attempt), since, until, item, and name, or attempt,
                     attempts-max, kind, title
  processes          of a running one: pid, parent, component, entry, names,
                     doing, steps, fuel, mail, outstanding
  signals            of one that has not ended: name, waiting (calls that wait
                     for one), kept (that nobody has taken)
  uncertain          of one that has not ended: pid, tag, handler, key
  left               of a suspended one: what is done when it is taken up: act
                     (signal, cancel, pause, resolve), id, and name and bytes,
                     reason and now, or pid, tag and outcome
  queries            names for `wfhost query`
  outputs, problem   of one that has ended
  counts             what has happened, in numbers")]
pub(in crate::cli) struct Show {
    /// The run.
    pub(in crate::cli) run: String,
    /// Print it as JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost logs 0198
  wfhost logs -f order-4711
  wfhost logs 0198 --json | jq -r 'select(.level == \"error\") | .text'

RUN is a run's id, or a unique prefix of it.
With --json there is an object in each line:
  at        as in RFC 3339
  process   the step that the line is of; empty: the workflow itself
  pid, level, text, fields

Exit codes with -f: 0 the run is over, however it ended; 3 it is unfinished and nobody tells of it any more, since its host died or \
let go of it.")]
pub(in crate::cli) struct Logs {
    /// The run.
    pub(in crate::cli) run: String,
    /// Follow the log until the run ends.
    #[arg(short, long)]
    pub(in crate::cli) follow: bool,
    /// Include `trace` and `debug` lines.
    #[arg(short, long)]
    pub(in crate::cli) all: bool,
    /// Print them as JSON, an object in a line.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost history 0198
  wfhost history 0198 --step approval --tail 20
  wfhost history order-4711 --json | jq -c 'select(.stepped.pid == 2)'

RUN is a run's id, or a unique prefix of it.
With --json there is an object in each line: version (1), number, and the record under its kind.
The version grows where something that is there changes its meaning or goes; more may come \
without that.
  started   run, at, seed, root, programs, entry, input, limits, grants, bounds,
            and origin of a retry or fork: run, record (0: a retry), keys,
            seen-as, held, former-keys
  stepped   pid, step, at, took (events), fuel, digest, owes, commands, log
            (level, text, fields), log-dropped, and status: ready, blocked,
            idle, complete (with output), failed (with problem), renew (with
            entry and input)
  died      pid, step, at, fuel, log, log-dropped, and ending: completed, failed
            (with problem), cancelled (with reason)
  arrived   at, act (id and digest, or null), and news: answered (pid, tag,
            output or problem), due and again (pid, tag), message (pid, sender,
            topic, body), cancel (pid, reason, grace-us), signal (name, body),
            paused, unpaused, timed-out (after-us)
  leaving   pid, tag
A command has tag, command, what was asked for, decision, and what was decided:
  command   sleep (duration-us), spawn (component, entry, input, name, link,
            detached, narrow), call (handler, args, timeout-us,
            idempotency-key), send (target, topic, body), cancel, stop, monitor,
            link, unlink (target), register (name), expose (query, value); of
            the workflow's own spawns and calls also scope (STEP/ITEM/N),
            limits, grants
  decision  done, answered and took (output or problem), due (due), spawned,
            delivered, meant (pid), called (key), gone (pid and an ending),
            waits
What people and guests gave is { json: ... }, { base64: ... } or { blob: { digest, size, \
media-type } }. A target or sender is { process: pid }, { child: tag }, { call: tag }, { tag: \
tag }, { name: ... }, { run: ..., name: ... } or { outside: ... }. A problem is kind, title, \
class, and as far as they are known status, detail, may-have-happened, retry-after-us, data. \
Times (at, due) are microseconds since 1970: of a step when it began, so that a record may have \
an earlier time than the one before it, which was written while the step went on. A number \
beyond 2^53 is a text of its digits, and null where it means that there is no limit; digests are \
hexadecimal.")]
pub(in crate::cli) struct History {
    /// The run.
    pub(in crate::cli) run: String,
    /// Only records about this step.
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) step: Option<String>,
    /// Only the last so many of them.
    #[arg(long, value_name = "N")]
    pub(in crate::cli) tail: Option<u32>,
    /// Only the first so many of them.
    #[arg(long, value_name = "N")]
    pub(in crate::cli) limit: Option<u32>,
    /// Print the records as JSON, an object in a line.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost cancel 0198
  wfhost cancel order-4711 --reason 'the order was withdrawn'

RUN is a run's id, or a unique prefix of it. A run that nobody runs is ended at once, and no \
step of it is run for that: where its guests are to have the grace in which they could clean up, \
resume it and cancel it then. Calls whose outcome is unknown are told.")]
pub(in crate::cli) struct Cancel {
    /// The run.
    pub(in crate::cli) run: String,
    /// The reason, recorded with the run.
    #[arg(long, default_value = "somebody asked for it")]
    pub(in crate::cli) reason: String,
    /// End it at once, without the grace in which its steps could clean up.
    #[arg(long)]
    pub(in crate::cli) now: bool,
    #[command(flatten)]
    pub(in crate::cli) act: ActArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost pause 0198
  wfhost resume 0198

RUN is a run's id, or a unique prefix of it. While a run is paused its steps are not stepped; what comes for them waits.")]
pub(in crate::cli) struct Pause {
    /// The run.
    pub(in crate::cli) run: String,
    #[command(flatten)]
    pub(in crate::cli) act: ActArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost signal 0198 approve
  wfhost signal order-4711 approve '{\"by\": \"Ann\"}' --id approval-1
  wfhost signal order-4711 document @document.json

RUN is a run's id, or a unique prefix of it. A signal is kept until somebody in the run takes it, whether or not a host \
runs it now. It is durable when the command ends. Where nothing waits for it now, and no step of the workflow ever does, you are \
warned: that may be a slip in the name.")]
pub(in crate::cli) struct Signal {
    /// The run.
    pub(in crate::cli) run: String,
    /// The signal's name.
    pub(in crate::cli) name: String,
    /// What it carries: JSON, or a file with @ [default: null].
    #[arg(value_parser = values::json)]
    pub(in crate::cli) body: Option<serde_json::Value>,
    #[command(flatten)]
    pub(in crate::cli) act: ActArguments,
}

/// What commands have that change a run.
#[derive(Args, Debug)]
pub(in crate::cli) struct ActArguments {
    /// Idempotency id: a request with the same id counts once, unless the run has received a thousand others since
    /// [default: a fresh id].
    #[arg(long, value_name = "ID", value_parser = values::act_id)]
    pub(in crate::cli) id: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost query 0198
  wfhost query order-4711 progress | jq .done

RUN is a run's id, or a unique prefix of it. Without a name the names are listed, with it its value is printed as JSON.")]
pub(in crate::cli) struct Query {
    /// The run.
    pub(in crate::cli) run: String,
    /// The name under which something is exposed.
    pub(in crate::cli) name: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost status 0198
  wfhost resolve 0198 7 --completed '{\"id\": 4711}'
  wfhost resolve 0198 3/7 --again

RUN is a run's id, or a unique prefix of it. `wfhost status` lists its uncertain calls: those that may have happened when a \
host died, and must not be repeated without being asked.")]
#[command(group = clap::ArgGroup::new("outcome").required(true))]
pub(in crate::cli) struct Resolve {
    /// The run.
    pub(in crate::cli) run: String,
    /// The call: its tag, or PID/TAG if several calls have the same tag.
    #[arg(value_name = "TAG", value_parser = values::call)]
    pub(in crate::cli) call: Call,
    /// It happened, and this is its answer: JSON, or a file with @.
    #[arg(long, value_name = "JSON", value_parser = values::json, group = "outcome")]
    pub(in crate::cli) completed: Option<serde_json::Value>,
    /// It did not happen: that attempt has failed, and the step's `retry` may make another, under a new key.
    #[arg(long, group = "outcome")]
    pub(in crate::cli) failed: bool,
    /// Send it again, under its key.
    #[arg(long, group = "outcome")]
    pub(in crate::cli) again: bool,
    #[command(flatten)]
    pub(in crate::cli) act: ActArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost rm order-4711
  wfhost rm --older-than 30d
  wfhost rm --keep 1000

A run is named by its whole id here. --older-than and --keep remove only runs that have ended. Components that no run uses are \
removed too once they are an hour old. An unfinished run that no process runs is removed if it is named, with --unfinished. The \
journal file does not shrink: its free space is used for new runs.")]
pub(in crate::cli) struct Remove {
    /// Runs.
    #[arg(required_unless_present_any = ["older_than", "keep"])]
    pub(in crate::cli) runs: Vec<String>,
    /// All that ended longer ago than this.
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(in crate::cli) older_than: Option<Duration>,
    /// Of the others, all that are over but the newest so many.
    #[arg(long, value_name = "N")]
    pub(in crate::cli) keep: Option<u32>,
    /// Also where they have not ended: they can never be taken up then.
    #[arg(long, requires = "runs")]
    pub(in crate::cli) unfinished: bool,
    /// Print how many were removed as JSON: `{"removed": 3}`.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
}
