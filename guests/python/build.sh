#!/bin/bash
# Builds a guest in Python: guests/python/build.sh <component> <module.py>
#
# Modules beside it can be imported; all must be at the top, as nothing can be imported later.
set -euo pipefail
out=$(realpath -m "${1:?which component to write}")
module=$(realpath "${2:?which module to build}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
eval "$("$here/../toolchain/py.sh")"
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$here nice -n 5 python3 -m wfhost build "$module" -o "$out" >&2
