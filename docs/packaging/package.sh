#!/usr/bin/env bash
# Packs a release: the static program, its manual, completions and the unit of systemd.
#   docs/packaging/package.sh [FOLDER]
# writes wfhost-VERSION-TARGET.tgz there, which `cargo binstall wfhost` takes. TARGET is the host's, or $TARGET;
# with $PROGRAM a program that is built already is packed.
set -euo pipefail
cd "$(dirname "$0")/../.."
to=$(realpath "${1:-.}")
target=${TARGET:-$(rustc -vV | sed -n 's/^host: //p')}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
if [ -z "${PROGRAM:-}" ]; then
    RUSTFLAGS="-C target-feature=+crt-static ${RUSTFLAGS:-}" cargo build --release --locked --bin wfhost --target "$target"
    PROGRAM=${CARGO_TARGET_DIR:-target}/$target/release/wfhost
fi
name=wfhost-$version-$target
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
install -D -s "$PROGRAM" "$folder/$name/wfhost"
"$folder/$name/wfhost" man "$folder/$name/man/man1"
for shell in bash zsh fish; do
    install -d "$folder/$name/completions"
    "$folder/$name/wfhost" completions "$shell" >"$folder/$name/completions/wfhost.$shell"
done
install -m 644 -t "$folder/$name" README.md LICENSE-APACHE LICENSE-MIT docs/packaging/wfhost.service docs/packaging/wfhost.sysusers
# The same files give the same bytes.
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@"${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" \
    -C "$folder" -c "$name" | gzip -n9 >"$to/$name.tgz"
printf '%s: %s bytes\n' "$to/$name.tgz" "$(stat -c %s "$to/$name.tgz")"
