#!/bin/bash
# Builds a guest in Python: guests/python/build.sh <component> <module.py>
#
# Modules beside it can be imported; all must be at the top, as nothing can be imported later.
set -euo pipefail
out=$(realpath -m "${1:?which component to write}")
module=$(realpath "${2:?which module to build}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
eval "$("$here/../toolchain/py.sh")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/wit" "$work/app"
cp "$here/../../wit/process.wit" "$work/wit/"
printf 'package wfhost:process@0.1.0;\nworld described { include process; export describe; }\n' >"$work/wit/described.wit"
name=$(basename "$module" .py)
printf 'import %s\nfrom wfhost.component import Describe, Guest\n' "$name" >"$work/app/wfhost_app.py"
cd "$work"
PYTHONDONTWRITEBYTECODE=1 nice -n 5 componentize-py -q -d wit -w described componentize \
    -p app -p "$(dirname "$module")" -p "$here" wfhost_app --stub-wasi -o "$out" >&2
python3 "$here/wfhost/stubs.py" "$out"
