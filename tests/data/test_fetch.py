"""Fetching from a folder that is laid out like a hub, and failing without one."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from tests.bench.suites.items import KNOWLEDGE, PERCEPTION
from tests.bench.suites.published import hr_mmsearch_parquet, mmsearch, vstar_jsonl
from vlagent.bench.suites import SUITES, resolve_suites
from vlagent.cli.main import main
from vlagent.data.fetch import Wanted, fetch
from vlagent.errors import TransientError, UserError

CARD = "---\nconfigs:\n- config_name: {0}\n  data_files:\n  - split: {1}\n    path: {2}\n---\n"


@pytest.fixture
def hub(tmp_path):
    """What three owners have published."""
    made = tmp_path / "made"
    mmsearch(made, KNOWLEDGE)
    hr_mmsearch_parquet(made, KNOWLEDGE)
    vstar_jsonl(made, PERCEPTION)
    hub = tmp_path / "hub"
    shutil.copytree(made / "mmsearch", hub / "CaraJ" / "MMSearch")
    shutil.copytree(made / "HR-MMSearch", hub / "sensenova" / "HR-MMSearch")
    shutil.copytree(made / "vstar_bench", hub / "craigwu" / "vstar_bench")
    (hub / "CaraJ" / "MMSearch" / "README.md").write_text(CARD.format("end2end", "end2end", "end2end.parquet"))
    (hub / "sensenova" / "HR-MMSearch" / "README.md").write_text(CARD.format("default", "train", "data/train-*"))
    (hub / "craigwu" / "vstar_bench" / "stray.zip").write_text("x")
    return hub


def test_rows_are_fetched_by_split_with_the_pictures_as_published(tmp_path, hub):
    data = tmp_path / "data"
    assert main(["bench", "fetch", "mmsearch,hr_mmsearch", str(data), "--hub", str(hub)]) == 0
    for name in ("mmsearch", "hr_mmsearch"):
        (found,) = resolve_suites([name], data)
        samples = found.load(warn=lambda _: None)
        assert [sample.answers[0] for sample in samples] == [item.name for item in KNOWLEDGE]
        kept = [hashlib.sha256(Path(sample.images[0].path).read_bytes()).hexdigest() for sample in samples]
        assert kept == [hashlib.sha256(item.png()).hexdigest() for item in KNOWLEDGE]
    record = json.loads((data / "mmsearch" / "fetched.json").read_text())
    assert (record["repo"], record["revision"], record["rows"]) == ("CaraJ/MMSearch", None, len(KNOWLEDGE) + 1)
    digest = hashlib.sha256((data / "mmsearch" / "end2end.parquet").read_bytes()).hexdigest()
    assert record["files"] == {"end2end.parquet": digest}


def test_a_set_of_files_is_fetched_as_files_and_only_what_belongs_to_it(tmp_path, hub):
    data = tmp_path / "data"
    assert main(["bench", "fetch", "vstar", str(data), "--hub", str(hub)]) == 0
    assert len(resolve_suites(["vstar"], data)[0].load()) == len(PERCEPTION)
    assert not (data / "vstar" / "stray.zip").exists()


def test_fetching_again_gives_the_same_files(tmp_path, hub):
    wanted = Wanted("CaraJ/MMSearch", "end2end", "end2end", "end2end.parquet")
    first, second = (fetch(wanted, tmp_path / "data", hub=hub) for _ in range(2))
    assert first.files == second.files
    assert {path.name for path in (tmp_path / "data").iterdir()} == {"end2end.parquet", "fetched.json"}


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Wanted("nobody/nothing", split="test", target="t.parquet"), "no such folder; a local hub has OWNER/NAME"),
        (Wanted("CaraJ/MMSearch", "end2end", "nope", "t.parquet"), "nope"),
        (Wanted("CaraJ/MMSearch", "nope", "end2end", "t.parquet"), "nope"),
        (Wanted("craigwu/vstar_bench", files=("*.tsv",)), "it holds none of *.tsv"),
    ],
)
def test_what_the_hub_does_not_have_is_one_line(tmp_path, hub, wanted, said):
    with pytest.raises(UserError, match=r"^[^\n]*$") as caught:
        fetch(wanted, tmp_path / "data", hub=hub)
    assert said in str(caught.value)
    assert not (tmp_path / "data" / "fetched.json").exists()


def test_a_hub_that_cannot_be_reached_is_a_failed_service_and_not_the_users_mistake(tmp_path, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.HfApi.__init__", _at_port_nine)
    with pytest.raises(TransientError, match="CaraJ/MMSearch cannot be fetched"):
        fetch(Wanted("CaraJ/MMSearch", split="end2end", target="t.parquet"), tmp_path)
    assert main(["bench", "fetch", "mmsearch", str(tmp_path)]) == 3


def _at_port_nine(self, endpoint=None, token=None, **more):
    self.endpoint, self.token, self.headers = "http://127.0.0.1:9", None, None
    self.library_name = self.library_version = self.user_agent = None


def test_suites_that_are_on_no_hub_say_so(tmp_path, capsys):
    assert SUITES["infoseek"].hub is None
    assert main(["bench", "fetch", "infoseek", str(tmp_path)]) == 2
    assert "on no hub" in capsys.readouterr().err
    assert main(["bench", "fetch", "nope", str(tmp_path)]) == 2
