#!/bin/bash
# Installs componentize-js and esbuild (from npm) into the private folder, and prints the PATH to it:
# eval "$(guests/toolchain/js.sh)"
set -euo pipefail
prefix=${WFHOST_GUESTS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wfhost-guests}/js
version=0.23.0 esbuild=0.28.2
command -v npm >/dev/null || { printf 'js.sh: npm is needed (Node 20 or later)\n' >&2; exit 1; }
if [ ! -e "$prefix/componentize-js-$version-esbuild-$esbuild" ]; then
    printf 'js.sh: fetching componentize-js %s\n' "$version" >&2
    mkdir -p "$prefix"
    rm -rf "$prefix/node_modules"
    npm install --prefix "$prefix" --no-fund --no-audit --silent "@bytecodealliance/componentize-js@$version" "esbuild@$esbuild" >&2
    touch "$prefix/componentize-js-$version-esbuild-$esbuild"
fi
printf 'export PATH=%q:$PATH\n' "$prefix/node_modules/.bin"
