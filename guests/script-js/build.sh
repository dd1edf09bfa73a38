#!/bin/bash
# Builds the engine of JavaScript scripts: guests/script-js/build.sh <component to write>
#
# Needs, beside ../toolchain/tools.sh (which it fetches): cargo, for the sources of QuickJS-ng; npm
# (Node 20 or later), for esbuild and sucrase; python3 with pip, for wasmtime. The result does not
# depend on the folder.
set -euo pipefail
out=$(realpath -m "${1:?which component to write}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${WFHOST_GUESTS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wfhost-guests}/script-js
mkdir -p "$cache"
eval "$("$here/../toolchain/tools.sh")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One build at a time uses the cache.
exec 9>"$cache/lock"
flock 9

# QuickJS-ng comes with the crate rquickjs-sys; SOURCES names what is used, and its digests.
if [ ! -e "$cache/quickjs/.complete" ]; then
    mkdir -p "$cache/crate/src" "$cache/quickjs"
    printf '[package]\nname = "sources"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n[dependencies]\nrquickjs-sys = "=0.14.0"\n' \
        >"$cache/crate/Cargo.toml"
    : >"$cache/crate/src/lib.rs"
    manifest=$(cd "$cache/crate" && env -u RUSTC cargo metadata -q --format-version 1 |
        python3 -c 'import json, sys; print(*[p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"] == "rquickjs-sys"])')
    while read -r _ file; do cp "$(dirname "$manifest")/quickjs/$file" "$cache/quickjs/"; done <"$here/SOURCES"
    touch "$cache/quickjs/.complete"
fi
(cd "$cache/quickjs" && sha256sum --quiet -c "$here/SOURCES")

if ! cmp -s "$here/package-lock.json" "$cache/npm/package-lock.json" || [ ! -e "$cache/npm/.complete" ]; then
    rm -rf "$cache/npm"
    mkdir -p "$cache/npm"
    cp "$here/package.json" "$here/package-lock.json" "$cache/npm/"
    (cd "$cache/npm" && npm ci --no-fund --no-audit --silent >&2)
    touch "$cache/npm/.complete"
fi
if [ ! -e "$cache/python/.complete" ]; then
    python3 -m venv "$cache/python"
    "$cache/python/bin/pip" install -q wasmtime==50.0.1 >&2
    touch "$cache/python/.complete"
fi
cp -r "$cache/quickjs" "$work/quickjs"
flock -u 9

cd "$work"
(cd quickjs && GIT_CEILING_DIRECTORIES="$work" git apply --whitespace=nowarn "$here/quickjs.patch")
wit-bindgen c "$here/../../wit" --world script-engine --out-dir gen >/dev/null

# What runs in the engine, as arrays of bytes.
bundle() { # <entry> <name>
    NODE_PATH="$cache/npm/node_modules" "$cache/npm/node_modules/.bin/esbuild" "$1" --bundle --format=esm --target=es2023 \
        --minify-whitespace --minify-syntax ${3:-} --legal-comments=none --log-level=warning --outfile="$2.js" >&2
    od -An -v -tu1 "$2.js" | sed -E 's/ +([0-9]+)/\1,/g' >"gen/$2.inc"
}
bundle "$here/../javascript/src/engine.js" sdk
bundle "$here/typescript.js" typescript --minify-identifiers

# 512 KiB of the stack are the program's; the check of them is QuickJS's own.
flags=(--target=wasm32-wasi -mexec-model=reactor "${OPTIMIZE:--O2}" -fno-sanitize=all -mbulk-memory -DNDEBUG -D_GNU_SOURCE -DEMSCRIPTEN
    -D_WASI_EMULATED_SIGNAL -DFE_DOWNWARD=0 -DFE_UPWARD=0 -D__assert_fail=no_assert_fail -DSTACK_MAX=524288
    -w -ffunction-sections -fdata-sections -Iquickjs -Igen "-I$here/src" "-ffile-prefix-map=$here=engine" "-ffile-prefix-map=$work=.")
# The heap is that of src/memory.c.
flags+=(-Dmalloc=engine_malloc -Dcalloc=engine_calloc -Drealloc=engine_realloc -Dfree=engine_free -Dmalloc_usable_size=engine_usable)
for name in printf fprintf fputc putc putchar puts fputs fflush fwrite abort localtime_r; do flags+=("-D$name=no_$name"); done
{
    for name in quickjs libregexp libunicode dtoa; do echo "quickjs/$name.c $name.o"; done
    for name in guest host values events modules memory libc; do echo "$here/src/$name.c $name.o"; done
    echo "gen/script_engine.c world.o"
} >compilations
printf '%q ' python-zig cc "${flags[@]}" >command
xargs -P 2 -L 1 bash -c 'eval "nice -n 10 $(cat command) -c $0 -o $1"' <compilations
python-zig cc "${flags[@]}" -s ./*.o gen/script_engine_component_type.o -lwasi-emulated-signal \
    -Wl,--gc-sections -Wl,-z,stack-size=1048576 -o core.wasm
"$cache/python/bin/python" "$here/preinit.py" core.wasm image.wasm
wasm-tools component new image.wasm -o component.wasm
wasm-tools strip --all component.wasm -o "$out"
wasm-tools validate "$out"
