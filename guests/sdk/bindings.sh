#!/bin/bash
# Generates src/bindings.rs and src/describing.rs anew from wit/process.wit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
eval "$(../toolchain/tools.sh)"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

generate() { # <wit> <world> <export macro> <module>
    wit-bindgen rust "$1" --world "$2" --pub-export-macro --export-macro-name "$3" \
        --default-bindings-module "wfhost_guest::$4" --additional-derive-attributes PartialEq \
        --runtime-path wfhost_guest::wit_bindgen_rt --out-dir "$out"
    mv "$out/$2.rs" "src/$4.rs"
}
generate ../../wit/process.wit process export_guest bindings
# A world of the optional export alone: only a component that exports it says so.
cp ../../wit/process.wit "$out/process.wit"
printf 'world describing { export describe; }\n' >>"$out/process.wit"
generate "$out/process.wit" describing export_description describing
