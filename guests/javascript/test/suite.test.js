// The conformance suite under the host for tests: the scenarios that need nothing but it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Problem, hang, later, start } from "wfhost/testing";

const suite = new URL("../../suite/javascript/suite.js", import.meta.url);
const scenarios = JSON.parse(readFileSync(new URL("../../suite/scenarios.json", import.meta.url)));
const traits = ["exceptions", "rounds", "promises"];
// What a process does when its host dies is the real host's.
const wanted = ({ needs = [], actions = [] }) => needs.every((trait) => traits.includes(trait)) && !actions.some((action) => "die" in action);

function handlers(notes) {
  return {
    echo: (args) => args,
    delay: ({ ms, value }) => later(ms, value),
    fail: ({ kind, title, retry, ...more }) => { throw new Problem(kind, title, { ...more, retryAfter: retry }); },
    hang,
    key: (args, { key }) => key,
    bytes: () => Uint8Array.from({ length: 256 }, (_, i) => i),
    count: ({ value }) => value,
    note: (args) => { notes.push(args); return null; },
  };
}

function literal(value) {
  if (value?.$repeat) return value.$repeat[0].repeat(value.$repeat[1]);
  return value;
}

async function until(run, ready) {
  for (let i = 0; i < 100 && !ready(); i++) await run.advance(10);
  assert.ok(ready(), "what the scenario waits for has not come");
}

async function act(run, action) {
  const begun = (handler) => run.calls.filter((call) => call.handler === handler).length;
  if ("signal" in action) await run.signal(action.signal, action.body);
  else if ("begun" in action) await until(run, () => begun(action.begun) >= action.n);
  else if ("abandoned" in action) await until(run, () => run.calls.filter((call) => call.cancelled).length >= action.abandoned);
  else if ("noted" in action) await until(run, () => begun("note") >= action.noted);
  else if ("query" in action) await until(run, () => action.query in run.exposed && (assert.deepEqual(run.exposed[action.query], action.is), true));
  else if ("waiting" in action) await until(run, () => run.waiting().includes(`signal ${action.waiting}`));
  else if ("cancel" in action) await run.cancel(action.cancel);
  else if ("pause" in action) await run.advance(action.pause);
  else assert.fail(`the action ${Object.keys(action)} is not known`);
}

for (const scenario of scenarios.filter(wanted)) {
  test(scenario.name, async () => {
    const notes = [];
    const run = await start(suite, scenario.entry, literal(scenario.input), { handlers: handlers(notes), components: { other: suite }, grace: scenario.grace });
    for (const action of scenario.actions ?? []) await act(run, action);
    const ended = await run.end().then((output) => ({ output }), (problem) => ({ problem }));
    if (scenario.problem) {
      const { kind, "title-has": title, "detail-has": detail, ...members } = scenario.problem;
      assert.ok(ended.problem, `it completed with ${JSON.stringify(ended.output)}`);
      assert.ok([kind].flat().includes(ended.problem.kind), String(ended.problem.kind) + " " + ended.problem.stack);
      if (title) assert.ok(ended.problem.title.includes(title), ended.problem.title);
      if (detail) assert.ok(ended.problem.detail.includes(detail), ended.problem.detail);
      for (const [name, value] of Object.entries(members)) {
        const is = name === "data" ? { ...ended.problem.data, at: undefined, stack: undefined } : ended.problem[name];
        assert.deepEqual(JSON.parse(JSON.stringify(is)), value);
      }
    } else if (scenario.cancelled) {
      assert.equal(ended.problem?.kind, "cancelled");
    } else {
      if (ended.problem) throw ended.problem;
      if (scenario["output-bytes"]) assert.deepEqual(ended.output, Uint8Array.from({ length: 256 }, (_, i) => 255 - i));
      else assert.deepEqual(JSON.parse(JSON.stringify(ended.output)), literal(scenario.output));
    }
    if (scenario.notes) assert.deepEqual(notes, scenario.notes);
    for (const [handler, n] of Object.entries(scenario.calls ?? {})) assert.equal(run.calls.filter((call) => call.handler === handler).length, n);
    if (scenario.logs) assert.deepEqual(run.logs.map(({ level, text, fields }) => ({ level, text, fields })), scenario.logs);
  });
}
