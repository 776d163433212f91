#!/usr/bin/env bash
# Writes docker/requirements-*.txt anew: every package of the image with its version and hashes. Needs uv.
#   docker/lock.sh [--upgrade]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

lock() { # NAME EXTRAS...
    local name=$1; shift
    uv pip compile setup.py "$@" "${upgrade[@]}" --universal --python-version 3.11 --generate-hashes --no-header \
        --no-annotate --quiet --output-file "docker/requirements-$name.txt"
}

upgrade=("$@")
lock cpu --extra video --extra plots
lock cuda --extra video --extra plots --extra cuda
lock test --extra video --extra plots --extra test
