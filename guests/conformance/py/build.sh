#!/bin/bash
# Builds a guest in Python, the conformance guest unless another is named: build.sh <component to write> [module]
set -euo pipefail
out=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"
eval "$(../../toolchain/py.sh)"
PYTHONDONTWRITEBYTECODE=1 nice -n 5 componentize-py -q -d ../../../wit/process.wit -w process componentize -p . "${2:-app}" --stub-wasi -o "$out" >&2
