"""What an endpoint says, read into a reply."""

import pytest

from vlagent.chat.wire import read_reply
from vlagent.errors import TransientError


def reply(**call):
    message = {"content": None, "tool_calls": [{"function": {"name": "text_search", "arguments": "{}"}, **call}]}
    return read_reply("model", {"choices": [{"message": message, "finish_reason": "tool_calls"}]}, ())


def test_a_native_call_without_an_id_gets_one_that_its_result_can_name():
    for nothing in ({}, {"id": None}, {"id": ""}):
        (call,) = reply(**nothing).calls
        assert call.id.startswith("call_")
        assert reply(**nothing).calls == (call,)
    assert reply(id="c7").calls[0].id == "c7"


@pytest.mark.parametrize("reason", ["abort", "error", "cancelled"])
def test_an_answer_that_the_server_broke_off_is_its_failure_and_not_the_models(reason):
    body = {"choices": [{"message": {"content": "<think>half"}, "finish_reason": reason}]}
    with pytest.raises(TransientError, match=reason):
        read_reply("model", body, ())


def test_what_follows_a_stop_string_is_cut_and_the_reply_then_ended_by_it():
    message = {"content": "<answer>x</answer> and on and on"}
    body = {"choices": [{"message": message, "finish_reason": "length"}]}
    cut = read_reply("model", body, ("</tool_call>", "</answer>"))
    assert (cut.text, cut.finish_reason) == ("<answer>x", "stop")
    assert read_reply("model", body, ("</tool_call>",)).finish_reason == "length"
