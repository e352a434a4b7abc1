"""A run folder under attack: killed before any of its writes, full, shared, not writable."""

import asyncio
import os
import resource
import sys
from pathlib import Path

import pytest

from tests.bench.test_evaluate import without_timing
from tests.bench.world import Adder, questions, run_here
from vlagent.errors import ServiceError, UserError
from vlagent.files import append_jsonl, iter_jsonl, only_writer, read_json, read_records
from vlagent.types import Sample, Trajectory

COUNT = 3
DIED = 9


def evaluation(run):
    return asyncio.run(run_here(run, questions(COUNT), k=1, concurrency=2, workflow="agent"))


def in_child(work):
    """Exit code of a fork that does some work; a `ServiceError` is 3, a `UserError` 2, anything else 1."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        work()
        code = 0
    except UserError:
        code = 2
    except ServiceError:
        code = 3
    finally:
        os._exit(code)


def die_before_write(run, number):
    """Leave at once, as kill -9 would, before the numbered file operation below the run folder."""
    seen = 0

    def hook(event, args):
        nonlocal seen
        if event not in ("open", "os.rename", "os.truncate", "os.mkdir", "os.remove"):
            return
        if any(isinstance(each, str | Path) and str(run) in str(each) for each in args):
            seen += 1
            if seen == number:
                os._exit(DIED)

    sys.addaudithook(hook)


def test_a_kill_before_any_file_operation_changes_nothing_in_the_result(tmp_path):
    evaluation(tmp_path / "whole")
    before = without_timing(tmp_path / "whole")
    kills = 0
    for number in range(1, 200):
        run = tmp_path / f"run-{number}"

        def attempt(run=run, number=number):
            die_before_write(run, number)
            evaluation(run)

        code = in_child(attempt)
        assert code in (0, DIED)
        kills += code == DIED
        evaluation(run)
        assert without_timing(run) == before, f"killed before operation {number}"
        if code == 0:
            break
    assert kills > 10


@pytest.mark.parametrize("size", [300, 1500, 4000, 9000])
def test_a_full_disk_is_one_error_and_what_was_written_is_gone_on_with(tmp_path, size):
    evaluation(tmp_path / "whole")
    run = tmp_path / "run"

    def attempt():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        evaluation(run)

    code = in_child(attempt)
    assert code == 3
    evaluation(run)
    assert without_timing(run) == without_timing(tmp_path / "whole")


def test_a_second_writer_is_refused_and_a_killed_one_leaves_no_lock(tmp_path):
    def die_with_lock():
        with only_writer(tmp_path):
            os._exit(DIED)

    assert in_child(die_with_lock) == DIED
    with only_writer(tmp_path):
        assert in_child(lambda: evaluation(tmp_path)) == 2
        with pytest.raises(UserError, match="another process"):
            evaluation(tmp_path)
    assert evaluation(tmp_path).ended == "complete"


def test_a_place_that_cannot_be_written_is_the_users_error(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="cannot be written"):
        evaluation(tmp_path / "file" / "run")
    with pytest.raises(UserError, match="cannot be written"):
        evaluation(tmp_path / "file")


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(UserError, match="something else"):
        evaluation(tmp_path)


def test_a_line_torn_within_a_letter_costs_only_itself(tmp_path):
    path = tmp_path / "rows.jsonl"
    append_jsonl(path, {"a": "é"}, {"a": "日本"})
    for cut in range(1, 12):
        torn = tmp_path / f"{cut}.jsonl"
        torn.write_bytes(path.read_bytes()[:-cut])
        assert list(iter_jsonl(torn, ours=True)) == [{"a": "é"}]
        append_jsonl(torn, {"a": "ü"})
        assert list(iter_jsonl(torn, ours=True)) == [{"a": "é"}, {"a": "ü"}]


@pytest.mark.parametrize(
    "content",
    [b'{"a": "\xe9"}', b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}", b"\0\0\0", b'{"a": 1', b"\xff\xfe{}"],
    ids=["latin-1", "deep", "huge number", "zeros", "half", "utf-16"],
)
def test_what_is_no_json_is_the_users_error_with_its_place(tmp_path, content):
    path = tmp_path / "x.json"
    path.write_bytes(content + b"\n")
    with pytest.raises(UserError, match=r"x\.json"):
        read_json(path)
    with pytest.raises(UserError, match=r"x\.json:1"):
        list(iter_jsonl(path))


def test_a_folder_in_the_place_of_a_file_is_the_users_error(tmp_path):
    with pytest.raises(UserError, match="is a directory"):
        read_json(tmp_path)
    with pytest.raises(UserError, match="is a directory"):
        list(iter_jsonl(tmp_path))


def test_half_an_emoji_is_read_as_a_question_mark_so_that_it_can_be_written(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": "a", "source": "s", "question": "x\\ud83d, \\ud83d\\ude00"}\n')
    (sample,) = read_records(path, Sample)
    assert sample.question == "x?, 😀"
    append_jsonl(path, sample)


def test_a_bug_beside_a_failure_keeps_its_traceback(tmp_path):
    class Broken(Adder):
        async def complete(self, request):
            raise ZeroDivisionError

    with pytest.raises(BaseExceptionGroup) as caught:
        asyncio.run(run_here(tmp_path, questions(2), Broken()))
    assert caught.group_contains(ZeroDivisionError)
    assert not list(read_records(tmp_path / "trajectories.jsonl", Trajectory))


def test_a_damaged_record_is_named_with_its_line_and_key(tmp_path):
    (tmp_path / "samples.jsonl").write_text('{"id": "a", "source": "s", "question": "q", "colour": "red"}\n')
    with pytest.raises(UserError, match=r"samples.jsonl: line 1 is no Sample: colour: "):
        list(read_records(tmp_path / "samples.jsonl", Sample))
