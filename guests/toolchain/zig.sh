#!/bin/bash
# Makes a component of a guest in Zig: zig.sh <root.zig> <component to write> [mode]
set -euo pipefail
source=$(realpath "$1") out=$(realpath -m "$2")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
sdk=$(realpath "$here/../zig")/wfhost.zig
eval "$("$here/tools.sh")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
of=(-target wasm32-freestanding -O "${3:-ReleaseSafe}")
nice -n 5 python-zig build-exe -fno-entry -rdynamic --stack 131072 \
    "${of[@]}" --dep wfhost -Mroot="$source" "${of[@]}" -Mwfhost="$sdk" -femit-bin="$work/core.wasm"
wasm-tools strip --delete '^\.debug|^producers$' "$work/core.wasm" -o "$work/stripped.wasm"
wasm-tools component new "$work/stripped.wasm" -o "$out"
