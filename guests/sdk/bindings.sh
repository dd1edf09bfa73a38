#!/bin/bash
# Generates src/bindings.rs anew from wit/process.wit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
eval "$(../toolchain/tools.sh)"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
wit-bindgen rust ../../wit/process.wit --world process --pub-export-macro --export-macro-name export_guest \
    --default-bindings-module wfhost_guest::bindings --additional-derive-attributes PartialEq --runtime-path wfhost_guest::wit_bindgen_rt --out-dir "$out"
mv "$out/process.rs" src/bindings.rs
