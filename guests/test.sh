#!/bin/bash
# Runs the native tests of the SDKs, each against the fake host that it ships:
#
#     guests/test.sh              all of them
#     guests/test.sh c python     these; there are c, go, javascript, python, zig
#
# Rust's run with `cargo test` in this folder. Tool chains are fetched as build.sh does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
[ $# -gt 0 ] || set -- c python javascript go zig

for language in "$@"; do
    printf 'test.sh: %s\n' "$language" >&2
    case $language in
        c) c/test.sh ;;
        go) (eval "$(toolchain/go.sh)" && cd suite/go && go test ./... && cd order && go test ./...) ;;
        javascript)
            tests=$(find javascript -name '*.test.js' -not -path '*/node_modules/*')
            # shellcheck disable=SC2086 # one file each
            [ -z "$tests" ] || node --test $tests
            ;;
        python)
            pytest=${WFHOST_GUESTS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wfhost-guests}/pytest
            if [ ! -x "$pytest/bin/pytest" ]; then
                python3 -m venv "$pytest"
                "$pytest/bin/pip" install -q pytest==9.0.2
            fi
            PYTHONDONTWRITEBYTECODE=1 "$pytest/bin/pytest" -q -p no:cacheprovider python
            ;;
        zig) suite/zig/test.sh ;;
        *) printf 'test.sh: there is no %s\n' "$language" >&2 && exit 2 ;;
    esac
done
