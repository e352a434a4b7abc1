#!/usr/bin/env bash
# Reinforcement learning in veRL at published settings. It is called by one_node.sh and several_nodes.sh, or with a
# running Ray cluster by hand. Nothing secret is printed or put on a command line: keys of trackers and judges are read
# from the environment by the processes that need them.
#
#   MODEL=/models/sft-7b TRAIN=/data/manifest.json:mars VAL=/data/manifest.json:val LOOP=/data/loop.toml train.sh
#
# PRESET    mars-paper (default), mars-released-script, gspo-paper
# NODES, GPUS_PER_NODE, TENSOR_PARALLEL, OUT, EXTERNAL_RAY=1 (join the cluster at RAY_ADDRESS), DRY_RUN=1 (print only)
# Further arguments are overrides of veRL's configuration and win over what stands here.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
: "${MODEL:?a checkpoint folder that every node sees}"
: "${TRAIN:?questions to train on, such as /data/manifest.json:entry}"
: "${VAL:?questions to validate on}"
: "${LOOP:?the TOML file of the agent loop; start from $here/loop.toml}"
preset=${PRESET:-mars-paper}
out=${OUT:-checkpoints/vlagent-$preset}

case $preset in
mars-paper) algorithm=(
    algorithm.adv_estimator=bn_gspo
    actor_rollout_ref.actor.policy_loss.loss_mode=gspo
    actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean
    actor_rollout_ref.actor.clip_ratio_low=0.2
    actor_rollout_ref.actor.clip_ratio_high=0.28
    actor_rollout_ref.actor.use_kl_loss=True
    actor_rollout_ref.actor.kl_loss_coef=0.0001
    actor_rollout_ref.actor.kl_loss_type=low_var_kl
    actor_rollout_ref.actor.optim.lr=1e-6
    actor_rollout_ref.actor.ppo_mini_batch_size=128
) ;;
mars-released-script) algorithm=(
    algorithm.adv_estimator=vlagent_grpo
    actor_rollout_ref.actor.policy_loss.loss_mode=vanilla
    actor_rollout_ref.actor.loss_agg_mode=token-mean
    actor_rollout_ref.actor.clip_ratio_low=0.2
    actor_rollout_ref.actor.clip_ratio_high=0.28
    actor_rollout_ref.actor.clip_ratio_c=3.0
    actor_rollout_ref.actor.use_kl_loss=False
    actor_rollout_ref.actor.optim.lr=1e-5
    actor_rollout_ref.actor.ppo_mini_batch_size=128
    data.seed=3407
) ;;
gspo-paper) algorithm=(
    algorithm.adv_estimator=vlagent_grpo
    actor_rollout_ref.actor.policy_loss.loss_mode=gspo
    actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean
    actor_rollout_ref.actor.clip_ratio_low=0.0003
    actor_rollout_ref.actor.clip_ratio_high=0.0004
    actor_rollout_ref.actor.use_kl_loss=False
    actor_rollout_ref.actor.optim.lr=1e-6
    actor_rollout_ref.actor.ppo_mini_batch_size=32
) ;;
*)
    echo "PRESET=$preset: there are mars-paper, mars-released-script, gspo-paper" >&2
    exit 2
    ;;
esac

ray=()
if [[ ${EXTERNAL_RAY:-0} == 1 ]]; then
    : "${RAY_ADDRESS:?host:port of the Ray cluster to join}"
    ray=("+ray_kwargs.ray_init.address='$RAY_ADDRESS'")
fi

overrides=(
    "data.train_files='$TRAIN'"
    "data.val_files='$VAL'"
    data.custom_cls.path=pkg://vlagent.integrations.verl.dataset
    data.custom_cls.name=ManifestDataset
    data.train_batch_size=128
    data.max_prompt_length=16384
    data.max_response_length=32768
    data.filter_overlong_prompts=False
    "actor_rollout_ref.model.path='$MODEL'"
    actor_rollout_ref.model.enable_gradient_checkpointing=True
    actor_rollout_ref.model.use_remove_padding=True
    actor_rollout_ref.actor.freeze_vision_tower=True
    actor_rollout_ref.actor.use_dynamic_bsz=True
    actor_rollout_ref.actor.ppo_max_token_len_per_gpu=32768
    actor_rollout_ref.actor.entropy_coeff=0
    actor_rollout_ref.rollout.name=vllm
    actor_rollout_ref.rollout.n=8
    actor_rollout_ref.rollout.temperature=1.0
    actor_rollout_ref.rollout.max_model_len=32768
    actor_rollout_ref.rollout.calculate_log_probs=True
    "actor_rollout_ref.rollout.tensor_model_parallel_size=${TENSOR_PARALLEL:-1}"
    actor_rollout_ref.rollout.val_kwargs.temperature=0
    actor_rollout_ref.rollout.agent.default_agent_loop=vlagent
    "actor_rollout_ref.rollout.agent.agent_loop_config_path='$here/loops.yaml'"
    reward.reward_manager.source=importlib
    reward.reward_manager.module.path=pkg://vlagent.integrations.verl.rewards
    reward.reward_manager.name=TrajectoryReward
    algorithm.use_kl_in_reward=False
    "${algorithm[@]}"
    "trainer.nnodes=${NODES:-1}"
    "trainer.n_gpus_per_node=${GPUS_PER_NODE:-8}"
    trainer.project_name=vlagent
    "trainer.experiment_name=$preset"
    "trainer.default_local_dir='$out'"
    'trainer.logger=[console,tensorboard]'
    trainer.val_before_train=True
    trainer.save_freq=20
    trainer.test_freq=20
    trainer.total_epochs=20
    +ray_kwargs.ray_init.runtime_env.env_vars.VERL_USE_EXTERNAL_MODULES=vlagent.integrations.verl.plugin
    "+ray_kwargs.ray_init.runtime_env.env_vars.VLAGENT_VERL_LOOP='$LOOP'"
    "${ray[@]}"
    "$@"
)

if [[ ${DRY_RUN:-0} == 1 ]]; then
    printf '%s\n' "${overrides[@]}"
    exit 0
fi
export VLAGENT_VERL_LOOP=$LOOP VERL_USE_EXTERNAL_MODULES=vlagent.integrations.verl.plugin
exec "${PYTHON:-python3}" -m verl.trainer.main_ppo "${overrides[@]}"
