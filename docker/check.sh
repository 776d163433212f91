#!/usr/bin/env bash
# Builds the image for the CPU and uses it as a user would: train as the image's own user into a mounted folder, stop with
# SIGTERM, go on, and find a policy of return 1000, its export and a film of it there. Leaves nothing behind.
#
#   docker/check.sh             needs buildah and mmdebstrap (Debian and Ubuntu have both), and root
#   docker/check.sh test        builds the stage `test` instead, which runs the tests inside the image
#   BASE=IMAGE docker/check.sh  starts from an image of a registry, in place of a fresh Debian
#   STORE=DIR docker/check.sh   keeps base and layers in that folder, for the next time
#
# pip's settings on this machine (index, certificates) are mounted for the build; none of them stays in the image.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
target=${1:-image}
store=${STORE:-$work/store}
container=
export BUILDAH_ISOLATION=${BUILDAH_ISOLATION:-chroot}
export TMPDIR=$work  # where buildah puts a layer of 2 GB on its way from the container to the image

buildah() { command buildah --storage-driver "$driver" --root "$store/root" --runroot "$store/run" "$@"; }

clean_up() {
    [ -z "$container" ] || buildah rm "$container" >/dev/null
    if [ -z "${STORE:-}" ]; then # what is still mounted, after a failure, cannot be removed
        buildah rm --all >/dev/null 2>&1 || true
        umount "$store/root/overlay" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap clean_up EXIT

# overlay shares the layers that vfs copies, but does not work everywhere, for instance not inside of an overlay. It is tried
# in another folder, since a store remembers the driver it was made for.
driver=overlay
try() { store=$store/try buildah "$@" >/dev/null 2>&1; }
try from --name try scratch && try mount try && try rm try || driver=vfs
rm -rf "$store/try"

phase= began=0 summary=
say() { # Begins a phase, and says how long the one before it took.
    if [ -n "$phase" ]; then
        printf '   %s s\n' "$((SECONDS - began))"
        summary+="; $phase $((SECONDS - began)) s"
    fi
    phase=$1 began=$SECONDS
    printf '\n== %s\n' "$phase"
}

make_base() { # a Debian with nothing in it
    local base
    base=$(buildah from scratch)
    mmdebstrap --quiet --variant=minbase bookworm "$(buildah mount "$base")"
    buildah commit --quiet --rm "$base" virel-tf-base >/dev/null
}

if [ -z "${BASE:-}" ]; then
    BASE=localhost/virel-tf-base
    buildah inspect --type image "$BASE" >/dev/null 2>&1 || { say "base image, by $driver"; make_base; }
fi

say "build"
python3 -m pip config list >"$work/pip.list"
pip_setting() { sed -n "s/^\(:env:\|global\)\.$1='\(.*\)'$/\2/p" "$work/pip.list" | head -n 1; }
mounts=(--volume "$work/pip.conf:/etc/pip.conf:ro")
printf '[global]\n' >"$work/pip.conf"
for key in index-url trusted-host timeout; do
    value=$(pip_setting "$key")
    [ -z "$value" ] || printf '%s = %s\n' "$key" "$value" >>"$work/pip.conf"
done
certificates=$(pip_setting cert)
if [ -n "$certificates" ]; then
    printf 'cert = /run/certificates\n' >>"$work/pip.conf"
    mounts+=(--volume "$certificates:/run/certificates:ro")
fi

steps() { # Shows when each step began; the rest of the output goes to build.log.
    local line
    while IFS= read -r line; do
        printf '%s\n' "$line" >>"$work/build.log"
        case $line in *STEP*) printf '%5s s  %.110s\n' "$((SECONDS - began))" "$line" ;; esac
    done
}
buildah bud --layers "${mounts[@]}" --file docker/Dockerfile --build-arg BASE="$BASE" --build-arg DEVICE=cpu \
    --build-arg REVISION="$(git rev-parse HEAD 2>/dev/null || true)" --target "$target" --tag "virel-tf:$target" . 2>&1 \
    | steps || { tail -n 60 "$work/build.log"; exit 1; }
if [ "$target" = test ]; then
    grep -E '(passed|failed).* in ' "$work/build.log"
    say "the tests pass inside the image"
    exit
fi

container=$(buildah from virel-tf:image)
entrypoint=$(buildah inspect --format '{{index .OCIv1.Config.Entrypoint 0}}' "$container")
user=$(buildah inspect --format '{{.OCIv1.Config.User}}' "$container")
[ "$user" != root ] && [ -n "$user" ] || { echo "the image runs as root"; exit 1; }

runs=$work/runs
mkdir -m 777 "$runs"
chmod 755 "$work"
in_image() { buildah run --volume "$runs:/data/runs" "$container" -- "$entrypoint" "$@"; }
train() {
    in_image --env=InvertedPendulum-v4 --variant=beta --total_steps=30000 \
        --checkpoint_every=2000 --run_dir=/data/runs/pole
}

say "train, and SIGTERM after the first checkpoint"
train >"$work/first.log" 2>&1 &
until ls "$runs"/pole/checkpoints/step-* >/dev/null 2>&1; do
    sleep 1
    kill -0 $! 2>/dev/null || { cat "$work/first.log"; exit 1; }
done
# Under chroot the engine does not pass signals on, as `docker stop` does: the trainer itself is told.
for process in /proc/[0-9]*; do
    case $(tr '\0' ' ' 2>/dev/null <"$process/cmdline") in
        /opt/virel-tf/bin/python*" --run_dir=/data/runs/pole ") kill -TERM "${process#/proc/}" ;;
    esac
done
wait $! && code=0 || code=$?
cat "$work/first.log"
grep -q "and saved; run the same command" "$work/first.log" || { echo "SIGTERM did not save (exit code $code)"; exit 1; }

say "the same command again"
train 2>&1 | tee "$work/second.log"
grep -q "resuming from step" "$work/second.log"

say "what is in the mounted folder"
find "$runs/pole" -maxdepth 3 -not -path '*/checkpoints/*' | sort
[ "$(stat -c %u "$runs/pole/metrics.csv")" != 0 ] || { echo "the run belongs to root"; exit 1; }
[ -f "$runs/pole/saved_model/best/1/saved_model.pb" ] || { echo "there is no export"; exit 1; }

say "the policy, played and filmed inside the image"
in_image evaluate --run_dir=/data/runs/pole --episodes=1 --video=/data/runs/film.mp4 | tee "$work/evaluation.json"
python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["return_mean"] < 1000)' "$work/evaluation.json" \
    || { echo "the policy does not reach 1000"; exit 1; }
[ -s "$runs/film.mp4" ] || { echo "there is no film"; exit 1; }
say "the image works"
echo "$SECONDS s: ${summary#; }"
