#!/bin/bash
# Installs what the guests in C (and the checks) need into the private folder, and prints that
# folder's bin as a PATH setting:
#
#     eval "$(guests/toolchain/tools.sh)"
#
# wit-bindgen generates bindings, wasm-tools makes and checks components, zig (from PyPI) compiles C.
# Progress goes to stderr.
set -euo pipefail

prefix=${WFHOST_GUESTS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wfhost-guests}/tools
mkdir -p "$prefix"
exec 9>"$prefix/lock"
flock 9

# These are built for this machine: settings for guests do not apply to them.
unset RUSTC LD_LIBRARY_PATH CARGO_TARGET_DIR

install() { # <crate> <version> <features>
    [ -e "$prefix/$1-$2" ] && return
    printf 'tools.sh: compiling %s %s\n' "$1" "$2" >&2
    nice -n 10 cargo install -q --locked --root "$prefix" --version "$2" --no-default-features --features "$3" "$1" >&2
    touch "$prefix/$1-$2"
}
install wit-bindgen-cli 0.61.1 c,rust
install wasm-tools 1.254.0 component,validate,strip

if [ ! -e "$prefix/ziglang-0.17.0" ]; then
    printf 'tools.sh: fetching zig\n' >&2
    python3 -m venv "$prefix/zig"
    "$prefix/zig/bin/pip" install -q ziglang==0.17.0 >&2
    touch "$prefix/ziglang-0.17.0"
fi
printf 'export PATH=%q:%q:$PATH\n' "$prefix/bin" "$prefix/zig/bin"
