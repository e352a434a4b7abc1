"""The rules of one episode."""

from __future__ import annotations

from tests.agent.parts import (
    Cut,
    Peek,
    Policy,
    Shelf,
    Twins,
    answer,
    call,
    last_text,
    lines,
    make_agent,
    picture,
    sample,
)
from vlagent.agent.events import Ended, Event, Observed, Started, Wrote
from vlagent.agent.loop import run_agent
from vlagent.chat.base import ChatReply
from vlagent.errors import PermanentError
from vlagent.types import Fault, StopReason, Usage

SEARCH = call("text_search", query="castore")


async def test_a_model_that_reads_the_result_answers_from_it_and_names_its_source():
    def read(request):
        found = last_text(request).partition("founded in ")[2][:4]
        return answer(found) if found else SEARCH

    trajectory = await run_agent(make_agent(Policy(read), Shelf()), sample())
    assert (trajectory.stop, trajectory.answer) == (StopReason.ANSWERED, "2015")
    assert [source.file for source in trajectory.sources] == ["castore.txt"]
    assert [turn.format_ok for turn in trajectory.turns] == [True, True]
    assert not trajectory.degraded


async def test_events_come_in_order_and_end_once():
    seen: list[Event] = []
    model = Policy(lines(SEARCH, "nonsense", answer("2015")))
    trajectory = await run_agent(make_agent(model, Shelf(), watch=seen.append), sample("x"), 3)
    assert [type(event) for event in seen] == [Started, Wrote, Observed, Wrote, Observed, Wrote, Ended]
    assert [event.index for event in seen] == [0, 0, 0, 1, 1, 2, 3]
    assert {(event.sample_id, event.rollout) for event in seen} == {("x", 3)}
    assert seen[-1].trajectory is trajectory


async def test_the_turn_limit_ends_without_running_the_last_call():
    shelf = Shelf()
    trajectory = await run_agent(make_agent(Policy(lines(SEARCH)), shelf, max_turns=3), sample())
    assert trajectory.stop is StopReason.TURN_LIMIT
    assert (len(trajectory.turns), len(shelf.runs)) == (3, 2)
    assert trajectory.turns[-1].observation is None


async def test_one_turn_before_the_limit_the_model_is_told_unless_switched_off():
    def obeys(request):
        return answer("told") if "last one" in last_text(request) else SEARCH

    told = await run_agent(make_agent(Policy(obeys), Shelf(), max_turns=4), sample())
    silent = await run_agent(make_agent(Policy(obeys), Shelf(), max_turns=4, warn_last_turn=False), sample())
    assert (told.stop, len(told.turns)) == (StopReason.ANSWERED, 4)
    assert (silent.stop, len(silent.turns)) == (StopReason.TURN_LIMIT, 4)
    assert "last one" in told.turns[2].observation.text


async def test_invalid_actions_in_a_row_end_the_episode_and_a_valid_call_resets_the_count():
    wrong = call("fly")
    ended = await run_agent(make_agent(Policy(lines(wrong)), Shelf()), sample())
    assert (ended.stop, len(ended.turns)) == (StopReason.INVALID_ACTIONS, 3)
    assert {turn.observation.fault for turn in ended.turns} == {Fault.MODEL}
    mended = await run_agent(
        make_agent(Policy(lines(wrong, wrong, SEARCH, wrong, wrong, answer("x"))), Shelf()), sample()
    )
    assert mended.stop is StopReason.ANSWERED
    patient = await run_agent(make_agent(Policy(lines(wrong)), Shelf(), max_invalid=5), sample())
    assert len(patient.turns) == 5


async def test_a_call_that_its_tool_refuses_is_the_models_fault_and_counts():
    model = Policy(lines(call("text_search", query="forbidden")))
    trajectory = await run_agent(make_agent(model, Shelf(), max_invalid=2), sample())
    assert (trajectory.stop, len(trajectory.turns)) == (StopReason.INVALID_ACTIONS, 2)
    assert "not allowed" in trajectory.turns[0].observation.text
    assert not trajectory.degraded


async def test_a_turn_cut_by_its_own_limit_is_invalid_and_the_episode_goes_on():
    cut = ChatReply("<think>long", finish_reason="length")
    trajectory = await run_agent(make_agent(Policy(lines(cut, answer("x"))), Shelf()), sample())
    assert trajectory.stop is StopReason.ANSWERED
    assert trajectory.turns[0].observation.fault is Fault.MODEL
    wrong = await run_agent(make_agent(Policy(lines("<think>long", answer("x"))), Shelf()), sample())
    assert trajectory.turns[0].error != wrong.turns[0].error


async def test_the_tokens_of_a_turn_are_limited_by_the_turn_and_by_what_is_left():
    model = Policy(lines(ChatReply(SEARCH, usage=Usage(prompt_tokens=1200, completion_tokens=100)), answer("x")))
    await run_agent(make_agent(model, Shelf(), max_tokens_turn=300, max_tokens_total=1500), sample())
    first, second = (request.sampling.max_tokens for request in model.requests)
    assert first == 300
    assert 100 < second < 200  # 1500 - 1300 counted - the estimated observation


async def test_a_turn_cut_by_the_trajectory_limit_ends_the_episode():
    model = Policy(lines(ChatReply("<think>long", finish_reason="length", usage=Usage(prompt_tokens=900))))
    trajectory = await run_agent(make_agent(model, Shelf(), max_tokens_turn=5000, max_tokens_total=4000), sample())
    assert (trajectory.stop, len(trajectory.turns)) == (StopReason.TOKEN_LIMIT, 1)
    assert "counted by the model" in trajectory.stop_detail


async def test_an_observation_that_does_not_fit_is_replaced_by_one_line_that_asks_for_the_answer():
    def obeys(request):
        return answer("now") if "too long" in last_text(request) else SEARCH

    shelf = Shelf({"castore": "many words " * 2000})
    trajectory = await run_agent(make_agent(Policy(obeys), shelf, max_tokens_total=4000), sample())
    assert (trajectory.stop, trajectory.answer) == (StopReason.ANSWERED, "now")
    assert (trajectory.sources, trajectory.turns[0].observation.hits) == ((), ())
    roomy = await run_agent(make_agent(Policy(obeys), shelf, max_turns=2), sample())
    assert "many words" in roomy.turns[0].observation.text


async def test_an_episode_without_room_for_even_that_line_ends():
    model = Policy(lines(ChatReply(SEARCH, usage=Usage(prompt_tokens=3880, completion_tokens=40))))
    trajectory = await run_agent(make_agent(model, Shelf(), max_tokens_total=4000), sample())
    assert (trajectory.stop, len(trajectory.turns)) == (StopReason.TOKEN_LIMIT, 1)
    assert trajectory.turns[0].observation is not None


async def test_a_prompt_that_does_not_fit_never_reaches_the_model(tmp_path):
    model = Policy(lines(answer("x")))
    huge = sample(images=(picture(tmp_path, size=(3000, 2000)),))
    trajectory = await run_agent(make_agent(model, Cut(), max_tokens_total=4000), huge)
    assert (trajectory.stop, model.requests) == (StopReason.TOKEN_LIMIT, [])
    assert "estimated" in trajectory.stop_detail
    assert (await run_agent(make_agent(model, Cut(), max_tokens_total=9000), huge)).answer == "x"


async def test_the_budget_ends_the_episode_before_the_next_call_but_not_an_answer():
    dear = Usage(cost_usd=0.6)
    shelf = Shelf()
    model = Policy(lines(ChatReply(SEARCH, usage=dear)))
    ended = await run_agent(make_agent(model, shelf, budget_usd=1.0), sample())
    assert (ended.stop, len(ended.turns), len(shelf.runs)) == (StopReason.BUDGET_LIMIT, 2, 1)
    assert ended.usage.cost_usd == 1.2
    answered = Policy(lines(ChatReply(SEARCH, usage=dear), ChatReply(answer("x"), usage=dear)))
    assert (await run_agent(make_agent(answered, Shelf(), budget_usd=1.0), sample())).stop is StopReason.ANSWERED


async def test_the_time_limit_ends_a_model_and_a_tool_that_hang():
    slow_model = Policy(lines(answer("x")), wait_s=30)
    first = await run_agent(make_agent(slow_model, Shelf(), time_limit_s=0.05), sample())
    assert (first.stop, first.turns) == (StopReason.TIME_LIMIT, ())
    shelf = Shelf()
    shelf.wait_s = 30
    second = await run_agent(make_agent(Policy(lines(SEARCH)), shelf, time_limit_s=0.05), sample())
    assert (second.stop, len(second.turns)) == (StopReason.TIME_LIMIT, 1)
    assert second.turns[0].observation is None


async def test_a_model_failure_is_never_a_wrong_answer():
    model = Policy(lines(SEARCH, PermanentError("chat", "500 for ever")))
    trajectory = await run_agent(make_agent(model, Shelf()), sample())
    assert (trajectory.stop, len(trajectory.turns)) == (StopReason.MODEL_FAILURE, 1)
    assert "500 for ever" in trajectory.stop_detail
    timed_out = await run_agent(make_agent(Policy(lines(TimeoutError())), Shelf()), sample())
    assert timed_out.stop is StopReason.MODEL_FAILURE


async def test_a_reply_cut_by_a_content_filter_is_a_failure_and_not_the_models_fault():
    model = Policy(lines(ChatReply("<think>I", finish_reason="content_filter")))
    trajectory = await run_agent(make_agent(model, Shelf()), sample())
    assert trajectory.stop is StopReason.MODEL_FAILURE
    assert trajectory.turns[0].observation is None


async def test_every_request_carries_its_own_key_and_the_sampling_of_the_configuration():
    model = Policy(lines(SEARCH, answer("x")))
    config = {"seed": 7, "sampling": {"temperature": 0.7, "top_p": 0.8}}
    await run_agent(make_agent(model, Shelf(), **config), sample("q"), 2)
    assert [request.key for request in model.requests] == [(7, "q", 2, 0), (7, "q", 2, 1)]
    assert {(r.sampling.temperature, r.sampling.top_p) for r in model.requests} == {(0.7, 0.8)}


async def test_nested_crops_and_thumbnails_are_numbered_in_order_of_entry(tmp_path):
    box = [500, 500, 1000, 1000]
    script = lines(
        call("image_crop", bbox=box, image_index=0),
        call("image_search", image_index=1),
        call("image_crop", bbox=box, image_index=1),
        call("image_crop", bbox=[0, 0, 500, 500], image_index=2),
        answer("x"),
    )
    photo, thumbnail = picture(tmp_path, size=(1600, 1200)), picture(tmp_path, "thumb.png", (100, 80))
    model, twins = Policy(script), Twins(thumbnail)
    trajectory = await run_agent(make_agent(model, Cut(), twins), sample(images=(photo,)))
    assert trajectory.stop is StopReason.ANSWERED
    assert [ref.box for ref in trajectory.images] == [
        None,
        (800, 600, 1600, 1200),
        None,
        (1200, 900, 1600, 1200),
        (0, 0, 50, 40),
    ]
    assert twins.searched == [trajectory.images[1]]
    sent = [part.ref for message in model.requests[-1].messages for part in message.images]
    assert sent == list(trajectory.images)
    assert "Image 4" in last_text(model.requests[-1])


async def test_pictures_are_shown_within_the_limits_of_the_configuration(tmp_path):
    photo = picture(tmp_path, size=(640, 480))
    zoom = call("image_crop", bbox=[0, 0, 100, 100], image_index=0)
    wide = {"factor": 32, "min_pixels": 65_536, "max_pixels": 262_144}
    tiny = {"factor": 16, "min_pixels": 4_608, "max_pixels": 9_216}
    for pixels in (wide, tiny):
        model = Policy(lines(zoom, answer("x")))
        await run_agent(make_agent(model, Cut(), pixels=pixels), sample(images=(photo,)))
        views = [part.view for message in model.requests[-1].messages for part in message.images]
        assert len(views) == 2
        assert all(side % pixels["factor"] == 0 for view in views for side in view)
        assert all(pixels["min_pixels"] <= w * h <= pixels["max_pixels"] for w, h in views)


async def test_usage_is_summed_and_the_prompt_is_kept():
    used = Usage(prompt_tokens=10, completion_tokens=5, cost_usd=0.25)
    model = Policy(lines(ChatReply(SEARCH, usage=used), ChatReply(answer("x"), usage=used)))
    trajectory = await run_agent(make_agent(model, Shelf()), sample())
    assert trajectory.usage == Usage(prompt_tokens=20, completion_tokens=10, cost_usd=0.5, calls=2)
    assert "When was it founded?" in trajectory.prompt
    assert "text_search" in trajectory.system_prompt
    assert trajectory.timings.total_s >= trajectory.timings.model_s > 0


async def test_a_tool_sees_the_run_it_works_in(tmp_path):
    photo, peek = picture(tmp_path, size=(640, 480)), Peek()
    model = Policy(lines(call("peek"), SEARCH, call("peek"), answer("x")))
    tiny = {"factor": 16, "min_pixels": 4_608, "max_pixels": 9_216}
    config = {"crop_source": "view", "pixels": tiny, "folder": tmp_path}
    await run_agent(make_agent(model, Shelf(), peek, **config), sample(images=(photo,)))
    first, second = peek.seen
    assert (first.crop_source, first.min_pixels, first.folder, first.images) == ("view", 4_608, tmp_path, [photo])
    assert first.views == [model.requests[0].messages[-1].images[0].view]
    assert [[hit.source.title for hit in seen.hits] for seen in (first, second)] == [[], ["castore"]]


async def test_a_model_that_counts_tokens_is_believed_rather_than_the_estimate():
    class Counting(Policy):
        def count_tokens(self, text):
            return 10 * len(text)

    asked = {"max_tokens_total": 8000, "max_tokens_turn": 500}
    assert (await run_agent(make_agent(Policy(lines(answer("x"))), Shelf(), **asked), sample())).answer == "x"
    counted = await run_agent(make_agent(Counting(lines(answer("x"))), Shelf(), **asked), sample())
    assert counted.stop is StopReason.TOKEN_LIMIT


async def test_native_tool_schemas_count_towards_the_tokens():
    asked = {"dialect": "openai-tools", "max_tokens_total": 4000, "max_tokens_turn": 500}
    short = await run_agent(make_agent(Policy(lines("x")), Peek(), **asked), sample())
    long = await run_agent(make_agent(Policy(lines("x")), Peek("very long " * 2000), **asked), sample())
    assert (short.answer, long.stop) == ("x", StopReason.TOKEN_LIMIT)
