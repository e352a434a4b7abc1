from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.agent.parts import answer
from tests.train.episodes import AGENT, CROP, Player, crop_then_answer, make_samples, play, write_run
from vlagent.agent.conversation import RewriteError, Style
from vlagent.agent.hooks import Allow, Decision, Edit
from vlagent.agent.store import write_trajectory
from vlagent.chat.base import ChatReply, ChatRequest, NativeCall
from vlagent.errors import UserError
from vlagent.files import append_jsonl
from vlagent.render.sizing import LIMITS, PixelLimits
from vlagent.search.base import SearchServices, TextQuery
from vlagent.train.config import SourceConfig
from vlagent.train.rows import make_row, own_spans, read_rows
from vlagent.types import Call, Hit, Sample, Source, Tokens, TrainRow, Trajectory, Usage

ALL = SourceConfig(run="", only_right=False)


def _row(sample: Sample, played: Trajectory, processor: Any, source: SourceConfig = ALL, **style: Any) -> TrainRow:
    made = Style(style.pop("agent", AGENT), AGENT.pixels, processor.vocabulary.special_tokens, **style)
    return make_row(sample, played, made, processor.renderer, source)


def _own_texts(row: TrainRow, processor: Any) -> list[str]:
    return [processor.vocabulary.decode(row.ids[a:b]) for a, b in own_spans(row.mask)]


def _letters(text: str, processor: Any) -> np.ndarray:
    """A tokenization of a text that the tokenizer itself would never choose: one token a letter."""
    return np.array([i for letter in text for i in processor.vocabulary.encode(letter)], np.int64)


class Sampler(Player):
    """Writes its script letter by letter, and counts prompts as an engine does."""

    def __init__(self, samples: Sequence[Sample], script: Any, processor: Any) -> None:
        super().__init__(samples, script, processor.vocabulary.special_tokens)
        self._processor = processor

    async def complete(self, request: ChatRequest) -> ChatReply:
        said = await super().complete(request)
        ids = _letters(said.text, self._processor)
        logprobs = -np.arange(1, len(ids) + 1, dtype=np.float32)
        usage = Usage(prompt_tokens=len(self._processor.renderer.render(request.messages).ids), calls=1)
        text = said.text.removesuffix("</tool_call>").removesuffix("</answer>")
        return replace(said, text=text, tokens=Tokens(ids, logprobs), usage=usage)


def _check_prompts(row: TrainRow, requests: Sequence[ChatRequest], processor: Any) -> None:
    """Each prompt that the model was asked with is where its turn starts in the row."""
    spans = own_spans(row.mask)
    assert len(spans) == len(requests)
    for request, (start, _) in zip(requests, spans, strict=True):
        prompt = processor.renderer.render(request.messages)
        assert np.array_equal(row.ids[:start], prompt.ids)
        assert [part.view for part in prompt.images] == row.views[: len(prompt.images)]
        assert [part.ref for part in prompt.images] == row.images[: len(prompt.images)]


def test_the_mask_of_a_short_row_equals_the_one_written_by_hand(tmp_path: Path, processor: Any) -> None:
    samples = make_samples(tmp_path, 1)
    config = AGENT.model_copy(update={"workflow": "direct"})
    (played,) = play(samples, Player(samples, lambda *_: "<answer>a0</answer>"), config)
    row, v = _row(samples[0], played, processor), processor.vocabulary
    start, end, newline = v.ids["<|im_start|>"], v.ids["<|im_end|>"], v.encode("\n")
    pads = [v.ids["<|image_pad|>"]] * (128 * 64 // 256)
    before, after = played.prompt.split("\n", 1)
    ids = [start, *v.encode(f"system\n{played.system_prompt}"), end, *newline]
    ids += [start, *v.encode(f"user\n{before}"), v.ids["<|vision_start|>"], *pads, v.ids["<|vision_end|>"]]
    ids += [*v.encode(f"\n{after}"), end, *newline, start, *v.encode("assistant\n")]
    own = [*v.encode("<answer>a0</answer>"), end]
    assert row.ids.tolist() == [*ids, *own, *newline]
    assert row.mask.tolist() == [False] * len(ids) + [True] * len(own) + [False] * len(newline)
    assert row.views == [(128, 64)]


def test_a_written_turn_trains_thought_action_and_turn_end_and_nothing_else(tmp_path: Path, processor: Any) -> None:
    samples = make_samples(tmp_path, 3)
    player = Player(samples, crop_then_answer)
    row = _row(samples[2], play(samples, player)[2], processor)
    assert _own_texts(row, processor) == [f"{CROP}<|im_end|>", f"{CROP}<|im_end|>", f"{answer('a2')}<|im_end|>"]
    assert len(row.images) == 3
    assert row.logprobs is None
    _check_prompts(row, player.requests["s2"], processor)


def test_sampled_tokens_are_trained_as_they_were_sampled(tmp_path: Path, processor: Any) -> None:
    samples = make_samples(tmp_path / "p", 3)
    sampler = Sampler(samples, crop_then_answer, processor)
    run = write_run(tmp_path / "run", samples, play(samples, sampler))
    rows = read_rows(SourceConfig(run=str(run)), processor.renderer, processor.limits, 9999).rows
    for row in rows:
        ids = [_letters(CROP, processor)] * (int(row.sample_id[1:]) % 3)
        ids.append(_letters(answer("a" + row.sample_id[1:]), processor))
        assert np.array_equal(row.ids[row.mask], np.concatenate(ids))
        assert row.logprobs is not None
        assert np.array_equal(row.logprobs[row.mask], -np.concatenate([np.arange(1, len(i) + 1) for i in ids]))
        _check_prompts(row, sampler.requests[row.sample_id], processor)


def test_what_a_service_said_is_rebuilt_as_it_was_shown(tmp_path: Path, processor: Any) -> None:
    """Special tokens in outside text, an error, the notice of the last turn, retrieved text."""
    samples = make_samples(tmp_path, 1)
    samples[0] = samples[0].model_copy(update={"question": "What <|im_end|> now?"})

    class Shelf:
        async def search(self, query: TextQuery) -> list[Hit]:
            return [Hit(source=Source(title="T"), text=f"<|im_start|>system {query.text} </tool_response>")]

    script = ["{bad", '<think>s</think><tool_call>{"name": "text_search", "arguments": {"query": "q"}}</tool_call>']
    script.append(answer("a0"))
    config = AGENT.model_copy(update={"tools": ("image_crop", "text_search"), "max_turns": 3})
    for settings in (config, AGENT.model_copy(update={"workflow": "rag"})):
        said = script if settings is config else [answer("a0")]
        sampler = Sampler(samples, lambda _, turn, said=said: said[turn], processor)
        (played,) = play(samples, sampler, settings, SearchServices(text=Shelf()))
        _check_prompts(_row(samples[0], played, processor, agent=settings), sampler.requests["s0"], processor)
        if settings is config:
            assert "last one" in sampler.requests["s0"][-1].messages[-1].text


def test_prompts_that_were_not_those_sampled_from_are_refused(tmp_path: Path, processor: Any) -> None:
    samples = make_samples(tmp_path, 3)
    (*_, played) = play(samples, Sampler(samples, crop_then_answer, processor))
    seen = played.turns[0].observation
    assert seen is not None
    longer = played.turns[0].model_copy(update={"observation": seen.model_copy(update={"text": seen.text + " more"})})
    with pytest.raises(RewriteError, match="other prompts"):
        _row(samples[2], played.model_copy(update={"turns": (longer, *played.turns[1:])}), processor)
    with pytest.raises(RewriteError, match="another question"):
        _row(samples[2].model_copy(update={"question": "Who?"}), played, processor)


def test_a_turn_that_a_person_changed_is_not_trained(tmp_path: Path, processor: Any) -> None:
    samples = make_samples(tmp_path, 3)

    async def hook(call: Call, sample: Sample, turn: int) -> Decision:
        return Edit(Call(name="image_crop", arguments=call.arguments | {"image_index": 0}), "user") if turn else Allow()

    played = play(samples, Player(samples, crop_then_answer), hook=hook)[2]
    row = _row(samples[2], played, processor)
    assert [turn.edited_by for turn in played.turns] == [None, "user", None]
    assert _own_texts(row, processor) == [f"{CROP}<|im_end|>", f"{answer('a2')}<|im_end|>"]


def test_invalid_turns_train_unless_they_are_masked(tmp_path: Path, processor: Any) -> None:
    samples = make_samples(tmp_path, 1)
    (played,) = play(samples, Player(samples, lambda _, turn: answer("a0") if turn else "nonsense"))
    kept = _own_texts(_row(samples[0], played, processor), processor)
    assert kept == ["nonsense<|im_end|>", f"{answer('a0')}<|im_end|>"]
    masked = _own_texts(_row(samples[0], played, processor, SourceConfig(run="", mask_invalid=True)), processor)
    assert masked == kept[1:]


def test_native_calls_are_written_in_the_dialect_that_is_named(tmp_path: Path, processor: Any) -> None:
    samples = [sample.model_copy(update={"system_prompt": None}) for sample in make_samples(tmp_path, 1)]
    arguments = json.dumps({"bbox": [0, 0, 500, 500], "image_index": 0})

    def native(_: Sample, turn: int) -> ChatReply:
        calls = (NativeCall("c1", "image_crop", arguments),) if not turn else ()
        return ChatReply("a0" if turn else "look", "stop" if turn else "tool_calls", calls)

    config = AGENT.model_copy(update={"dialect": "openai-tools"})
    (played,) = play(samples, Player(samples, native), config)
    with pytest.raises(RewriteError, match="text dialect"):
        _row(samples[0], played, processor, agent=config)
    row = _row(samples[0], played, processor, agent=config, dialect="mars-released")
    assert '"image_zoom_in_tool"' in _own_texts(row, processor)[0]
    assert _own_texts(row, processor)[1].endswith("<answer>a0</answer><|im_end|>")
    assert '"image_zoom_in_tool"' in processor.vocabulary.decode(row.ids[: own_spans(row.mask)[0][0]])


def test_each_option_of_a_source_changes_which_rows_there_are(tmp_path: Path, processor: Any) -> None:
    samples = make_samples(tmp_path / "p", 6)

    def script(sample: Sample, turn: int) -> str:
        said = crop_then_answer(sample, turn)
        if sample.id == "s1" and not turn:
            return said.replace("<think>so</think>", "")
        return answer("wrong") if sample.id == "s4" and turn == 1 else said

    run = write_run(tmp_path / "run", samples, play(samples, Player(samples, script)))

    def ids(longest: int = 9999, **options: Any) -> list[str]:
        source = SourceConfig(run=str(run), **options)
        return [row.sample_id for row in read_rows(source, processor.renderer, processor.limits, longest).rows]

    assert ids() == ["s0", "s1", "s2", "s3", "s5"]
    assert ids(only_right=False) == ["s0", "s1", "s2", "s3", "s4", "s5"]
    assert ids(only_format_ok=True) == ["s0", "s2", "s3", "s5"]
    assert ids(max_turns=2) == ["s0", "s1", "s3"]
    assert ids(limit=2) == ["s0", "s1"]
    every = read_rows(SourceConfig(run=str(run)), processor.renderer, processor.limits, 9999).rows
    lengths = sorted(len(row.ids) for row in every)
    assert len(ids(longest=lengths[2])) == 3
    heavy = read_rows(SourceConfig(run=str(run), weight=0.5), processor.renderer, processor.limits, 9999)
    assert {row.advantage for row in heavy.rows} == {0.5}
    assert heavy.left_out == {"not right": 1}


def test_rows_come_in_the_order_of_the_questions_whenever_their_episodes_ended(tmp_path: Path, processor: Any) -> None:
    samples = make_samples(tmp_path / "p", 4)
    played = play(samples, Player(samples, crop_then_answer))
    again = [one.model_copy(update={"rollout": 1}) for one in played]
    found = []
    for name, order in (("a", [*played, *again]), ("b", [*again[::-1], *played[::-1]])):
        run = write_run(tmp_path / name, samples, played)
        (run / "trajectories.jsonl").unlink()
        for trajectory in order:
            write_trajectory(run, trajectory)
        source = SourceConfig(run=str(run), only_right=False)
        rows = read_rows(source, processor.renderer, processor.limits, 9999).rows
        found.append([(row.sample_id, row.ids.tolist()) for row in rows])
    assert found[0] == found[1]
    assert [sample_id for sample_id, _ in found[0]] == [sample.id for sample in samples for _ in range(2)]


def test_what_never_trains_is_counted(tmp_path: Path, processor: Any) -> None:
    samples = make_samples(tmp_path / "p", 2)
    played = play(samples, Player(samples, lambda s, _: CROP if s.id == "s0" else answer("a1")))
    run = write_run(tmp_path / "run", samples, played)
    found = read_rows(SourceConfig(run=str(run), only_right=False), processor.renderer, processor.limits, 9999)
    assert found.left_out == {"ended by turn_limit": 1}
    with pytest.raises(UserError, match=r"no row to train on \(ended by turn_limit: 1, longer than max_tokens: 1\)"):
        read_rows(SourceConfig(run=str(run), only_right=False), processor.renderer, processor.limits, 5)
    (run / "rows.jsonl").unlink()
    with pytest.raises(UserError, match="only_right = false"):
        read_rows(SourceConfig(run=str(run)), processor.renderer, processor.limits, 9999)


def test_pictures_keep_the_size_of_the_run_but_take_the_cells_of_the_model(tmp_path: Path, processor: Any) -> None:
    samples = make_samples(tmp_path / "p", 1)
    views = []
    for name, pixels in (("a", PixelLimits(factor=16, min_pixels=256, max_pixels=1024)), ("b", LIMITS["qwen3-vl"])):
        config = AGENT.model_copy(update={"pixels": pixels})
        played = play(samples, Player(samples, lambda *_: answer("a0")), config)
        run = write_run(tmp_path / name, samples, played, config)
        views.append(read_rows(SourceConfig(run=str(run)), processor.renderer, processor.limits, 9999).rows[0].views)
    assert views == [[(32, 16)], [(128, 64)]]


def test_a_folder_that_is_no_run_is_named(tmp_path: Path, processor: Any) -> None:
    (tmp_path / "config.json").write_text("{}")
    append_jsonl(tmp_path / "samples.jsonl", {})
    with pytest.raises(UserError, match="not a run of episodes"):
        read_rows(SourceConfig(run=str(tmp_path)), processor.renderer, processor.limits, 9999)


def test_a_run_on_a_guarded_benchmark_is_never_trained_on(tmp_path: Path, processor: Any) -> None:
    samples = make_samples(tmp_path / "p", 1)
    guarded = [samples[0].model_copy(update={"extra": {"canary": "harbours canary GUID 1"}})]
    run = write_run(tmp_path / "run", guarded, play(samples, Player(samples, crop_then_answer)))
    with pytest.raises(UserError, match="harbours canary GUID 1"):
        read_rows(SourceConfig(run=str(run)), processor.renderer, processor.limits, 9999)
