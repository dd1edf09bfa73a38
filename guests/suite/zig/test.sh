#!/bin/bash
# Runs the tests of the suite, and so of the SDK, natively.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
eval "$(../../toolchain/tools.sh)"
nice -n 5 python-zig test --dep wfhost -Mroot=suite_test.zig -Mwfhost=../../zig/wfhost.zig
