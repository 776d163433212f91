#!/usr/bin/env bash
# Writes docker/requirements-*.txt anew, after a change of setup.py: every package of the image with version and hashes.
#   docker/lock.sh             keeps the versions that still fit
#   docker/lock.sh --upgrade   takes the newest
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v uv >/dev/null; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    python3 -m venv "$folder" && "$folder/bin/pip" install --quiet uv
    PATH=$folder/bin:$PATH
fi
export UV_NATIVE_TLS=1  # trusts whom this machine trusts, as pip may do by its settings

lock() { # NAME OPTIONS...
    local name=$1; shift
    # fewest: one version of a package for every Python, so that what is checked on one is what another ships.
    uv pip compile setup.py "$@" "${upgrade[@]}" --universal --fork-strategy fewest --python-version 3.11 \
        --generate-hashes --no-header --no-annotate --quiet --output-file "docker/requirements-$name.txt"
}

upgrade=("$@")
lock cpu --extra video --extra plots
# The others hold what is in the first at the same version: what is tested is what is shipped.
lock cuda --extra video --extra plots --extra cuda --constraint docker/requirements-cpu.txt
lock test --extra video --extra plots --extra test --constraint docker/requirements-cpu.txt
