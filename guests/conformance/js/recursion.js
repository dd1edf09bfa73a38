// How deep JavaScript recurses in a guest's stack. Each entry completes with a number; `endless`
// does not complete.

const json = (val) => ({ tag: "json", val });
const outcome = (tag, val) => ({ status: { tag, val }, commands: [] });

let entry, input;

const fib = (n) => (n < 2 ? n : fib(n - 1) + fib(n - 2));

const depth = (value) => (value.length === 0 ? 1 : 1 + depth(value[0]));

const tree = (n) => (n === 0 ? null : { left: tree(n - 1), value: n });
const sum = (node) => (node === null ? 0 : node.value + sum(node.left));

function dive(level) {
  try {
    return dive(level + 1);
  } catch (error) {
    if (!(error instanceof RangeError) && !(error instanceof InternalError)) throw error;
    return level;
  }
}

const endless = (n) => 1 + endless(n + 1);

const entries = {
  // Recursive fib.
  fib: () => fib(input),
  // JSON of that many nested lists, parsed, walked and written again.
  nested: () => {
    const text = "[".repeat(input) + "]".repeat(input);
    const value = JSON.parse(text);
    return JSON.stringify(value) === text ? depth(value) : -1;
  },
  // A tree of that depth, made and walked by recursion.
  tree: () => sum(tree(input)),
  // A regular expression whose groups nest.
  regex: () => new RegExp("(".repeat(input) + "a" + ")".repeat(input)).exec("a").length,
  // Until the language's own error is thrown, which is caught: the depth reached.
  limit: () => dive(0),
  // The same without a catch.
  endless: () => endless(0),
};

export const guest = {
  init(name, payload) {
    [entry, input] = [name, JSON.parse(payload.val)];
  },
  step() {
    return outcome("complete", json(JSON.stringify(entries[entry]())));
  },
  close() {},
};
