"""What an endpoint says, read into a reply."""

from vlagent.chat.wire import read_reply


def reply(**call):
    message = {"content": None, "tool_calls": [{"function": {"name": "text_search", "arguments": "{}"}, **call}]}
    return read_reply("model", {"choices": [{"message": message, "finish_reason": "tool_calls"}]}, ())


def test_a_native_call_without_an_id_gets_one_that_its_result_can_name():
    for nothing in ({}, {"id": None}, {"id": ""}):
        (call,) = reply(**nothing).calls
        assert call.id.startswith("call_")
        assert reply(**nothing).calls == (call,)
    assert reply(id="c7").calls[0].id == "c7"
