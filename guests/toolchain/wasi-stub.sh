#!/bin/bash
# Builds wasi-stub.wasm, which is committed, from wasi-stub.c.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
eval "$(./tools.sh)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The memory is the main module's; nothing here may need a stack or data.
python-zig cc --target=wasm32-freestanding -nostdlib -Oz -fno-builtin -mno-bulk-memory -Wall -Wno-unused-parameter -Wno-incompatible-library-redeclaration -Werror \
    -Wl,--no-entry -Wl,--import-memory -Wl,-z,stack-size=0 -Wl,--strip-all wasi-stub.c -o "$work/core.wasm"
cp ../../wit/process.wit "$work/process.wit"
printf 'world stub { import host; }\n' >>"$work/process.wit"
wasm-tools component embed "$work/process.wit" --world stub "$work/core.wasm" -o wasi-stub.wasm
