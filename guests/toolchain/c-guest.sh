#!/bin/bash
# Makes a component of one C file: c-guest.sh <file.c> <component to write>
set -euo pipefail
source=$(realpath "$1") out=$(realpath -m "$2")
cd "$(dirname "${BASH_SOURCE[0]}")"
eval "$(./tools.sh)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wit-bindgen c ../../wit/process.wit --world process --out-dir "$work" >/dev/null
cp "$source" "$work/guest.c"
cd "$work"
# A reactor has no main. Guests do not use stdio, so nothing of WASI is linked. Debug information is
# removed, names are not.
nice -n 5 python-zig cc --target=wasm32-wasi -mexec-model=reactor -Os -g -Wall -Wextra -Werror -Wno-unused-parameter \
    -Wl,-z,stack-size=65536 -ffile-prefix-map="$work"=/c guest.c process.c process_component_type.o -o core.wasm
wasm-tools strip --delete '^\.debug|^producers$' core.wasm -o stripped.wasm
wasm-tools component new stripped.wasm -o "$out"
