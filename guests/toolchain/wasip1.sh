#!/bin/bash
# Prepares a Rust tool chain for programs (WASI preview 1), then prints the settings for a build as
# `export` lines:
#
#     eval "$(guests/toolchain/wasip1.sh)"
#     cargo install --target wasm32-wasip1 --root DIR ripgrep
#
# If rustup has the target wasm32-wasip1, it is used. Otherwise Debian's compiler is, which rust.sh
# unpacks, with the C library of zig: the standard library is compiled once for the target.
# C code in crates is compiled by zig too. Running this again is cheap. Progress goes to stderr.
set -euo pipefail

target=wasm32-wasip1
cache=${WFHOST_GUESTS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wfhost-guests}
prefix=$cache/rust
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf '%s\n' "wasip1.sh: $*" >&2; }

eval "$("$here/tools.sh")"

# zig under the names that crates with C code ask for, without a target that it does not know.
write_compilers() {
    mkdir -p "$cache/wasip1"
    cat >"$cache/wasip1/cc" <<'CC'
#!/bin/bash
arguments=()
for one in "$@"; do
    case $one in --target=*) ;; *) arguments+=("$one") ;; esac
done
exec python-zig cc --target=wasm32-wasi "${arguments[@]}"
CC
    printf '#!/bin/sh\nexec python-zig ar "$@"\n' >"$cache/wasip1/ar"
    chmod +x "$cache/wasip1/cc" "$cache/wasip1/ar"
}

# zig's C library is three archives; the Rust compiler looks for one.
copy_libc() { # <folder>
    local scratch
    scratch=$(mktemp -d)
    printf 'int main(void) { return 0; }\n' >"$scratch/main.c"
    (
        export ZIG_GLOBAL_CACHE_DIR=$scratch/cache
        cd "$scratch"
        python-zig cc --target=wasm32-wasi main.c -o main.wasm
        printf 'int f(void) { return 0; }\n' >f.c
        python-zig cc --target=wasm32-wasi -mexec-model=reactor f.c -o f.wasm
    )
    mkdir -p "$1"
    cp "$(find "$scratch/cache" -name crt1-command.o | head -n 1)" "$(find "$scratch/cache" -name crt1-reactor.o | head -n 1)" "$1/"
    {
        printf 'create %s/libc.a\n' "$scratch"
        for archive in libc.a libzigc.a libcompiler_rt.a; do
            printf 'addlib %s\n' "$(find "$scratch/cache" -name "$archive" | head -n 1)"
        done
        printf 'save\nend\n'
    } | python-zig ar -M
    cp "$scratch/libc.a" "$1/"
    rm -rf "$scratch"
}

use_rustup() {
    [ -z "${WFHOST_GUESTS_DEBIAN:-}" ] && rustup target list --installed 2>/dev/null | grep -qx "$target"
}

use_debian() {
    local settings library=$prefix/usr/src/rustc-1.96.0/library into=$prefix/usr/lib/rustlib/$target/lib
    settings=$(WFHOST_GUESTS_DEBIAN=1 "$here/rust.sh")
    exec 9>"$prefix/lock"
    flock 9
    if [ ! -e "$prefix/ready-$target" ]; then
        say "compiling the standard library for $target (about a minute)"
        copy_libc "$into/self-contained"
        (
            eval "$settings"
            unset WFHOST_GUESTS_RUST
            RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="$prefix/std-target" \
                CARGO_PROFILE_RELEASE_OPT_LEVEL=s CARGO_PROFILE_RELEASE_DEBUG=false CARGO_PROFILE_RELEASE_PANIC=abort \
                RUSTFLAGS="-Cembed-bitcode=yes -Zforce-unstable-if-unmarked -Cpanic=abort" \
                nice -n 10 cargo build -q --release --locked --manifest-path "$library/sysroot/Cargo.toml" --target "$target" >&2
        )
        cp "$prefix/std-target/$target/release/deps"/*.rlib "$into/"
        rm -rf "$prefix/std-target"
        touch "$prefix/ready-$target"
    fi
    flock -u 9
    printf 'export LD_LIBRARY_PATH=%q\n' "$prefix/usr/lib/x86_64-linux-gnu"
    printf 'export RUSTC=%q\n' "$prefix/usr/bin/rustc"
    printf 'export CARGO_TARGET_WASM32_WASIP1_LINKER=%q\n' "$prefix/usr/bin/wasm-ld-22"
    printf 'export CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS=-Clinker-flavor=wasm-ld\n'
}

write_compilers
use_rustup || use_debian
printf 'export PATH=%q\n' "$PATH"
printf 'export CC_wasm32_wasip1=%q AR_wasm32_wasip1=%q\n' "$cache/wasip1/cc" "$cache/wasip1/ar"
