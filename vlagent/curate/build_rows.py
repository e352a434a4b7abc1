"""A set of questions in the published manifest form: entries by data set and by how an answer is scored."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vlagent.curate.mine_rows import row_of
from vlagent.data.choices import choices_of
from vlagent.files import sha256_of, write_atomic, write_json, writing
from vlagent.types import Sample

MANIFEST = "manifest.json"
PICTURES = "pictures"
MCQ, OPEN = "mcq", "non_mcq"
"""As the released manifest names the two halves of DeepEyes-4K."""
REWARDS = {MCQ: ["em_score_mcq", "format_score"], OPEN: ["llm_score", "format_score"]}


def write_manifest(out: Path, samples: Sequence[Sample], *, copy: bool = False) -> Path:
    """Write rows and their manifest; with `copy` the pictures too, so that the folder can be moved.

    Other pictures are named relative to the folder. Returns the manifest's path.
    """
    manifest = {}
    for name, own in entries_of(samples).items():
        file = f"{re.sub(r'[^A-Za-z0-9._-]+', '_', name)}.jsonl"
        prompt = _shared_prompt(own)
        rows = [_row(sample, out, prompt, copy=copy) for sample in own]
        write_atomic(out / file, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        manifest[name] = _entry(name, file, own, prompt)
    write_json(out / MANIFEST, manifest)
    return out / MANIFEST


def entries_of(samples: Sequence[Sample]) -> dict[str, list[Sample]]:
    """Questions by entry: their data set, and where it holds both, option questions apart from open ones.

    Questions of one data set with other rewards or another instruction get an entry of their own (`name~2`).
    """
    groups: dict[tuple[str, str, tuple[str, ...], str], list[Sample]] = {}
    for sample in samples:
        form = form_of(sample)
        key = (sample.source, form, tuple(_rewards(sample, form)), sample.instruction)
        groups.setdefault(key, []).append(sample)
    forms: dict[str, set[str]] = {}
    for source, form, _, _ in groups:
        forms.setdefault(source, set()).add(form)
    entries: dict[str, list[Sample]] = {}
    seen: Counter[str] = Counter()
    for (source, form, _, _), own in groups.items():
        name = f"{source}_{form}" if len(forms[source]) > 1 else source
        seen[name] += 1
        entries[name if seen[name] == 1 else f"{name}~{seen[name]}"] = own
    return entries


def form_of(sample: Sample) -> str:
    """Whether a question lists options and its answer is one of their letters."""
    listed = sample.choices or choices_of(sample.question, sample.answers)
    letters = {answer.strip().strip("().").upper() for answer in sample.answers}
    return MCQ if letters and any(listed.values()) and letters <= set(listed) else OPEN


def _rewards(sample: Sample, form: str) -> list[str]:
    """What the question was scored by, unless that was the judge and its options can be read."""
    given = [str(name) for name in sample.extra.get("reward_fn") or ()]
    return REWARDS[form] if not given or "llm_score" in given else given


def _shared_prompt(samples: Sequence[Sample]) -> str:
    """The system prompt of all of them, which belongs into the manifest."""
    prompts = {sample.system_prompt or "" for sample in samples}
    return prompts.pop() if len(prompts) == 1 else ""


def _row(sample: Sample, out: Path, prompt: str, *, copy: bool) -> dict[str, Any]:
    row = row_of(sample.model_copy(update={"system_prompt": None}) if prompt else sample)
    column = "image_search_thumbnail_list"
    row["image"] = [_place(path, out, copy=copy) for path in row["image"]]
    if column in row:
        row[column] = [path and _place(path, out, copy=copy) for path in row[column]]
    return row


def _place(path: str, out: Path, *, copy: bool) -> str:
    """The picture's path relative to the folder."""
    if not copy:
        return os.path.relpath(Path(path).resolve(), out.resolve())
    source = Path(path)
    target = out / PICTURES / f"{sha256_of(source)[:32]}{source.suffix.lower()}"
    if not target.exists():
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    return f"{PICTURES}/{target.name}"


def _entry(name: str, file: str, samples: Sequence[Sample], prompt: str) -> dict[str, Any]:
    first = samples[0]
    arguments = {"system_prompt": prompt, "format_instruction": first.instruction, "add_image_path": False}
    return {
        "root": ".",
        "annotation": file,
        "length": len(samples),
        "repeat_time": 1,
        "reward_fn": _rewards(first, form_of(first)),
        "unused_reward_fn": [],
        "input_template": {"name": "general", "arguments": arguments},
        "comment": name,
    }
