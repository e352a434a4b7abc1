"""Every provider: what is asked, what is read, and what each refusal means."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.search.web import answers
from tests.search.web.answers import Network, always
from vlagent.errors import (
    AuthError,
    PermanentError,
    QuotaError,
    RateLimitedError,
    ServiceError,
    TransientError,
    UserError,
)
from vlagent.search.base import TextQuery
from vlagent.search.budget import Budget, BudgetConfig
from vlagent.search.web.base import ProviderConfig
from vlagent.search.web.providers import TEXT, TextProvider, open_provider

KEY = "sk-very-secret-0123456789"
BASE = {"searxng": "http://127.0.0.1:8888", "retrieval": "http://127.0.0.1:8001"}
ANSWERS: dict[str, Any] = {
    "serper": answers.SERPER,
    "searxng": answers.SEARXNG,
    "brave": answers.BRAVE,
    "tavily": answers.TAVILY,
    "retrieval": answers.RETRIEVAL,
}
QUERY = TextQuery(text="belmont tower", top_k=2)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VLAGENT_SERPER_KEY", "VLAGENT_BRAVE_KEY", "VLAGENT_TAVILY_KEY"):
        monkeypatch.setenv(name, KEY)


def opened(name: str, network: Network, budget: Budget | None = None, **config: Any) -> TextProvider:
    settings = {"base_url": BASE.get(name), "wait_s": 0.0, "attempts": 1} | config
    return open_provider(name, ProviderConfig.model_validate(settings), budget or Budget(), network)


@pytest.mark.parametrize("name", sorted(set(TEXT) - {"server"}))  # our own has its test beside the server's
async def test_every_provider_gives_the_same_two_hits(name: str) -> None:
    hits = await opened(name, always(200, ANSWERS[name])).search(QUERY)
    assert hits[0].source.title == "Belmont Tower"
    assert [hit.text for hit in hits] == ["Opened in 1931.", "A list."]
    if name != "retrieval":
        assert [hit.source.url for hit in hits] == ["https://one.example/a", "https://two.example/b"]


async def test_serper_is_asked_to_the_letter() -> None:
    network = always(200, answers.SERPER)
    await opened("serper", network, extra={"gl": "de"}).search(QUERY)
    assert str(network.last.url) == "https://google.serper.dev/search"
    assert network.last.headers["X-API-KEY"] == KEY
    assert network.body() == {"q": "belmont tower", "num": 10, "gl": "de"}


async def test_the_others_are_asked_to_the_letter() -> None:
    network = always(200, answers.BRAVE)
    await opened("brave", network).search(QUERY)
    assert network.last.url.path == "/res/v1/web/search"
    assert dict(network.last.url.params) == {"q": "belmont tower", "count": "10"}
    assert network.last.headers["X-Subscription-Token"] == KEY
    network = always(200, answers.TAVILY)
    await opened("tavily", network).search(QUERY)
    assert network.last.headers["Authorization"] == f"Bearer {KEY}"
    network = always(200, answers.SEARXNG)
    await opened("searxng", network).search(QUERY)
    assert dict(network.last.url.params) == {"q": "belmont tower", "format": "json"}
    network = always(200, answers.RETRIEVAL)
    await opened("retrieval", network, base_url="http://127.0.0.1:8001/retrieve").search(QUERY)
    assert network.last.url.path == "/retrieve"
    assert network.body() == {"queries": ["belmont tower"], "topk": 2, "return_scores": True}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("serper", {"organic": []}),
        ("serper", {"searchParameters": {}}),
        ("brave", {"type": "search"}),
        ("tavily", {"results": []}),
        ("searxng", {"results": []}),
        ("retrieval", {"result": [[]]}),
    ],
)
async def test_nothing_found_is_empty_and_not_failed(name: str, value: Any) -> None:
    assert await opened(name, always(200, value)).search(QUERY) == []


REFUSALS: list[tuple[str, int, Any, dict[str, str], type[ServiceError]]] = [
    ("serper", 403, {"message": "Unauthorized."}, {}, AuthError),
    ("serper", 400, {"message": "Not enough credits", "statusCode": 400}, {}, QuotaError),
    ("serper", 400, {"message": "Query is required"}, {}, PermanentError),
    ("serper", 429, {"message": "Too many requests"}, {"retry-after": "7"}, RateLimitedError),
    ("serper", 500, "oops", {}, TransientError),
    ("serper", 200, "<html>captive portal</html>", {}, TransientError),
    ("serper", 200, [1, 2], {}, TransientError),
    ("serper", 200, {"organic": "none"}, {}, TransientError),
    ("brave", 422, {"error": {"code": "SUBSCRIPTION_TOKEN_INVALID", "detail": "bad token"}}, {}, AuthError),
    ("brave", 429, {"error": {"code": "RATE_LIMITED"}}, {"x-ratelimit-reset": "1, 1419704"}, RateLimitedError),
    ("brave", 429, {"error": {"code": "QUOTA_LIMITED"}}, {}, QuotaError),
    ("tavily", 401, {"detail": {"error": "Unauthorized: missing or invalid API key."}}, {}, AuthError),
    ("tavily", 432, {"detail": {"error": "This request exceeds your plan's set usage limit."}}, {}, QuotaError),
    ("tavily", 433, {"detail": {"error": "exceeds the pay-as-you-go limit"}}, {}, QuotaError),
    ("searxng", 403, "Forbidden", {}, PermanentError),
    ("searxng", 200, {"results": [], "unresponsive_engines": [["google", "timeout"]]}, {}, TransientError),
    ("retrieval", 503, "busy", {"retry-after": "3"}, TransientError),
    ("retrieval", 200, {"result": [[{"document": {"id": "1"}}]]}, {}, TransientError),
]


@pytest.mark.parametrize(("name", "status", "body", "headers", "kind"), REFUSALS)
async def test_a_refusal_is_a_typed_error(
    name: str, status: int, body: Any, headers: dict[str, str], kind: type[ServiceError]
) -> None:
    with pytest.raises(ServiceError) as caught:
        await opened(name, always(status, body, headers)).search(QUERY)
    assert type(caught.value) is kind


async def test_a_pause_that_the_provider_asks_for_is_known() -> None:
    with pytest.raises(RateLimitedError) as caught:
        await opened("brave", always(429, {}, {"x-ratelimit-reset": "1, 1419704"})).search(QUERY)
    assert caught.value.retry_after_s == 1


async def test_what_may_pass_is_tried_again_and_what_may_not_is_not() -> None:
    stumbling = Network(lambda _: httpx.Response(503 if len(stumbling.requests) < 3 else 200, json=answers.SERPER))
    assert len(await opened("serper", stumbling, attempts=3).search(QUERY)) == 2
    assert len(stumbling.requests) == 3
    refusing = always(403, {"message": "Unauthorized."})
    with pytest.raises(AuthError):
        await opened("serper", refusing, attempts=3).search(QUERY)
    assert len(refusing.requests) == 1


async def test_a_broken_connection_and_a_hang_are_transient() -> None:
    def broken(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(TransientError, match="ConnectError"):
        await opened("serper", Network(broken)).search(QUERY)
    with pytest.raises(TransientError, match=r"within 0.05 s"):
        await opened("serper", always(503, ""), attempts=9, wait_s=1.0, timeout_s=0.05).search(QUERY)


async def test_a_missing_key_is_one_line_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VLAGENT_SERPER_KEY", "SERPER_API_KEY", "WEBSEARCH_GOOGLE_SERPER_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match="set VLAGENT_SERPER_KEY"):
        opened("serper", always(200, {}))
    monkeypatch.setenv("WEBSEARCH_GOOGLE_SERPER_KEY", "alias")
    network = always(200, answers.SERPER)
    await opened("serper", network).search(QUERY)
    assert network.last.headers["X-API-KEY"] == "alias"


async def test_the_key_is_in_no_log_and_no_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(ServiceError) as caught:
        await opened("serper", always(400, {"message": f"bad key {KEY}"})).search(QUERY)
    assert KEY not in str(caught.value)
    assert KEY not in caplog.text
    assert "google.serper.dev" in caplog.text


async def test_the_budget_is_hard_and_counts_every_attempt() -> None:
    budget, network = Budget(BudgetConfig(max_paid_calls=3)), always(503, "")
    with pytest.raises(TransientError):
        await opened("serper", network, budget, attempts=2).search(QUERY)
    with pytest.raises(QuotaError, match="3 paid calls"):
        await opened("serper", network, budget, attempts=9).search(QUERY)
    assert len(network.requests) == 3
    assert budget.spent.calls == {"serper": 3}
    assert budget.spent.total_usd == pytest.approx(0.003)


async def test_the_budget_in_dollars_outlives_the_process(tmp_path: Any) -> None:
    config = BudgetConfig(max_usd=0.02, usd_per_call={"serper": 0.01}, ledger=str(tmp_path / "spent.json"))
    for _ in range(2):
        await opened("serper", always(200, answers.SERPER), Budget(config)).search(QUERY)
    with pytest.raises(QuotaError, match=r"0.02 USD"):
        await opened("serper", always(200, answers.SERPER), Budget(config)).search(QUERY)


def test_processes_that_share_a_ledger_add_to_its_sums(tmp_path: Any) -> None:
    config = BudgetConfig(max_paid_calls=30, ledger=str(tmp_path / "new" / "spent.json"))
    budgets = [Budget(config) for _ in range(3)]  # each read the empty ledger, as three processes would
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda budget: [budget.spend("serper", 0.001) for _ in range(10)], budgets))
    assert Budget(config).spent.calls == {"serper": 30}
    for budget in budgets:
        with pytest.raises(QuotaError):
            budget.spend("serper", 0.001)


async def test_free_providers_cost_no_budget() -> None:
    budget = Budget(BudgetConfig(max_paid_calls=0))
    assert await opened("searxng", always(200, answers.SEARXNG), budget).search(QUERY)


async def test_requests_wait_for_the_rate() -> None:
    network = always(200, answers.SEARXNG)
    provider = opened("searxng", network, requests_per_second=0.5, timeout_s=0.2)
    await provider.search(QUERY)
    with pytest.raises(TransientError):
        await provider.search(QUERY)
    assert len(network.requests) == 1
