#!/usr/bin/env bash
# Checks that `wfhost serve` does what its OpenAPI document says: schemathesis, all its checks and phases, against a real server
# with workflows and runs. `tests/contract/run.sh [SECONDS]`; needs Python and PyPI.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-180}
work=${CARGO_TARGET_DIR:-target}/contract
program=${CARGO_TARGET_DIR:-target}/debug/wfhost
mkdir -p "$work"
[ -x "$work/venv/bin/schemathesis" ] || { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install --quiet schemathesis==4.32.5; }
if [ -n "${WFHOST_PROGRAM:-}" ]; then program=$WFHOST_PROGRAM; else cargo build --quiet --bin wfhost; fi
rm -rf "$work/data"
export WFHOST_DATA=$work/data WFHOST_CONFIG=
token=$("$program" token create --name contract --scope admin 2>/dev/null)
"$program" serve --listen 127.0.0.1:0 --workflows tests/contract/workflows >"$work/out" 2>"$work/log" &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
url=
for _ in $(seq 300); do
    url=$(sed -n 's/.*listening on \(http:[^ ]*\).*/\1/p' "$work/out" "$work/log" | head -1)
    [ -n "$url" ] && curl -sf "$url/readyz" >/dev/null && break
    sleep 0.1
done
for name in greet review; do
    curl -sf --oauth2-bearer "$token" "$url/v1/workflows/$name/runs" --json '{}' >/dev/null
done
check() {
    "$work/venv/bin/schemathesis" --config-file tests/contract/schemathesis.toml run "$url/v1/openapi.json" \
        --header "Authorization: Bearer $token" --report-dir "$work/report" "$@"
}
# Not what would end the server, or the token that asks; and not the minute of a recording.
status=0
check --seed 20 --max-time "$seconds" --exclude-path-regex '^/v1/host/(drain|trace)$' --exclude-path '/v1/tokens/{id}' || status=$?
check --phases coverage --include-path '/v1/tokens/{id}' || status=$?
if ! kill -0 "$server" 2>/dev/null; then
    echo "the server has ended:" && tail -20 "$work/log"
    status=1
fi
exit "$status"
