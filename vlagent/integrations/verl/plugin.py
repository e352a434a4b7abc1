"""What veRL loads as it is imported: entry point `verl.plugins`, or VERL_USE_EXTERNAL_MODULES (fails loudly)."""

from __future__ import annotations

from verl.trainer.ppo.core_algos import register_adv_est

from vlagent.integrations.verl.estimator import NAMES, make_estimator

for verls, ours in NAMES.items():
    register_adv_est(verls)(make_estimator(ours))
