#!/usr/bin/env bash
# Builds the image for the CPU and uses it as a user would: train as the image's own user into a mounted folder, stop with
# SIGTERM, go on, and find a policy of return 1000 and its export there.
#
#   docker/check.sh            needs buildah and debootstrap (Debian and Ubuntu have both), and root
#   BASE=IMAGE docker/check.sh starts from an image that buildah knows, in place of a fresh Debian
#
# pip's settings on this machine (index, certificates) are mounted for the build; none of them stays in the image.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export STORAGE_DRIVER=${STORAGE_DRIVER:-vfs} BUILDAH_ISOLATION=${BUILDAH_ISOLATION:-chroot}
work=$(mktemp -d)
container=
trap '[ -z "$container" ] || buildah rm "$container" >/dev/null; rm -rf "$work"' EXIT

say() { printf '\n== %s\n' "$*"; }

make_base() { # a Debian with nothing in it
    debootstrap --variant=minbase bookworm "$work/debian" >"$work/debootstrap.log" || { tail "$work/debootstrap.log"; exit 1; }
    local base
    base=$(buildah from scratch)
    buildah add --quiet "$base" "$work/debian" / >/dev/null
    buildah commit --quiet "$base" virel-tf-base >/dev/null
    buildah rm "$base" >/dev/null
    rm -rf "$work/debian"
}

if [ -z "${BASE:-}" ]; then
    BASE=localhost/virel-tf-base
    buildah inspect "$BASE" >/dev/null 2>&1 || { say "base image"; make_base; }
fi

say "build"
mounts=()
printf '[global]\n' >"$work/pip.conf"
for key in index-url trusted-host timeout; do
    value=$(python3 -m pip config get "global.$key" 2>/dev/null) && printf '%s = %s\n' "$key" "$value" >>"$work/pip.conf"
done
if certificates=$(python3 -m pip config get global.cert 2>/dev/null); then
    printf 'cert = /run/certificates\n' >>"$work/pip.conf"
    mounts+=(--volume "$certificates:/run/certificates:ro")
fi
mounts+=(--volume "$work/pip.conf:/etc/pip.conf:ro")
buildah bud --quiet --layers "${mounts[@]}" --file docker/Dockerfile --build-arg BASE="$BASE" --build-arg DEVICE=cpu \
    --tag virel-tf .
container=$(buildah from virel-tf)
entrypoint=$(buildah inspect --format '{{index .OCIv1.Config.Entrypoint 0}}' virel-tf)
user=$(buildah inspect --format '{{.OCIv1.Config.User}}' virel-tf)
[ "$user" != root ] && [ -n "$user" ] || { echo "the image runs as root"; exit 1; }

runs=$work/runs
mkdir -m 777 "$runs"
chmod 755 "$work"
in_image() { buildah run --volume "$runs:/data/runs" "$container" -- "$entrypoint" "$@"; }
train() {
    in_image --env=InvertedPendulum-v4 --variant=beta --normalise_observations --total_steps=20000 \
        --checkpoint_every=2000 --run_dir=/data/runs/pole
}

say "train, and SIGTERM after the first checkpoint"
train >"$work/first.log" 2>&1 &
until ls "$runs"/pole/checkpoints/step-* >/dev/null 2>&1; do
    sleep 1
    kill -0 $! 2>/dev/null || { cat "$work/first.log"; exit 1; }
done
# Under chroot the engine does not pass signals on, as `docker stop` does: the trainer itself is told.
pkill -TERM -f '^/opt/virel-tf/bin/python.* --run_dir=/data/runs/pole'
wait $! && code=0 || code=$?
cat "$work/first.log"
grep -q "and saved; the same command goes on" "$work/first.log" || { echo "SIGTERM did not save (exit code $code)"; exit 1; }

say "the same command again"
train 2>&1 | tee "$work/second.log"
grep -q "going on from step" "$work/second.log"

say "what is in the mounted folder"
find "$runs/pole" -maxdepth 3 -not -path '*/checkpoints/*' | sort
[ "$(stat -c %u "$runs/pole/metrics.csv")" != 0 ] || { echo "the run belongs to root"; exit 1; }
[ -f "$runs/pole/policy/best/1/saved_model.pb" ] || { echo "there is no export"; exit 1; }

say "the policy, played inside the image"
in_image evaluate --run_dir=/data/runs/pole --episodes=3 | tee "$work/evaluation.json"
python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["return_mean"] < 1000)' "$work/evaluation.json" \
    || { echo "the policy does not reach 1000"; exit 1; }
say "the image works"
