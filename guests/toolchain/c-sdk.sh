#!/bin/bash
# Makes a component of C files that use wfhost.h: c-sdk.sh <component to write> <file.c>… [-D…]
set -euo pipefail
out=$(realpath -m "$1")
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
sdk=$(realpath "$here/../c")
eval "$("$here/tools.sh")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A reactor has no main. The sanitizers of integers become problems with their place, see wfhost.h.
# The names of the sources are in the component, without their folders.
cd "$(dirname "$(realpath "$1")")"
sources=("$(basename "$1")")
for argument in "${@:2}"; do
    case $argument in -*) sources+=("$argument") ;; *) sources+=("$(realpath --relative-to . "$argument")") ;; esac
done
nice -n 5 python-zig cc --target=wasm32-wasi -mexec-model=reactor -std=gnu17 -Os -g -Wall -Wextra -Werror \
    -fsanitize=signed-integer-overflow,integer-divide-by-zero,shift,array-bounds -fsanitize-recover=all -fno-sanitize-trap=all \
    -Wl,-z,stack-size=65536 -I "$sdk" -ffile-prefix-map="$sdk"=wfhost -fsanitize-undefined-strip-path-components=-1 "${sources[@]}" -o "$work/core.wasm"
wasm-tools strip --delete '^\.debug|^producers$' "$work/core.wasm" -o "$work/stripped.wasm"
wasm-tools component new "$work/stripped.wasm" -o "$out"
