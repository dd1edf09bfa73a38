#!/bin/bash
# Builds guests.
#
#     guests/build.sh                  all components of guests/built
#     guests/build.sh hello fib        these
#     guests/build.sh conformance-js   JavaScript and Python (conformance-py, recursion-js,
#                                      recursion-py) are built on demand, into
#                                      guests/built-on-demand
#     guests/build.sh --check [name…]  builds elsewhere, and compares with guests/built byte by byte
#
# A check of everything skips the guests in C, with a message, if the tools for C (minutes to
# compile) are not installed. Bytes are compared only if the tool chain is the one that
# built/TOOLCHAIN names; otherwise the script reports that, and does not fail.
# The tool chains are fetched into ${XDG_CACHE_HOME:-~/.cache}/wfhost-guests, see guests/toolchain.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
guests=$PWD
committed=(approval counter family fanout fib hello hostile pingpong stats wordcount conformance-rust suite-rust order-rust counter-c conformance-c script-js suite-c order-c)

check=
if [ "${1:-}" = --check ]; then
    check=1
    shift
fi
names=("$@")
[ ${#names[@]} -gt 0 ] || names=("${committed[@]}")
cache=${WFHOST_GUESTS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wfhost-guests}

built=$guests/built on_demand=$guests/built-on-demand
say() { printf 'build.sh: %s\n' "$*" >&2; }
if [ -n "$check" ]; then
    built=$(mktemp -d)
    trap 'rm -rf "$built"' EXIT
    if [ $# -eq 0 ] && [ ! -x "$cache/tools/bin/wit-bindgen" ]; then
        names=("${names[@]/%*-c/}")
        names=("${names[@]/%script-js/}")
        say "the guests in C, and the script engine: not compared, as guests/toolchain/tools.sh has not been run here"
    fi
fi
target=$guests/target
# A check compiles anew.
[ -z "$check" ] || target=$built/target
mkdir -p "$built" "$on_demand"

rust_ready=
rust() { # <package> <component>
    if [ -z "$rust_ready" ]; then
        cargo fetch -q --locked
        settings=$("$guests/toolchain/rust.sh")
        rust_ready=1
    fi
    (
        eval "$settings"
        export CARGO_TARGET_DIR=$target
        # One package at a time: built together, their dependencies' features would be united.
        nice -n 5 cargo build -q --release --locked --target wasm32-unknown-unknown -p "$1"
        cp "$CARGO_TARGET_DIR/wasm32-unknown-unknown/release/${1//-/_}.wasm" "$2"
        printf 'rust: %s\n' "$WFHOST_GUESTS_RUST" >"$2.toolchain"
    )
}

c() { # <source> <component>
    toolchain/c-guest.sh "$1" "$2"
    printf 'c: wit-bindgen 0.61.1, zig 0.17.0, wasm-tools 1.254.0\n' >"$2.toolchain"
}

c_sdk() { # <source> <component>
    toolchain/c-sdk.sh "$2" "$1"
    printf 'c: zig 0.17.0, wasm-tools 1.254.0\n' >"$2.toolchain"
}

# The same bytes come from every folder.
check_paths() { # <component>
    case $1 in "$on_demand"/*) return 0 ;; esac
    ! grep -aqF "$guests" "$1" || { say "$1 has the path of this folder in it"; exit 1; }
}

# Where wasm-tools is installed already.
check_imports() { # <component>
    local tool=$cache/tools/bin/wasm-tools imports
    [ -x "$tool" ] || return 0
    imports=$("$tool" component wit "$1" | grep -E '^  import ' | grep -vE 'wfhost:process/(types|host|engine)@' || true)
    [ -z "$imports" ] || { say "$1 imports more than the host's interface: $imports"; exit 1; }
}

for name in "${names[@]}"; do
    [ -n "$name" ] || continue
    out=$built/$name.wasm
    case $name in
        conformance-rust) rust conformance "$out" ;;
        suite-rust | order-rust) rust "$name" "$out" ;;
        conformance-c) c conformance/c/guest.c "$out" ;;
        suite-zig) out=$on_demand/$name.wasm && toolchain/zig.sh suite/zig/suite.zig "$out" ;;
        order-zig) out=$on_demand/$name.wasm && toolchain/zig.sh suite/zig/order.zig "$out" ;;
        suite-go) out=$on_demand/$name.wasm && toolchain/go.sh suite/go "$out" ;;
        order-go) out=$on_demand/$name.wasm && toolchain/go.sh suite/go/order "$out" ;;
        suite-c) c_sdk suite/c/suite.c "$out" ;;
        order-c) c_sdk suite/c/order.c "$out" ;;
        counter-c) c examples/counter/c/guest.c "$out" ;;
        script-py) out=$on_demand/$name.wasm && script-py/build.sh "$out" ;;
        conformance-js) out=$on_demand/$name.wasm && conformance/js/build.sh "$out" ;;
        conformance-py) out=$on_demand/$name.wasm && conformance/py/build.sh "$out" ;;
        script-js)
            script-js/build.sh "$out"
            printf 'script-js: rquickjs-sys 0.14.0, sucrase 3.35.1, esbuild 0.28.2, wasmtime 50.0.1\n' >"$out.toolchain"
            ;;
        suite-javascript) out=$on_demand/$name.wasm && javascript/build.sh "$out" suite/javascript/suite.js ;;
        suite-typescript) out=$on_demand/$name.wasm && javascript/build.sh "$out" suite/typescript/suite.ts ;;
        suite-python) out=$on_demand/$name.wasm && python/build.sh "$out" suite/python/suite.py ;;
        order-javascript) out=$on_demand/$name.wasm && javascript/build.sh "$out" suite/javascript/order.js ;;
        order-typescript) out=$on_demand/$name.wasm && javascript/build.sh "$out" suite/typescript/order.ts ;;
        order-python) out=$on_demand/$name.wasm && python/build.sh "$out" suite/python/order.py ;;
        recursion-js) out=$on_demand/$name.wasm && conformance/js/build.sh "$out" recursion.js ;;
        recursion-py) out=$on_demand/$name.wasm && conformance/py/build.sh "$out" recursion ;;
        *)
            [ -d "examples/$name" ] || { say "there is no guest $name"; exit 2; }
            rust "$name" "$out"
            ;;
    esac
    check_imports "$out"
    say "$name: $(stat -c %s "$out") bytes"
done

if [ -z "$check" ]; then
    cd "$built"
    # Only a build of everything may name the tool chain of everything.
    if [ $# -eq 0 ]; then sort -u ./*.toolchain >TOOLCHAIN; fi
    rm -f ./*.toolchain
    sha256sum ./*.wasm | sed 's# \./# #' >SHA256SUMS
    exit 0
fi

(cd "$guests/built" && sha256sum --quiet -c SHA256SUMS)
differs=0
for name in "${names[@]}"; do
    [ -e "$built/$name.wasm" ] || continue
    if ! grep -qxF "$(cat "$built/$name.wasm.toolchain")" "$guests/built/TOOLCHAIN"; then
        say "$name: not compared, as the tool chain differs ($(cat "$built/$name.wasm.toolchain"))"
    elif cmp -s "$built/$name.wasm" "$guests/built/$name.wasm"; then
        say "$name: the same bytes"
    else
        say "$name: the bytes differ"
        differs=1
    fi
done
exit $differs
