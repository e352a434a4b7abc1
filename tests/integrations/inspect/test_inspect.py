"""Inspect runs our suites with its own mock model: from the command line, and with an observer behind it."""

from __future__ import annotations

import base64
import io
import math
import subprocess
import sys
from importlib.metadata import entry_points

import pytest
from PIL import Image

pytest.importorskip("inspect_ai")

from inspect_ai import eval as inspect_eval
from inspect_ai.log import EvalLog, list_eval_logs, read_eval_log
from inspect_ai.model import ContentImage, ModelOutput, ModelUsage, get_model
from inspect_ai.solver import generate

from tests.bench.suites import world
from tests.bench.suites.items import KNOWLEDGE, PERCEPTION, Item, items
from tests.bench.suites.published import hr_mmsearch_parquet, mmsearch, vstar_jsonl
from vlagent.bench.suites import SUITES
from vlagent.errors import UserError
from vlagent.integrations.inspect_ai import TASKS, agent

OFFLINE = """
import sys, inspect_ai.model._model as model
async def count(self, text): return len(text) // 4
model.ModelAPI.count_text_tokens = count  # the mock's own count needs a table from the network
from inspect_ai._cli.main import main
main()
"""


def output(text: str) -> ModelOutput:
    """With its usage, which the mock would otherwise count by a table from the network."""
    made = ModelOutput.from_content("mock", text)
    made.usage = ModelUsage(input_tokens=100, output_tokens=10, total_tokens=110)
    return made


def observer(asked: list[Item]):
    """The observer as Inspect's mock model; it sees the pictures as Inspect would send them."""

    def reply(input, tools, tool_choice, config):
        turn = sum(message.role == "assistant" for message in input)
        question = next(message for message in input if message.role == "user").text
        seen = [part for m in input if not isinstance(m.content, str) for part in m.content]
        pictures = [part.image for part in seen if isinstance(part, ContentImage)]
        crop = _picture(pictures[1]) if turn else None
        return output(world.write(asked, question, turn, crop, input[-1].text))

    return get_model("mockllm/model", custom_outputs=reply)


def _picture(url: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(url.partition("base64,")[2])))


def run(tmp_path, suite: str, model, **more) -> EvalLog:
    task_args = {"data": str(tmp_path), **more.pop("task_args", {})}
    given = {"log_dir": str(tmp_path / "logs"), "display": "none", "epochs": 1, **more}
    (log,) = inspect_eval(TASKS[suite](**task_args), model=model, **given)
    return log


def values(log: EvalLog) -> dict[int, object]:
    return {sample.metadata["vlagent"]["extra"]["question_id"]: _value(sample) for sample in log.samples}


def _value(sample):
    return next(iter(sample.scores.values())).value if sample.scores else None


def test_the_entry_point_offers_every_suite():
    (entry,) = [each for each in entry_points(group="inspect_ai") if each.name == "vlagent"]
    assert entry.value == "vlagent.integrations.inspect_ai"
    assert TASKS.keys() == SUITES.keys()


def test_the_command_runs_a_suite_with_the_mock_model(tmp_path):
    hr_mmsearch_parquet(tmp_path, KNOWLEDGE)
    words = ["eval", "vlagent/hr_mmsearch", "--model", "mockllm/model", "-T", f"data={tmp_path}", "--limit", "3"]
    command = [sys.executable, "-c", OFFLINE, *words, "--log-dir", "logs", "--display", "none"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    log = read_eval_log(list_eval_logs(str(tmp_path / "logs"))[0])
    assert (log.status, log.eval.task, len(log.samples)) == ("success", "vlagent/hr_mmsearch", 3)
    assert [_value(sample) for sample in log.samples] == ["I", "I", "I"]
    assert {next(iter(sample.scores.values())).metadata["stop"] for sample in log.samples} == {"invalid_actions"}


def test_our_agent_crops_and_our_rules_score_to_the_expected_value(tmp_path):
    asked = [item for item in PERCEPTION if item.plant != "down"]
    vstar_jsonl(tmp_path, asked)
    log = run(tmp_path, "vstar", observer(asked))
    assert log.status == "success"
    wanted = {item.number: "C" if item.plant == "right" else "I" for item in asked}
    assert values(log) == wanted
    assert log.results.scores[0].metrics["accuracy"].value == pytest.approx(4 / 6)
    assert log.samples[0].metadata["vlagent"]["source"] == "vstar"
    assert [message.role for message in log.samples[0].messages][-3:] == ["assistant", "user", "assistant"]


def test_an_endpoint_that_fails_is_an_error_of_the_sample_and_never_a_wrong_answer(tmp_path):
    vstar_jsonl(tmp_path, PERCEPTION)
    log = run(tmp_path, "vstar", observer(PERCEPTION), fail_on_error=False)
    wanted = {i.number: None if i.plant == "down" else "C" if i.plant == "right" else "I" for i in PERCEPTION}
    assert values(log) == wanted
    assert log.results.scores[0].metrics["accuracy"].value == pytest.approx(4 / 6)
    assert "the endpoint is down" in next(sample.error.message for sample in log.samples if sample.error)
    assert run(tmp_path, "vstar", observer(PERCEPTION)).status == "error"


def test_the_published_rollouts_are_the_epochs_and_questions_about_one_picture_a_cluster(tmp_path):
    asked = items("rl")
    vstar_jsonl(tmp_path, asked)
    questions = tmp_path / "vstar_bench" / "test_questions.jsonl"
    questions.write_text(questions.read_text() * 2)
    log = run(tmp_path, "vstar", observer(asked), epochs=None)
    assert log.eval.config.epochs == 8
    assert len({sample.metadata["pictures"] for sample in log.samples}) == 2
    # two clusters at 1 and 0: as sure as two questions, not as four
    assert log.results.scores[0].metrics["stderr"].value == pytest.approx(0.5, rel=0.45)


def test_a_judge_of_inspect_marks_open_answers_and_its_silence_is_unscored(tmp_path):
    mmsearch(tmp_path, KNOWLEDGE[:2])
    said = {"Aldon Reach": "VERDICT: YES", "Birmal Hill": "I cannot tell."}

    def judge(input, tools, tool_choice, config):
        return output(
            next(verdict for name, verdict in said.items() if name in input[-1].text or name in input[1].text)
        )

    policy = get_model("mockllm/model", custom_outputs=lambda *_: output("<think>t</think><answer>So-so</answer>"))
    grader = get_model("mockllm/model", custom_outputs=judge)
    arguments = {"workflow": "direct", "judge": "grader"}
    log = run(tmp_path, "mmsearch", policy, task_args=arguments, model_roles={"grader": grader})
    found = [_value(sample) for sample in log.samples]
    assert found[0] == "C"
    assert math.isnan(found[1])
    assert log.results.scores[0].metrics["accuracy"].value == 1.0


def test_our_scorer_takes_the_answers_of_another_solver(tmp_path):
    asked = items("rr")
    vstar_jsonl(tmp_path, asked)
    said = iter([output(asked[0].letter), output("I do not know")])
    log = run(tmp_path, "vstar", get_model("mockllm/model", custom_outputs=said), solver=generate(), max_connections=1)
    assert sorted(values(log).values()) == ["C", "I"]


def test_the_native_dialect_is_refused_in_one_line():
    with pytest.raises(UserError, match="dialects that write their calls as text"):
        agent(dialect="openai-tools")
