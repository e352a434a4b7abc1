#!/usr/bin/env bash
# Makes every shipped checkpoint anew, by the commands of its card; about three quarters of an hour on two cores.
#   OUT=runs/retrained bash configs/stage0/retrain.sh
# The same command goes on after any interruption. PYTHON is the interpreter; SMALL=1 takes a few steps of everything,
# to see that it runs; WITHOUT_RL=1 ends before reinforcement learning. OUT/seconds.json says what each command took.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
out=${OUT:-runs/retrained}
mkdir -p "$out/seconds"
cd "$out"
python=${PYTHON:-python}
export OMP_NUM_THREADS=1

stage0_words=() sft_words=() rl_words=()
questions=(train=400 val=20)
if [ -n "${SMALL:-}" ]; then
  stage0_words=(pictures.scenes=4 pictures.held_scenes=2 pictures.thumbnails=4 vision.steps=2 vision.crops=2
    vision.overviews=2 vision.others=1 vision.early_step=1
    'decoder.phases=[{steps=1,rows=2,drills=1},{steps=2,rows=2,drills=1}]' join.steps=2 join.rows=2 join.crops=2
    join.drills=2)
  sft_words=(max_steps=2 validation.limit=2)
  rl_words=(steps=1 validation.limit=2 batch.prompts=2 batch.samples=2)
  questions=(train=4 val=1)
fi
flaws=redundant_call=0.3,stray_crop=0.1,early_guess=0.1,broken_call=0.05

# Runs a command once, and adds up its seconds over interruptions.
once() {
  local name=$1 before=0 code=0 start=$SECONDS
  shift
  [ -e "seconds/$name.done" ] && return
  [ -e "seconds/$name" ] && before=$(cat "seconds/$name")
  echo "== $*" >&2
  "$python" -m vlagent "$@" || code=$?
  echo $((before + SECONDS - start)) >"seconds/$name"
  [ "$code" = 0 ] || exit "$code"
  touch "seconds/$name.done"
}

# Starts a training, or goes on with it.
train() {
  local verb=$1 name=$2 run=$3
  shift 3
  if [ -d "$run" ]; then once "$name" "$verb" --resume "$run"; else once "$name" "$verb" "$@"; fi
}

once stage0 stage0 "$root/configs/stage0/tiny.toml" "${stage0_words[@]}"
once world toy make runs/toy --seed 1 --splits train,val --per-kind "${questions[0]}" --per-kind "${questions[1]}" \
  --short-prompt
once demos toy demos runs/toy runs/demos --imperfect "$flaws" --direct 0.05
once demos_clean toy demos runs/toy runs/demos_clean
train sft sft runs/toy_sft "$root/configs/sft/toy_sft.toml" "${sft_words[@]}"
train sft sft_clean runs/toy_sft_clean "$root/configs/sft/toy_sft_clean.toml" "${sft_words[@]}"
train sft sft_full runs/toy_sft_full "$root/configs/sft/toy_sft_full.toml" "${sft_words[@]}"
if [ -z "${WITHOUT_RL:-}" ]; then
  train rl rl runs/toy_rl "$root/configs/rl/toy_bn_gspo.toml" model.path=runs/toy_sft/model run=runs/toy_rl steps=160 \
    optim.schedule=cosine "${rl_words[@]}"
fi

rm -rf base sft sft-clean trained rl
cp -r runs/stage0/base base
cp -r runs/toy_sft/model sft
cp -r runs/toy_sft_clean/model sft-clean
cp -r runs/toy_sft_full/model trained
[ -n "${WITHOUT_RL:-}" ] || cp -r runs/toy_rl/model rl
"$python" - <<'PYTHON'
import json
from pathlib import Path

spent = {path.name: int(path.read_text()) for path in sorted(Path("seconds").iterdir()) if not path.suffix}
Path("seconds.json").write_text(json.dumps(spent, indent=1) + "\n")
print(spent)
PYTHON
