#!/bin/bash
# Builds a guest in JavaScript, the conformance guest by default: build.sh <component> [source]
set -euo pipefail
out=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"
eval "$(../../toolchain/js.sh)"
# Without these features the engine (StarlingMonkey) imports nothing of WASI.
nice -n 5 componentize-js "${2:-guest.js}" --wit ../../../wit/process.wit -n process -d stdio random clocks http fetch-event -o "$out" >&2
