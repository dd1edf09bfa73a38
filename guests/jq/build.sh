#!/bin/bash
# Builds the jq component from its sources, and replaces jq-1.8.2.wasm:
#
#     guests/jq/build.sh             the component
#     guests/jq/build.sh native      jq for this machine, from the same sources: prints its path
#     guests/jq/build.sh check       the component, into the cache only, and compares it with SHA256SUMS
#
# Needs the tools of ../toolchain/tools.sh (which it fetches: zig as C compiler, wit-bindgen, wasm-tools), python3 with
# pip; for `native` also gcc and make. The result does not depend on the folder.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${WFHOST_GUESTS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wfhost-guests}/jq
sources=$cache/jq-1.8.2
mkdir -p "$cache"

# The sources of jq come with the Python package of that name. pip checks the package's digest, and
# this script that of the archive in it.
fetch_sources() {
    [ -e "$sources/.complete" ] && return
    local work
    work=$(mktemp -d)
    echo 'jq==1.13.0 --hash=sha256:e62bdddeab3b8a0a404581a7bb6f1e8c4cc6082280870031f746074f4cac52c0' >"$work/package"
    python3 -m pip download -q --no-deps --no-binary jq --require-hashes -r "$work/package" -d "$work" >&2
    tar xzf "$work/jq-1.13.0.tar.gz" -C "$work"
    (cd "$work/jq-1.13.0/deps" &&
        echo '71b8d6e8f5fe81f6c6d0d110e3892251f6ce76ed095abd315e26e6e1193af3af  jq-1.8.2.tar.gz' | sha256sum -c --quiet)
    rm -rf "$sources"
    tar xzf "$work/jq-1.13.0/deps/jq-1.8.2.tar.gz" -C "$cache"
    touch "$sources/.complete"
    rm -rf "$work"
}

build_native() {
    local build=$cache/native
    if [ ! -x "$build/jq" ]; then
        mkdir -p "$build"
        (cd "$build" &&
            "$sources/configure" --with-oniguruma=builtin --disable-docs --disable-maintainer-mode --disable-shared &&
            make -j2) >"$cache/native.log" 2>&1
    fi
    echo "$build/jq"
}

# Lines of "<file> <object>": what is compiled.
compilations() {
    local name
    for name in wrap_compile wrap_builtin wrap_execute wrap_locfile program exports libc qsort; do echo "$here/src/$name.c $name.o"; done
    echo "generated/world.c world.o"
    for name in bytecode jv jv_alloc jv_aux jv_dtoa jv_dtoa_tsd jv_parse jv_print jv_unicode lexer parser util; do
        echo "$sources/src/$name.c jq_$name.o"
    done
    for name in decContext decNumber; do echo "$sources/vendor/decNumber/$name.c $name.o"; done
    for name in regparse regcomp regexec regenc regerror regext regsyntax regtrav regversion st unicode unicode_unfold_key \
        unicode_fold1_key unicode_fold2_key unicode_fold3_key ascii utf8 onig_init; do
        echo "$sources/vendor/oniguruma/src/$name.c onig_$name.o"
    done
}

build_component() { # <file>
    local build
    build=$(mktemp -d)
    trap 'rm -rf "$build"' RETURN
    cd "$build"
    eval "$("$here/../toolchain/tools.sh")"

    wit-bindgen c --rename-world world --out-dir generated "$here/wit" >/dev/null
    mkdir -p generated/src
    od -An -v -tu1 "$sources/src/builtin.jq" | sed -E 's/ +([0-9]+)/\1,/g' >generated/src/builtin.inc

    # The stack lies first in memory, and half a MiB of it: an overflow traps. Absolute paths would get into assertions.
    target=(--target=wasm32-wasi -mexec-model=reactor -O3 -fno-sanitize=all -mbulk-memory)
    mapfile -t flags <"$here/config/jq.flags"
    flags+=(-D_WASI_EMULATED_SIGNAL -D_WASI_EMULATED_PROCESS_CLOCKS -w -ffunction-sections -fdata-sections
        "-ffile-prefix-map=$sources=jq" "-ffile-prefix-map=$here=host" "-ffile-prefix-map=$build=."
        -include "$here/src/declarations.h" "-I$here/src" "-I$here/config" -Igenerated
        "-I$sources" "-I$sources/src" "-I$sources/vendor" "-I$sources/vendor/oniguruma/src")
    printf '%q ' python-zig cc "${target[@]}" "${flags[@]}" >command
    compilations | xargs -P 2 -L 1 bash -c 'eval "nice -n 5 $(cat command) -c $0 -o $1"'

    python-zig cc "${target[@]}" -s ./*.o generated/world_component_type.o -lwasi-emulated-signal \
        -Wl,--gc-sections -Wl,-z,stack-size=524288 -o core.wasm
    wasm-tools component new core.wasm -o component.wasm
    wasm-tools strip --all component.wasm -o "$1"
    wasm-tools validate "$1"
    if wasm-tools component wit "$1" | grep -q import; then
        echo "build.sh: the component has imports" >&2
        return 1
    fi
}

fetch_sources
case ${1:-component} in
native) build_native ;;
component)
    build_component "$here/jq-1.8.2.wasm"
    (cd "$here" && sha256sum jq-1.8.2.wasm | tee SHA256SUMS)
    ;;
check)
    build_component "$cache/jq-1.8.2.wasm"
    (cd "$cache" && sha256sum -c "$here/SHA256SUMS")
    ;;
*)
    echo "usage: build.sh [component|native|check]" >&2
    exit 2
    ;;
esac
