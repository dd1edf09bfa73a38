#!/bin/bash
# Installs componentize-py (from PyPI) into the private folder, and prints the PATH to it:
# eval "$(guests/toolchain/py.sh)"
set -euo pipefail
prefix=${WFHOST_GUESTS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wfhost-guests}/py
version=0.25.1
if [ ! -e "$prefix/componentize-py-$version" ]; then
    printf 'py.sh: fetching componentize-py %s\n' "$version" >&2
    python3 -m venv "$prefix"
    "$prefix/bin/pip" install -q "componentize-py==$version" >&2
    touch "$prefix/componentize-py-$version"
fi
printf 'export PATH=%q:$PATH\n' "$prefix/bin"
