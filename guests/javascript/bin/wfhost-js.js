#!/usr/bin/env node
// Builds a component from a module in JavaScript or TypeScript: wfhost-js build app.js -o app.wasm
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const TOOLS = "@bytecodealliance/componentize-js@0.23.0 esbuild@0.28.2";
const USAGE = `Usage: wfhost-js build MODULE -o COMPONENT

    wfhost-js build order.js -o order.wasm
    wfhost-js build order.ts -o order.wasm     types are stripped, not checked

The exported functions are the entries. Needs: npm install --save-dev ${TOOLS}`;

const here = fileURLToPath(new URL("..", import.meta.url));

function fail(text) {
  process.stderr.write(`error: ${text}\n`);
  process.exit(1);
}

// A tool of the user's project.
function tool(name, args) {
  const PATH = [join(process.cwd(), "node_modules", ".bin"), process.env.PATH].join(delimiter);
  const { error, status } = spawnSync(name, args, { stdio: ["ignore", "inherit", "inherit"], env: { ...process.env, PATH }, shell: process.platform === "win32" });
  if (error?.code === "ENOENT") fail(`${name} is not there\nhint: npm install --save-dev ${TOOLS}`);
  if (error || status !== 0) fail(`${name} has failed`);
}

function build(module, out) {
  const wit = ["wit/process.wit", "../../wit/process.wit"].map((path) => join(here, path)).find(existsSync);
  const work = mkdtempSync(join(tmpdir(), "wfhost-js-"));
  process.on("exit", () => rmSync(work, { recursive: true, force: true }));
  mkdirSync(join(work, "wit"));
  cpSync(wit, join(work, "wit", "process.wit"));
  writeFileSync(join(work, "wit", "described.wit"), "package wfhost:process@0.1.0;\nworld described { include process; export describe; }\n");
  writeFileSync(join(work, "main.js"), `import { describe, guest, load } from "wfhost/component";
import * as app from ${JSON.stringify(module)};
load(app);
export { describe, guest };
`);
  const bundle = join(work, "guest.js"), src = join(here, "src");
  tool("esbuild", [join(work, "main.js"), "--bundle", "--format=esm", "--target=es2022", "--log-level=warning", "--external:wfhost:process/*",
    `--alias:wfhost/component=${join(src, "component.js")}`, `--alias:wfhost/blobs=${join(src, "blobs.js")}`, `--alias:wfhost=${join(src, "core.js")}`, `--outfile=${bundle}`]);
  // Without these features the engine (StarlingMonkey) imports nothing of WASI.
  tool("componentize-js", [bundle, "--wit", join(work, "wit"), "-n", "described", "-d", "stdio", "random", "clocks", "http", "fetch-event", "-o", out]);
}

let options;
try {
  options = parseArgs({ allowPositionals: true, options: { output: { type: "string", short: "o" }, help: { type: "boolean", short: "h" } } });
} catch (error) {
  fail(`${error.message}\n\n${USAGE}`);
}
const { values: { help, output }, positionals: [command, module] } = options;
if (help) console.log(USAGE);
else if (command !== "build" || !module || !output) fail(`it needs a module and -o\n\n${USAGE}`);
else if (!existsSync(module)) fail(`${module} is not there`);
else build(resolve(module), resolve(output));
