#!/usr/bin/env bash
# Draws the pictures of the README and docs/chat.md anew. The scenes are in cli/tests/terminal/pictures.rs.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --release -p longhand-cli --test terminal pictures::
mkdir -p docs
target=${CARGO_TARGET_DIR:-target}
cp "$target/tmp/cli/pictures/"*.svg docs/
