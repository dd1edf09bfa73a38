#!/bin/bash
# Compiles and runs the tests of the SDK, and the example's, natively: test.sh [sanitizers]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for test in test/*.c; do
    "${CC:-cc}" -std=gnu17 -g -Wall -Wextra -Werror -fsanitize="${1:-address,undefined}" -I . "$test" -o "$out/test"
    echo "$test"
    "$out/test"
done
