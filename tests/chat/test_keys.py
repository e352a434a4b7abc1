"""Keys come from the environment and are never in an address, which is kept with a run and shown."""

import pytest

from vlagent.chat.keys import without_keys
from vlagent.chat.open import open_chat
from vlagent.cli.main import main
from vlagent.errors import UserError

SECRET = "s3cr3t"
HOLDS_A_KEY = [
    f"http://user:{SECRET}@127.0.0.1:1/v1",
    f"http://{SECRET}@127.0.0.1:1/v1",
    f"htp://user:{SECRET}@127.0.0.1:1/v1",
    f"//user:{SECRET}@[::1",
    f"http://127.0.0.1:1/v1?key={SECRET}",
    f"http://127.0.0.1:1/v1?api-version=1&API-Key={SECRET}",
    f"http://127.0.0.1:1/v1?a=1&subscription-key={SECRET}#x",
    f"http://127.0.0.1:1/v1?access_token={SECRET}",
]


@pytest.mark.parametrize("url", HOLDS_A_KEY)
def test_an_address_that_holds_a_key_is_refused_without_showing_it(url):
    with pytest.raises(UserError, match="VLAGENT_API_KEY") as caught:
        open_chat("m", url)
    assert SECRET not in str(caught.value)
    assert SECRET not in without_keys(url)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/v1", "https://x.openai.azure.com?api-version=2024-10-21"])
def test_an_address_without_a_key_is_left_as_it_is(url, monkeypatch):
    monkeypatch.setenv("VLAGENT_API_KEY", "sk-1")
    assert without_keys(url) == url
    open_chat("m", url)


@pytest.mark.parametrize("url", [None, "https://api.openai.com/v1", "https://x.openai.azure.com?api-version=1"])
def test_a_provider_that_wants_a_key_is_sent_nothing_without_one(url, monkeypatch):
    for name in ("VLAGENT_API_KEY", "OPENAI_API_KEY", "AZURE_OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match=r"wants a key; set (OPENAI|AZURE_OPENAI)_API_KEY"):
        open_chat("m", url)
    open_chat("m", "http://127.0.0.1:8000/v1")


@pytest.mark.parametrize("url", HOLDS_A_KEY)
@pytest.mark.parametrize("more", [[], ["--offline"], ["--model", "m"]], ids=" ".join)
def test_no_verb_says_or_keeps_a_key(tmp_path, monkeypatch, capsys, url, more):
    from tests.data.files import row, write_picture, write_rows

    monkeypatch.chdir(tmp_path)
    write_picture(tmp_path / "photo.png")
    write_rows(tmp_path / "rows.jsonl", row(image="photo.png"))
    assert main(["ask", "photo.png", "q", "--base-url", url, *more]) == 2
    assert main(["eval", "rows.jsonl", "--run", "run", "--base-url", url, *more]) == 2
    assert main(["doctor", "--base-url", url]) == 2
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert kept == []
