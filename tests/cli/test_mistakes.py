"""Every wrong value of every option, and every broken file, is one line and exit code 2."""

import json

import pytest

from tests.data.files import row, write_picture, write_rows
from vlagent.bench.runs import read_samples
from vlagent.cli.main import main

ESCAPE = "\x1b]0;owned\x07\x1b[31mred"
EVAL = """--workflow x|--dialect x|--k 0|--k x|--limit 0|--limit -3|--concurrency 0|--model-limit 0|--tool-limit x
--tool-limit image_crop=0|--tool-limit image_crop=²|--tool-limit nope=3|--max-failed-share 2|--max-failed-share nan
--temperature -1|--temperature nan|--temperature inf|--top-k 0|--top-k 99|--seed x|--pixels x|--crop-source x
--prompts nope.toml|--prompts .|--preset x|--search nope|--tools nope|--tools image_crop,image_crop|--max-turns 0
--time-limit 0|--time-limit nan|--time-limit inf|--run photo.png|--run photo.png/x|--run .|--resume nope|--resume .
--judge-model scripted:nope|--judge-model toy:oracle|--nope|--model scripted:nope|--model toy:nope"""
ASK = """--workflow x|--workflow rag|--attempts x|--dialect x|--search nope|--tools nope|--max-turns 0|--time-limit -1
--time-limit nan|--temperature -1|--temperature nan|--prompts nope|--run photo.png|--run photo.png/x|--nope"""
OTHERS = """compare|compare nope|compare nope nope|compare . .|report|report nope|report photo.png|report .
demo --per-kind 0|demo --per-kind x|demo --seed x|demo --folder photo.png|doctor --nope|nope|ask|ask photo.png
ask nope.png q|ask . q|ask script.json q|ask photo.png photo.png|eval|eval nope.jsonl
eval mmsearch|eval .|eval photo.png"""


def cases(text):
    return [tuple(case.split()) for line in text.splitlines() for case in line.split("|")]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("VLAGENT_DATA", "LLM_JUDGE_URL"):
        monkeypatch.delenv(name, raising=False)
    write_picture(tmp_path / "photo.png")
    write_rows(tmp_path / "rows.jsonl", row(image="photo.png"))
    (tmp_path / "script.json").write_text('["<think>t</think><answer>x</answer>"]')
    return tmp_path


def refused(capsys, *words):
    """The one line that a mistake earns."""
    assert main(list(words)) == 2
    said = capsys.readouterr()
    assert said.out == "" or words[0] == "demo"
    assert said.err.startswith("vlagent: ")
    assert said.err.count("\n") == 1
    assert said.err.isprintable() or said.err[:-1].isprintable()
    return said.err


@pytest.mark.parametrize("options", cases(EVAL), ids=" ".join)
def test_a_wrong_option_of_eval(capsys, options):
    run = () if {"--run", "--resume"} & set(options) else ("--run", "run")
    model = () if "--model" in options else ("--model", "scripted:script.json")
    target = () if "--resume" in options else ("rows.jsonl",)
    assert options[-1].lstrip("-").split("=")[0][-4:] in refused(capsys, "eval", *target, *model, *run, *options)


@pytest.mark.parametrize("options", cases(ASK), ids=" ".join)
def test_a_wrong_option_of_ask(capsys, options):
    refused(capsys, "ask", "photo.png", "what?", "--model", "scripted:script.json", *options)


@pytest.mark.parametrize("words", cases(OTHERS), ids=" ".join)
def test_a_wrong_word_of_another_verb(capsys, words):
    model = ("--model", "scripted:script.json") if words[0] == "eval" else ()
    refused(capsys, *words, *model)


def test_no_verb_at_all(capsys):
    assert "--help" in refused(capsys)


@pytest.mark.parametrize(
    "words", [("ask", "caf\udce9.png", "q"), ("ask", "photo.png", "q\udcff"), ("report", "\udcff")]
)
def test_bytes_that_are_no_text_are_refused_before_anything_runs(capsys, words):
    assert "UTF-8" in refused(capsys, *words)


BROKEN = {
    "inf.json": '{"s": {"annotation": "rows.jsonl", "repeat_time": Infinity}}',
    "nan.json": '{"s": {"annotation": "rows.jsonl", "repeat_time": NaN}}',
    "huge.json": '{"s": {"annotation": "rows.jsonl", "repeat_time": 1e12}}',
    "length.json": '{"s": {"annotation": "rows.jsonl", "length": 1e999}}',
    "itself.json": '{"s": {"annotation": "itself.json"}}',
    "folder.json": '{"s": {"annotation": "."}}',
    "gone.json": '{"s": {"annotation": "gone.jsonl"}}',
    "value.json": '{"s": 5}',
    "name.json": json.dumps({ESCAPE: 5}),
    "list.json": "[]",
    "empty.json": "",
    "deep.json": "[" * 99_999,
    "number.json": "9" * 5000,
    "zeros.json": "\0\0",
    "empty.jsonl": "\n\n",
    "latin.jsonl": b'{"prompt": "\xe9"}',
    "deep.jsonl": "[" * 99_999,
    "prompt.jsonl": json.dumps(row(prompt=5)),
    "role.jsonl": json.dumps(row(prompt=[{"role": ESCAPE, "content": "q"}])),
    "image.jsonl": json.dumps(row(image=5)),
    "zero-path.jsonl": json.dumps(row(image="a\0.png")),
    "long-path.jsonl": json.dumps(row(image="a" * 5000)),
    "no-picture.jsonl": json.dumps(row(image="rows.jsonl")),
    "escape.jsonl": json.dumps(row(image=f"{ESCAPE}.png")),
    "truth.jsonl": json.dumps(row(reward_model={"ground_truth": {"a": 1}})),
    "choices.jsonl": json.dumps(row(choices={"AB": "x"})),
    "slots.jsonl": json.dumps(row(prompt="<image><image><image>q", image="photo.png")),
    "bytes.tsv": b"index\timage\tquestion\n1\t\xff\tq\n",
    "zero.tsv": "index\timage\tquestion\n1\t\0\tq\n",
    "columns.tsv": "index\timage\n1\tx\n",
    "broken.parquet": "PAR1",
    "thesis.txt": "x",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_of_questions(folder, capsys, name):
    content = BROKEN[name]
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(capsys, "eval", name, "--model", "scripted:script.json", "--run", "run")
    assert not (folder / "run" / "config.json").exists()


ODD = {
    "titles": row(image="photo.png", image_search_title_list=5),
    "thumbnails": row(image="photo.png", image_search_title_list=["a"], image_search_thumbnail_list=7),
    "id": row(image="photo.png", id=["a"]),
    "half an emoji": row(image="photo.png", prompt="q \ud83d", id="i\ud83d", extra_info={"kind": "k\ud83d"}),
    "escapes": row(image="photo.png", prompt=f"q {ESCAPE}", id=ESCAPE, extra_info={"kind": ESCAPE}),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_row_is_run_and_shown_without_control_characters(folder, capsys, name):
    (folder / "odd.jsonl").write_text(json.dumps(ODD[name]) + "\n" + json.dumps(row(image="photo.png", id="other")))
    (folder / "manifest.json").write_text(json.dumps({f"set {ESCAPE}": {"annotation": "odd.jsonl", "length": 9}}))
    command = ("eval", "manifest.json", "--model", "scripted:script.json", "--workflow", "direct")
    for run in ("one", "two"):
        assert main([*command, "--run", run]) == 0
    assert main(["compare", "one", "two"]) == 0
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
    assert "\x07" not in said.out + said.err
    assert len(read_samples(folder / "one")) == 2
