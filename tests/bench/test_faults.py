"""Each dependency fails in mid-run, over a real connection: no wrong score, right denominators and exit codes, and a
resumption that ends as if nothing had happened. In health every question comes out right, so `wrong` must stay 0."""

import json
import threading

import pytest

from tests.bench.world import OnePassage, settings
from tests.fakes.openai_server import FakeOpenAI, Fault
from vlagent.agent.config import AgentConfig
from vlagent.agent.loop import Agent
from vlagent.bench.evaluate import evaluate
from vlagent.chat.http import HttpChat, HttpOptions
from vlagent.cli.main import main
from vlagent.errors import TransientError
from vlagent.files import read_records
from vlagent.rewards.judge import Judge
from vlagent.rewards.opinions import OPINIONS
from vlagent.search.base import SearchServices
from vlagent.tools.base import RetryPolicy
from vlagent.tools.registry import make_tools
from vlagent.types import EvalRow, Sample

COUNT = 12
FAULTS = {
    "429": Fault("429", retry_after_s=0.01),
    "500": Fault("500"),
    "503": Fault("503", retry_after_s=0.01),
    "hang": Fault("hang", hang_s=4.0),
    "reset": Fault("reset"),
    "no JSON": Fault("garbage"),
    "HTML": Fault("wrong_type"),
    "half an answer": Fault("truncated"),
    "no choice": Fault("empty"),
}


def samples():
    return [Sample(id=f"q{n}", source="cities", question=f"Which city, {n}?", answers=("Paris",)) for n in range(COUNT)]


def traveller(messages, images, body):
    """Searches once where it may; every other answer needs a judge."""
    said = [message for message in messages if message["role"] == "assistant"]
    if "text_search" in str(messages[0]["content"]) and not said:
        return '<think>t</think><tool_call>{"name": "text_search", "arguments": {"query": "city"}}</tool_call>'
    number = int("".join(c for c in str(messages[1 if len(messages) > 1 else 0]["content"]) if c.isdigit()) or 0)
    return f"<think>t</think><answer>{'Paris' if number % 2 else 'the French capital'}</answer>"


def yes(messages, images, body):
    return "VERDICT: YES"


def dying(brain, server_of, after):
    """The brain of a server that is killed with its connections after so many answers."""
    calls = []

    def think(messages, images, body):
        calls.append(1)
        if len(calls) == after:
            server_of().always = Fault("reset")  # connections that are open already
            threading.Thread(target=server_of().close).start()
        return brain(messages, images, body)

    return think


def chat(server, **changes):
    options = {"base_url": server.base_url, "attempts": 3, "wait_s": 0.005, "timeout_s": 1.0, **changes}
    return HttpChat(server.model, HttpOptions(**options))


@pytest.fixture(autouse=True)
def key(monkeypatch):
    for name in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "LLM_JUDGE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VLAGENT_API_KEY", "sk-fake-0123456789")


async def play(run, model, judge, search=None, workflow="direct", **changes):
    services = SearchServices(text=search or OnePassage())
    tools = make_tools(["text_search"]) if workflow == "agent" else {}
    config = AgentConfig(workflow=workflow, tools=("text_search",))
    agent = Agent(chat(model), config, tools, services, retry=RetryPolicy(attempts=1))
    marker = Judge(chat(judge), log=run / OPINIONS)
    options = {"model": "m", "judge_model": "j", "max_failed_share": 1.0, "concurrency": 4, **changes}
    result = await evaluate(settings(agent, **options), agent, samples(), run, marker)
    await agent.model.aclose()
    await marker.model.aclose()
    check(result.summary.counts, run)
    return result


def check(counts, run):
    """What must hold whatever failed."""
    assert counts.wrong == 0
    assert counts.right + counts.wrong + counts.unscored + counts.failed == counts.total
    assert counts.total + counts.pending + counts.not_counted == counts.planned == COUNT
    assert counts.scored == counts.right
    assert counts.accuracy in (None, 1.0)
    rows = list(read_records(run / "rows.jsonl", EvalRow))
    assert all(row.reward is None for row in rows if row.outcome == "failed")


@pytest.mark.parametrize("kind", FAULTS)
async def test_what_passes_after_a_while_is_waited_out(tmp_path, kind):
    with FakeOpenAI(traveller) as model, FakeOpenAI(yes, model="fake-judge") as judge:
        model.faults.extend([FAULTS[kind]] * 2)
        judge.faults.extend([FAULTS[kind]] * 2)
        result = await play(tmp_path, model, judge)
    assert (result.ended, result.summary.counts.right) == ("complete", COUNT)


@pytest.mark.parametrize("broken", ["model", "judge"])
@pytest.mark.parametrize("kind", ["429", "500", "hang", "HTML"])
async def test_what_stays_broken_is_failed_and_a_resumption_completes_it(tmp_path, broken, kind):
    with FakeOpenAI(traveller) as model, FakeOpenAI(yes, model="fake-judge") as judge:
        server = model if broken == "model" else judge
        server.always = FAULTS[kind]
        result = await play(tmp_path, model, judge)
        assert result.summary.counts.failed == (COUNT if broken == "model" else COUNT // 2)
        server.always = None
        asked = len(model.seen)
        result = await play(tmp_path, model, judge)
        assert (result.ended, result.summary.counts.right, result.summary.counts.failed) == ("complete", COUNT, 0)
        if broken == "judge":
            assert len(model.seen) == asked


@pytest.mark.parametrize("broken", ["model", "judge"])
async def test_a_server_that_is_killed_in_mid_run_loses_only_what_was_not_answered(tmp_path, broken):
    servers = {}
    brains = {"model": traveller, "judge": yes}
    brains[broken] = dying(brains[broken], lambda: servers[broken], after=3)
    with FakeOpenAI(brains["model"]) as model, FakeOpenAI(brains["judge"], model="fake-judge") as judge:
        servers |= {"model": model, "judge": judge}
        result = await play(tmp_path, model, judge)
    counts = result.summary.counts
    assert counts.failed > 0
    assert counts.right > 0
    with FakeOpenAI(traveller) as model, FakeOpenAI(yes, model="fake-judge") as judge:
        result = await play(tmp_path, model, judge)
        assert (result.ended, result.summary.counts.right) == ("complete", COUNT)
        if broken == "judge":
            assert model.seen == []


@pytest.mark.parametrize("kind", [Fault("empty"), Fault("garbage")])
async def test_a_judge_that_talks_nonsense_is_no_verdict_or_a_failure_and_never_a_no(tmp_path, kind):
    def mumbles(messages, images, body):
        return "Perhaps."

    with FakeOpenAI(traveller) as model, FakeOpenAI(mumbles, model="fake-judge") as judge:
        counts = (await play(tmp_path / "mumbles", model, judge)).summary.counts
        assert (counts.unscored, counts.right, counts.scored) == (COUNT // 2, COUNT // 2, COUNT // 2)
        judge.always = kind
        counts = (await play(tmp_path / "broken", model, judge)).summary.counts
        assert (counts.failed, counts.unscored) == (COUNT // 2, 0)


class Dying(OnePassage):
    """A search that is killed after a number of queries."""

    def __init__(self, after):
        super().__init__()
        self.left = after

    async def search(self, query):
        self.left -= 1
        if self.left < 0:
            raise TransientError("search", "connection refused")
        return await super().search(query)


async def test_a_search_that_dies_marks_the_rest_as_degraded(tmp_path):
    with FakeOpenAI(traveller) as model, FakeOpenAI(yes, model="fake-judge") as judge:
        result = await play(tmp_path, model, judge, search=Dying(5), workflow="agent")
    counts, behaviour = result.summary.counts, result.summary.suites["cities"].behaviour
    assert (counts.right, counts.degraded) == (COUNT, COUNT - 5)
    assert (behaviour.services["text_search"].total, behaviour.services["text_search"].ok) == (COUNT, 5)
    assert behaviour.world_faults == {"text_search": COUNT - 5}


async def test_a_model_that_keeps_asking_a_dead_search_ends_failed_and_is_played_again(tmp_path):
    def stubborn(messages, images, body):
        if "unavailable" in json.dumps(messages) or not any(m["role"] == "assistant" for m in messages):
            return '<think>t</think><tool_call>{"name": "text_search", "arguments": {"query": "city"}}</tool_call>'
        return "<think>t</think><answer>Paris</answer>"

    with FakeOpenAI(stubborn) as model, FakeOpenAI(yes, model="fake-judge") as judge:
        result = await play(tmp_path, model, judge, search=Dying(4), workflow="agent")
        assert (result.summary.counts.right, result.summary.counts.failed) == (4, COUNT - 4)
        result = await play(tmp_path, model, judge, workflow="agent")
    assert (result.ended, result.summary.counts.right) == ("complete", COUNT)


def test_the_verb_says_3_where_too_much_failed_and_0_once_it_is_whole(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [{"id": each.id, "question": each.question, "answer": "Paris"} for each in samples()]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with FakeOpenAI(traveller) as model, FakeOpenAI(yes, model="fake-judge") as judge:
        words = ["--base-url", model.base_url, "--judge-base-url", judge.base_url, "--attempts", "1"]
        start = ["eval", "rows.jsonl", "--model", "fake-vlm", "--judge-model", "fake-judge", "--workflow", "direct"]
        for broken in (judge, model):
            broken.always = Fault("500")
            assert main([*start, *words, "--run", f"run-{broken.model}"]) == 3
            said = capsys.readouterr().err
            assert "episodes failed" in said
            assert f"go on with: vlagent eval --resume run-{broken.model}" in said
            broken.always = None
            assert main(["eval", "--resume", f"run-{broken.model}", *words]) == 0
            counts = json.loads((tmp_path / f"run-{broken.model}" / "summary.json").read_text())["counts"]
            assert (counts["right"], counts["failed"], counts["wrong"], counts["pending"]) == (COUNT, 0, 0, 0)
