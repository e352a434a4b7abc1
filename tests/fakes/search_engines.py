"""Search engines of the web, each to the letter of its own documentation; what that does not allow is refused.

Serper: google.serper.dev shows its API in a playground behind a login; the names are those that public clients send
  (`POST /search` and `/lens`, header `X-API-KEY`; `q`, `num`, `gl`, `hl`, `location`, `page`, `tbs`, `autocorrect`;
  `organic: [{title, link, snippet, position}]`; lens: `url`; 403 "Unauthorized.", 400 "Not enough credits").
SearXNG: https://docs.searxng.org/dev/search_api (`/` and `/search`, GET or POST; `q` required; `format` json, csv, rss;
  a format that settings.yml does not list is 403; `results: [{url, title, content, engine}]`, `unresponsive_engines`).
Brave: https://api-dashboard.search.brave.com/api-reference/web/search/get (`q` of 1 to 400 characters and 50 words,
  `count` 1 to 20, `offset` 0 to 9; 422 for what is wrong, a bad token among it; 429 RATE_LIMITED, QUOTA_LIMITED) and
  .../web-search/response-headers (`X-RateLimit-*`, one value a window).
Tavily: https://docs.tavily.com/api-reference/endpoint/search (`query` required, `max_results` 0 to 20, `search_depth`),
  https://help.tavily.com/articles/8645538886-understanding-http-errors (400, 401, 429, 432, 433); queries of more than
  400 characters are refused with 400 "Query is too long".
SerpApi: https://github.com/serpapi/google-lens-scraper (`GET /search`, `engine=google_lens`, `url`; `visual_matches:
  [{position, title, link, source, thumbnail}]`), https://serpapi.com/api-status-and-error-codes (200, 400, 401, 429;
  `{"error"}`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Set
from typing import Any

from tests.fakes.web_server import Answer, Asked, Fake, Fault, Refused, as_json

KEY = "a-key-0123456789"
Links = Callable[[str], list[str]]
"""Query -> addresses of the pages that are found."""


def _named(names: str) -> frozenset[str]:
    return frozenset(names.split())


_SERPER = {"q", "num", "gl", "hl", "location", "page", "tbs", "autocorrect", "type"}
_SERPER_LENS = {"url", "gl", "hl"}
_TAVILY = _named(
    """query auto_parameters topic search_depth chunks_per_source max_results time_range days start_date end_date
    include_answer include_raw_content include_images include_image_descriptions include_favicon include_domains
    exclude_domains country include_usage"""
)
_BRAVE = _named(
    """q country search_lang ui_lang count offset safesearch freshness text_decorations spellcheck result_filter
    goggles_id goggles units extra_snippets summary"""
)
_SEARXNG = _named(
    """q categories engines language pageno time_range format results_on_new_tab image_proxy autocomplete safesearch
    theme enabled_plugins disabled_plugins enabled_engines disabled_engines"""
)


def tag(query: str) -> str:
    """A short name of a query, for addresses."""
    return hashlib.sha256(query.encode()).hexdigest()[:10]


class Engine(Fake):
    """Finds `links(query)`; titles and snippets say what was asked."""

    delay_s = 0.05

    def __init__(self, links: Links, *, key: str = KEY, delay_s: float | None = None) -> None:
        super().__init__(delay_s=delay_s)
        self.links, self.key = links, key

    def rows(self, query: str, most: int) -> list[tuple[int, str, str, str]]:
        """(position, title, link, snippet)"""
        found = self.links(query)[:most]
        return [
            (i, f"Result {i} for {query[:60]}", link, f"Snippet {i}: {query[:80]}") for i, link in enumerate(found, 1)
        ]


def _only(given: Any, allowed: Set[str], refuse: Callable[[str], Refused]) -> None:
    for name in given:
        if name not in allowed:
            raise refuse(f"{name} is not a parameter")


class Serper(Engine):
    """Text search and lens."""

    def reply(self, asked: Asked) -> Answer:
        if asked.headers.get("x-api-key") != self.key:
            raise Refused(403, {"message": "Unauthorized.", "statusCode": 403})
        if asked.method != "POST" or asked.path not in ("/search", "/lens"):
            raise Refused(404, {"message": f"Cannot {asked.method} {asked.path}", "statusCode": 404})
        return self._lens(_object(asked, _bad)) if asked.path == "/lens" else self._search(_object(asked, _bad))

    def _search(self, body: dict[str, Any]) -> Answer:
        _only(body, _SERPER, _bad)
        query, num = body.get("q"), body.get("num", 10)
        if not isinstance(query, str) or not query.strip():
            raise _bad("Query is required")
        if not isinstance(num, int) or not 1 <= num <= 100:
            raise _bad("num must be an integer from 1 to 100")
        organic = [
            {"title": title, "link": link, "snippet": snippet, "position": i}
            for i, title, link, snippet in self.rows(query, num)
        ]
        asked = {"q": query, "type": "search", "num": num, "engine": "google"}
        return as_json({"searchParameters": asked, "organic": organic, "credits": 1})

    def _lens(self, body: dict[str, Any]) -> Answer:
        _only(body, _SERPER_LENS, _bad)
        url = _public(body.get("url"), _bad)
        organic = [
            {
                "title": title,
                "source": "example",
                "link": link,
                "imageUrl": f"{link}.png",
                "thumbnailUrl": f"{link}.jpg",
            }
            for _, title, link, _ in self.rows(url, 20)
        ]
        return as_json({"searchParameters": {"url": url, "type": "lens"}, "organic": organic, "credits": 3})

    def refusal(self, fault: Fault) -> Answer:
        status, said = {
            "429": (429, "Too many requests"),
            "quota": (400, "Not enough credits"),
            "auth": (403, "Unauthorized."),
        }[fault.kind]
        return as_json({"message": said, "statusCode": status}, status)


def _bad(said: str) -> Refused:
    return Refused(400, {"message": said, "statusCode": 400})


class SearXNG(Engine):
    """`formats` is what settings.yml lists."""

    def __init__(
        self, links: Links, *, formats: tuple[str, ...] = ("html", "json"), delay_s: float | None = None
    ) -> None:
        super().__init__(links, delay_s=delay_s)
        self.formats = formats

    def reply(self, asked: Asked) -> Answer:
        if asked.path not in ("/", "/search") or asked.method not in ("GET", "POST"):
            return Answer(404, b"<h1>Page not found</h1>", kind="text/html")
        _only([name for name, _ in asked.query], _SEARXNG, lambda said: Refused(400, {"error": said}))
        wanted, query = asked.parameter("format") or "html", asked.parameter("q")
        if wanted not in self.formats:
            self.refused.append(f"403: format {wanted}")
            return Answer(403, b"<!doctype html><title>403 Forbidden</title>", kind="text/html")
        if not query:
            self.refused.append("400: no query")
            return Answer(400, b'{"error": "No query"}')
        results = [
            {"url": link, "title": title, "content": snippet, "engine": "fake", "engines": ["fake"], "score": 1 / i}
            for i, title, link, snippet in self.rows(query, 20)
        ]
        more: dict[str, list[str]] = {
            "answers": [],
            "corrections": [],
            "infoboxes": [],
            "suggestions": [],
            "unresponsive_engines": [],
        }
        return as_json({"query": query, "number_of_results": len(results), "results": results, **more})

    def refusal(self, fault: Fault) -> Answer:
        status = {"429": 429, "quota": 429, "auth": 403}[fault.kind]
        return Answer(status, b"<!doctype html><title>Too Many Requests</title>", kind="text/html")


class Brave(Engine):
    """Web search."""

    def reply(self, asked: Asked) -> Answer:
        if asked.path != "/res/v1/web/search" or asked.method not in ("GET", "POST"):
            raise Refused(404, {"type": "ErrorResponse", "error": {"code": "NOT_FOUND", "status": 404}})
        token = asked.headers.get("x-subscription-token")
        if token is None:
            raise _unfit("VALIDATION", "Field required: x-subscription-token")
        if token != self.key:
            raise _unfit("SUBSCRIPTION_TOKEN_INVALID", "The provided subscription token is invalid.")
        _only([name for name, _ in asked.query], _BRAVE, lambda said: _unfit("VALIDATION", said))
        query, count = asked.parameter("q") or "", asked.parameter("count") or "20"
        if not 1 <= len(query) <= 400 or len(query.split()) > 50:
            raise _unfit("VALIDATION", "q: 1 to 400 characters, at most 50 words")
        if not count.isdecimal() or not 1 <= int(count) <= 20:
            raise _unfit("VALIDATION", "count: 1 to 20")
        results = [
            {"title": title, "url": link, "description": f"<strong>{snippet}</strong>", "type": "search_result"}
            for _, title, link, snippet in self.rows(query, int(count))
        ]
        found = {"type": "search", "query": {"original": query}, "web": {"type": "search", "results": results}}
        answer = as_json(found)
        answer.headers |= {"X-RateLimit-Limit": "1, 15000", "X-RateLimit-Remaining": "0, 999"}
        return answer

    def refusal(self, fault: Fault) -> Answer:
        status, code = {
            "429": (429, "RATE_LIMITED"),
            "quota": (429, "QUOTA_LIMITED"),
            "auth": (422, "SUBSCRIPTION_TOKEN_INVALID"),
        }[fault.kind]
        answer = as_json({"type": "ErrorResponse", "error": {"code": code, "detail": code, "status": status}}, status)
        if status == 429:
            answer.headers["X-RateLimit-Reset"] = "1, 1419704"
        return answer


def _unfit(code: str, detail: str) -> Refused:
    return Refused(422, {"type": "ErrorResponse", "error": {"code": code, "detail": detail, "status": 422}})


class Tavily(Engine):
    """Search."""

    def reply(self, asked: Asked) -> Answer:
        if asked.path != "/search" or asked.method != "POST":
            raise Refused(404, {"detail": "Not Found"})
        if asked.headers.get("authorization") != f"Bearer {self.key}":
            raise Refused(401, {"detail": {"error": "Unauthorized: missing or invalid API key."}})
        body = _object(asked, _wrong)
        _only(body, _TAVILY, _wrong)
        query, most = body.get("query"), body.get("max_results", 5)
        if not isinstance(query, str) or not query:
            raise _wrong("Query is missing.")
        if len(query) > 400:
            raise _wrong("Query is too long. Max query length is 400 characters.")
        if not isinstance(most, int) or not 0 <= most <= 20:
            raise _wrong("max_results must be from 0 to 20")
        if body.get("search_depth", "basic") not in ("basic", "advanced", "fast", "ultra-fast"):
            raise _wrong("Invalid search depth.")
        results = [
            {"title": title, "url": link, "content": snippet, "score": 1 / i, "raw_content": None}
            for i, title, link, snippet in self.rows(query, most)
        ]
        return as_json({"query": query, "answer": None, "images": [], "results": results, "response_time": 0.05})

    def refusal(self, fault: Fault) -> Answer:
        status, said = {
            "429": (429, "Your request has been blocked due to excessive requests."),
            "quota": (432, "This request exceeds your plan's set usage limit."),
            "auth": (401, "Unauthorized: missing or invalid API key."),
        }[fault.kind]
        return as_json({"detail": {"error": said}}, status)


def _wrong(said: str) -> Refused:
    return Refused(400, {"detail": {"error": said}})


class SerpApi(Engine):
    """Google Lens."""

    allowed = _named("engine url hl country type q safe no_cache async zero_trace api_key output json_restrictor")

    def reply(self, asked: Asked) -> Answer:
        if asked.path not in ("/search", "/search.json") or asked.method != "GET":
            raise Refused(404, {"error": "Not found"})
        if asked.parameter("api_key") != self.key:
            said = "Invalid API key. Your API key should be here: https://serpapi.com/manage-api-key"
            raise Refused(401, {"error": said})
        _only([name for name, _ in asked.query], self.allowed, _missing)
        if asked.parameter("engine") != "google_lens":
            raise _missing(f"Unsupported `{asked.parameter('engine')}` search engine.")
        url = _public(asked.parameter("url"), _missing)
        matches = [
            {"position": i, "title": title, "link": link, "source": "example", "thumbnail": f"{link}.jpg"}
            for i, title, link, _ in self.rows(url, 60)
        ]
        if not matches:
            return as_json({"search_metadata": {"status": "Success"}, "error": _NOTHING})
        return as_json({"search_metadata": {"status": "Success"}, "visual_matches": matches})

    def refusal(self, fault: Fault) -> Answer:
        status, said = {
            "429": (429, "You have exceeded your hourly throughput limit."),
            "quota": (429, "Your account has run out of searches."),
            "auth": (401, "Invalid API key. Your API key should be here: https://serpapi.com/manage-api-key"),
        }[fault.kind]
        return as_json({"error": said}, status)


_NOTHING = "Google hasn't returned any results for this query."


def _missing(said: str) -> Refused:
    return Refused(400, {"error": said})


def _object(asked: Asked, refuse: Callable[[str], Refused]) -> dict[str, Any]:
    try:
        body = asked.json
    except ValueError as error:
        raise refuse(f"Invalid JSON: {error}") from None
    if not isinstance(body, dict):
        raise refuse("an object is expected")
    return body


def _public(url: Any, refuse: Callable[[str], Refused]) -> str:
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise refuse("Missing or invalid `url` parameter.")
    return url
