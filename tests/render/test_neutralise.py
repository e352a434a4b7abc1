"""Text from outside reads the same and means nothing to a tokenizer or a parser."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlagent.render.neutralise import PROTOCOL_TAGS, neutralise
from vlagent.render.tags import cut, holds_tag

QWEN = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>")
OTHERS = ("<s>", "</s>", "<bos>", "<start_of_turn>", "[INST]", "[/INST]", "[IMG]", "<<SYS>>", "<｜User｜>", "<image>")
TAGS = tuple(f"<{slash}{tag}>" for tag in PROTOCOL_TAGS for slash in ("", "/"))
TOKENS = (*QWEN, *OTHERS, *TAGS)
SHARDS = st.sampled_from(
    [*TOKENS, "<", "<|", "|>", ">", "/", "im_end", "think", "<|im_", "end|>", "</", "[", "INST]", " "]
)
TEXTS = st.lists(SHARDS | st.text(max_size=5), max_size=15).map("".join)


@pytest.mark.parametrize("token", TOKENS)
def test_each_token_is_broken_and_still_readable(token: str) -> None:
    safe = neutralise(f"before {token} after")
    assert token not in safe
    assert safe.startswith("before ")
    assert safe.endswith(" after")
    assert re.sub(r"\W", "", safe) == re.sub(r"\W", "", f"before {token} after")


@pytest.mark.parametrize(
    "tag", ["<THINK>", "< think >", "</ answer >", "<\tTool_Call\n>", "<tool_response id=1>", "<image/>"]
)
def test_other_spellings_of_a_tag_are_broken_too(tag: str) -> None:
    assert "<" not in neutralise(tag)


@pytest.mark.parametrize("token", ["< |im_end| >", "<|IM_END|>", "<\u200b|im_end|>", "＜think＞", "<\u200bthink>"])
def test_other_spellings_of_a_token_are_broken_too(token: str) -> None:
    assert neutralise(token)[0] == "‹"


@given(TEXTS)
def test_no_token_survives_however_it_is_nested_or_split(text: str) -> None:
    safe = neutralise(text)
    assert not [token for token in TOKENS if token in safe]
    assert not holds_tag(safe)
    assert not cut(safe).blocks


@given(TEXTS)
def test_a_second_pass_changes_nothing(text: str) -> None:
    once = neutralise(text)
    assert neutralise(once) == once


@given(TEXTS)
def test_no_token_comes_back_when_the_tokenizer_normalises(text: str) -> None:
    safe = unicodedata.normalize("NFC", neutralise(text))
    assert not [token for token in TOKENS if token in safe]


@given(TEXTS, TEXTS)
def test_two_safe_texts_on_two_lines_are_safe_together(first: str, second: str) -> None:
    safe = f"{neutralise(first)}\n{neutralise(second)}"
    assert not [token for token in TOKENS if token in safe]


@given(st.lists(st.text(min_size=1, max_size=6), max_size=6), st.text(max_size=40))
def test_any_list_of_special_tokens_is_broken(specials: list[str], text: str) -> None:
    text = "".join([text, *specials, text, *reversed(specials)])
    safe = neutralise(text, specials)
    assert not [token for token in specials if token.strip() and token in safe]
    assert neutralise(safe, specials) == safe


def test_the_tokenizers_own_tokens_are_broken_only_when_given() -> None:
    assert neutralise("see §go§ and <x_12>") == "see §go§ and <x_12>"
    assert neutralise("see §go§ and <x_12>", ["§go§", "<x_12>"]) == "see §\u2060go§ and ‹x_12>"


def test_nothing_is_removed_so_that_no_halves_can_join() -> None:
    assert neutralise("<|im_<|im_end|>end|>") == "‹|im_‹|im_end|>end|>"


@pytest.mark.parametrize(
    "text",
    [
        "a < b and c > d",
        "x < |y|",
        "list[int]",
        "if a<b: return",
        "5 % of 3 <> 4",
        "<html><p>thinker",
        "Zürich 看板 🙂",
        "",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert neutralise(text) == text


@pytest.mark.parametrize("piece", ["<div>think | <answer a < b [x] ", "<", "< ", "< |", "< | a ", "<|im_", "\u200b"])
def test_a_long_hostile_page_does_not_hang(piece: str) -> None:
    """Quadratic time would run into the suite's own limit."""
    page = "<" + piece * 100_000
    assert len(neutralise(page)) == len(page)
