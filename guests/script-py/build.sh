#!/bin/bash
# Builds the engine of scripts in Python: guests/script-py/build.sh <component>
#
# Needs Python 3.10 or newer, and componentize-py, which is fetched from PyPI into a private folder.
set -euo pipefail
out=$(realpath -m "${1:?which component to write}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
eval "$("$here/../toolchain/py.sh")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/wit" "$work/app"
cp "$here/../../wit/"*.wit "$work/wit/"
printf 'from wfhost.engine import Describe, Guest, Script\n' >"$work/app/wfhost_engine.py"
cd "$work"
PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0 nice -n 5 componentize-py -q -d wit -w script-engine componentize \
    -p app -p "$here/../python" wfhost_engine --stub-wasi -o engine.wasm >&2
python3 "$here/../python/wfhost/stubs.py" engine.wasm
mkdir -p "$(dirname "$out")"
mv engine.wasm "$out"
