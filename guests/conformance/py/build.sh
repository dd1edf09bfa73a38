#!/bin/bash
# Builds the conformance guest in Python: build.sh <component to write>
set -euo pipefail
out=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"
eval "$(../../toolchain/py.sh)"
PYTHONDONTWRITEBYTECODE=1 nice -n 5 componentize-py -q -d ../../../wit/process.wit -w process componentize -p . app --stub-wasi -o "$out" >&2
