#!/bin/bash
# Builds a guest in JavaScript or TypeScript: guests/javascript/build.sh <component> <module.js>
#
# Its entries are the functions that the module exports, as in a script. Needs npm (Node 20 or later):
# componentize-js and esbuild are fetched into a private folder.
set -euo pipefail
out=$(realpath -m "${1:?which component to write}")
module=$(realpath "${2:?which module to build}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
eval "$("$here/../toolchain/js.sh")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/wit"
cp "$here/../../wit/process.wit" "$work/wit/"
printf 'package wfhost:process@0.1.0;\nworld described { include process; export describe; }\n' >"$work/wit/described.wit"
cat >"$work/main.js" <<MAIN
import { describe, guest, load } from "wfhost/component";
import * as app from "$module";
load(app);
export { describe, guest };
MAIN
esbuild "$work/main.js" --bundle --format=esm --target=es2022 --log-level=warning --external:wfhost:process/* \
    "--alias:wfhost/component=$here/src/component.js" "--alias:wfhost/blobs=$here/src/blobs.js" \
    "--alias:wfhost=$here/src/core.js" --outfile="$work/guest.js" >&2
# Without these features the engine (StarlingMonkey) imports nothing of WASI.
nice -n 5 componentize-js "$work/guest.js" --wit "$work/wit" -n described -d stdio random clocks http fetch-event -o "$out" >&2
