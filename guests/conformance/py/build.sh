#!/bin/bash
# Builds a guest in Python, the conformance guest by default: build.sh <component> [module]
set -euo pipefail
out=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"
eval "$(../../toolchain/py.sh)"
PYTHONDONTWRITEBYTECODE=1 nice -n 5 componentize-py -q -d ../../../wit/process.wit -w process componentize -p . "${2:-app}" --stub-wasi -o "$out" >&2
