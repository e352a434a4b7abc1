"""Our manifests as a veRL dataset (`data.custom_cls.path = pkg://vlagent.integrations.verl.dataset`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils.data import Dataset

from vlagent.data.manifest import load_samples
from vlagent.errors import UserError
from vlagent.types import Sample

FIELD = "vlagent_sample"


class ManifestDataset(Dataset[dict[str, Any]]):
    """Rows that the agent loop plays. `data_files` are specifications as for `vlagent eval`: `manifest.json:entry`.

    Prompts are built by the agent, so nothing is tokenised or filtered by length here.
    """

    def __init__(self, data_files: Any, tokenizer: Any, config: Any, processor: Any = None, max_samples: int = -1):
        del tokenizer, processor
        names = [data_files] if isinstance(data_files, str) else list(data_files)
        seed = int(config.get("seed") or 0)
        self.samples = [sample for name in names for sample in load_samples(name, seed=seed)]
        if max_samples > 0:
            self.samples = self.samples[:max_samples]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, item: int) -> dict[str, Any]:
        sample = self.samples[item]
        return {
            FIELD: sample.model_dump_json(),
            "index": item,
            "data_source": sample.source,
            "agent_name": "vlagent",
            "raw_prompt": [{"role": "user", "content": sample.question}],
            "reward_model": {"style": "rule", "ground_truth": " | ".join(sample.answers)},
            "extra_info": {"index": item},
            "dummy_tensor": torch.tensor([0], dtype=torch.uint8),
        }


def sample_of(row: Mapping[str, Any]) -> Sample:
    """The sample of a row. Raises `UserError` for rows of another dataset class."""
    if FIELD not in row:
        raise UserError(
            "the row is none of vlagent's: set data.custom_cls.path=pkg://vlagent.integrations.verl.dataset"
        )
    return Sample.model_validate_json(row[FIELD])
