"""Small sites on this machine and scripted name servers."""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

Answer = tuple[int, dict[str, str], bytes]
ARTICLE = "".join(
    f"<p>The Belmont Tower was opened in 1931, and in {year} its stairs were repaired by the council of the town.</p>"
    for year in range(1940, 1956)
)


def html(body: str, title: str = "Belmont Tower", head: str = "") -> bytes:
    return f"<html><head><title>{title}</title>{head}</head><body>{body}</body></html>".encode()


class Site:
    """What a server has answered and will answer."""

    def __init__(self, pages: dict[str, Answer | bytes]) -> None:
        self.pages = pages
        self.seen: list[str] = []
        self.port = 0

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str) -> str:
        return f"http://{self.host}{path}"


@contextmanager
def serving(pages: dict[str, Answer | bytes]) -> Iterator[Site]:
    site = Site(pages)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            site.seen.append(self.path)
            if path.startswith("/slow"):
                time.sleep(2)
            found = site.pages.get(path, (404, {}, b"no such page"))
            status, headers, body = found if isinstance(found, tuple) else (200, {"Content-Type": "text/html"}, found)
            self.send_response(status)
            for name, value in {
                "Content-Length": str(len(body)),
                "Access-Control-Allow-Origin": "*",
                **headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(socketserver.ThreadingMixIn, HTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    site.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()


class Names:
    """A resolver that answers from a table, a list of addresses a look-up; the last one stays."""

    def __init__(self, **table: list[list[str]]) -> None:
        self._table = {name.replace("_", "."): answers for name, answers in table.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self._table[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]
