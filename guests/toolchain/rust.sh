#!/bin/bash
# Prepares a Rust tool chain for guests, then prints the settings for a build as `export` lines:
#
#     cargo fetch
#     eval "$(guests/toolchain/rust.sh)"
#     cargo build --release --target wasm32-unknown-unknown
#
# If rustup has the target wasm32-unknown-unknown, and wasm-component-ld is installed, these are
# used. Otherwise Debian's rustc-web packages are unpacked (not installed) below a private folder,
# and their own library source is compiled once for the target. WFHOST_GUESTS_CACHE names another
# folder, WFHOST_GUESTS_DEBIAN=1 selects Debian's compiler in any case. Running this again is cheap.
# Progress goes to stderr.
set -euo pipefail

target=wasm32-unknown-unknown
prefix=${WFHOST_GUESTS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wfhost-guests}/rust
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
guests=$(dirname "$here")

say() { printf '%s\n' "rust.sh: $*" >&2; }
need() { command -v "$1" >/dev/null || { say "$1 is needed"; exit 1; }; }
need cargo

# Paths of this machine must not reach the panic messages in a component. The crates' sources must
# already be fetched (`cargo fetch`), as the name of their folder is derived from the registry's.
remap() { # <library source or nothing>
    local flags="--remap-path-prefix=$guests=/guests" source
    for source in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/; do
        [ ! -d "$source" ] || flags+=" --remap-path-prefix=${source%/}=/crates"
    done
    [ -z "${1:-}" ] || flags+=" --remap-path-prefix=$1=/rust"
    printf '%s' "$flags"
}

component_linker() { # of the rustup tool chain, or of the PATH
    local root
    root=$(rustc --print sysroot 2>/dev/null) || return 1
    find "$root/lib/rustlib" -path '*/bin/*' -name wasm-component-ld -type f 2>/dev/null | grep . || command -v wasm-component-ld
}

use_rustup() {
    [ -z "${WFHOST_GUESTS_DEBIAN:-}" ] || return 1
    rustup target list --installed 2>/dev/null | grep -qx "$target" || return 1
    local linker
    linker=$(component_linker | head -n 1) && [ -n "$linker" ] || return 1
    printf 'export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=%q\n' "$linker"
    printf 'export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS=%q\n' "$(remap)"
    printf 'export WFHOST_GUESTS_RUST=%q\n' "rustup $(rustc --version)"
}

unpack() {
    need apt-get; need dpkg-deb
    mkdir -p "$prefix/deb"
    cd "$prefix/deb"
    say "downloading Debian's rustc-web (145 MB) into $prefix"
    apt-get update -qq >&2 || say "apt-get update failed: trying with the lists that are there"
    apt-get download -qq rustc-web libstd-rust-web-1.96 libstd-rust-web-dev rust-web-llvm libllvm22 lld-22 rust-web-src >&2
    local deb
    for deb in *.deb; do dpkg-deb -x "$deb" "$prefix"; done
    for deb in *.deb; do printf '%s\n' "${deb%_*}"; done >"$prefix/packages"
    # The compiler looks for its linker in the folder of the host's tools, the library for its own source.
    ln -sfn ../../../../bin/rust-lld "$prefix/usr/lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld"
    mkdir -p "$prefix/usr/lib/rustlib/src"
    ln -sfn ../../../src/rustc-1.96.0 "$prefix/usr/lib/rustlib/src/rust"
    rm -f ./*.deb
}

# Rlibs with bitcode, so that guests may use LTO across the library.
build_library() {
    local library=$prefix/usr/src/rustc-1.96.0/library built=$prefix/std-target/$target/release/deps
    local into=$prefix/usr/lib/rustlib/$target/lib
    say "compiling the standard library for $target (about a minute)"
    RUSTC_BOOTSTRAP=1 cargo fetch -q --locked --manifest-path "$library/sysroot/Cargo.toml" >&2
    LD_LIBRARY_PATH="$prefix/usr/lib/x86_64-linux-gnu" RUSTC="$prefix/usr/bin/rustc" RUSTC_BOOTSTRAP=1 \
        CARGO_TARGET_DIR="$prefix/std-target" \
        CARGO_PROFILE_RELEASE_OPT_LEVEL=s CARGO_PROFILE_RELEASE_DEBUG=false CARGO_PROFILE_RELEASE_PANIC=abort \
        RUSTFLAGS="-Cembed-bitcode=yes -Zforce-unstable-if-unmarked -Cpanic=abort $(remap "$prefix/usr/src/rustc-1.96.0")" \
        nice -n 10 cargo build --release --locked --manifest-path "$library/sysroot/Cargo.toml" --target "$target" >&2
    rm -rf "$into"
    mkdir -p "$into"
    cp "$built"/*.rlib "$into/"
    rm -rf "$prefix/std-target"
}

# A linker under a fixed name that knows where wasm-ld is: so RUSTFLAGS, which cargo hashes, needs no
# path.
write_linker() {
    mkdir -p "$prefix/bin"
    cat >"$prefix/bin/wasm-component-ld" <<LINKER
#!/bin/sh
export LD_LIBRARY_PATH="$prefix/usr/lib/x86_64-linux-gnu"
exec "$prefix/usr/lib/rustlib/x86_64-unknown-linux-gnu/bin/wasm-component-ld" "\$@" --wasm-ld-path="$prefix/usr/bin/wasm-ld-22"
LINKER
    chmod +x "$prefix/bin/wasm-component-ld"
}

use_debian() {
    mkdir -p "$prefix"
    exec 9>"$prefix/lock"
    flock 9
    if [ ! -e "$prefix/ready" ]; then
        [ -e "$prefix/unpacked" ] || { (unpack) && touch "$prefix/unpacked"; }
        (build_library)
        write_linker
        touch "$prefix/ready"
    fi
    flock -u 9
    printf 'export LD_LIBRARY_PATH=%q\n' "$prefix/usr/lib/x86_64-linux-gnu"
    printf 'export RUSTC=%q\n' "$prefix/usr/bin/rustc"
    printf 'export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=%q\n' "$prefix/bin/wasm-component-ld"
    printf 'export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS=%q\n' "$(remap "$prefix/usr/src/rustc-1.96.0")"
    printf 'export WFHOST_GUESTS_RUST=%q\n' "debian $(grep '^rustc-web_' "$prefix/packages")"
}

use_rustup || use_debian
