#!/usr/bin/env bash
# Several machines. Run it on each, with NODES and RAY_HEAD (address of the first machine) set:
#
#   first machine:   RAY_HEAD=10.0.0.1 NODES=4 MODEL=... TRAIN=... VAL=... LOOP=... several_nodes.sh head
#   every other:     RAY_HEAD=10.0.0.1 several_nodes.sh worker
#
# Each starts a Ray node in the foreground of its own and ends just that process with the run; other Ray clusters on
# the machine, and anything else, are left alone. RAY_PORT (6379), GPUS_PER_NODE (8), RAY_TMP (its folder for sockets).
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
role=${1:?head or worker}
shift
: "${RAY_HEAD:?address of the first machine}"
port=${RAY_PORT:-6379}
ray=${RAY:-ray}
resources=(--num-gpus "${GPUS_PER_NODE:-8}" --disable-usage-stats --block)

case $role in
worker)
    exec "$ray" start --address "$RAY_HEAD:$port" "${resources[@]}"
    ;;
head) ;;
*)
    echo "$role: write head or worker" >&2
    exit 2
    ;;
esac

: "${NODES:?number of machines}"
"$ray" start --head --node-ip-address "$RAY_HEAD" --port "$port" --include-dashboard=false \
    --temp-dir "${RAY_TMP:-/tmp/ray-vlagent-$UID}" "${resources[@]}" &
mine=$!
trap 'kill "$mine" 2>/dev/null || true; wait "$mine" 2>/dev/null || true' EXIT

export RAY_ADDRESS="$RAY_HEAD:$port"
for _ in $(seq "${WAIT_S:-600}"); do
    kill -0 "$mine" 2>/dev/null || { echo "the Ray node ended by itself: is port $port taken?" >&2; exit 3; }
    joined=$("${PYTHON:-python3}" "$here/nodes.py" 2>/dev/null || echo 0)
    [[ $joined -ge $NODES ]] && break
    sleep 1
done
[[ $joined -ge $NODES ]] || { echo "$joined of $NODES machines joined within ${WAIT_S:-600} s" >&2; exit 3; }
EXTERNAL_RAY=1 "$here/train.sh" "$@"
