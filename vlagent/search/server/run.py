"""A server process: it listens, and at a signal it finishes what it has begun."""

from __future__ import annotations

import signal
import socket
from typing import Any

from pydantic import SecretStr

from vlagent.chat.keys import key_from_environment
from vlagent.errors import UserError
from vlagent.search.server.access import write_logs
from vlagent.search.server.app import make_app
from vlagent.search.server.desk import Desk, Supplies
from vlagent.search.server.options import KEY_NAMES, ServerOptions

BACKLOG = 2048


def serve(supplies: Supplies, options: ServerOptions, service: str) -> None:
    """Serve until SIGTERM or SIGINT, then until what is running has ended (at most `drain_s`).

    Raises `UserError` for an address that others can reach and no key, or a port that is taken.
    """
    import uvicorn

    key = required_key(options)
    bound = _bound(options)
    desk = Desk(supplies, options)
    write_logs(options.log)
    config = uvicorn.Config(make_app(desk, service=service, key=key), **_settings(options))
    server = uvicorn.Server(config)
    # uvicorn raises what it was stopped by anew; a server that was told to stop has done its work.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        server.run(sockets=[bound])
    except KeyboardInterrupt:
        return


def required_key(options: ServerOptions) -> SecretStr | None:
    """The key of the environment; raises `UserError` where others can connect and there is none."""
    key = key_from_environment(KEY_NAMES)
    if key is None and not options.is_private:
        raise UserError(f"--host {options.host}: others can reach it, so callers need a key; set {KEY_NAMES[0]}")
    return key


def _bound(options: ServerOptions) -> socket.socket:
    """The socket that is listened on; uvicorn itself would end the process with a code of its own."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((options.host, options.port))
    except OSError as error:
        bound.close()
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"--host {options.host} --port {options.port}: {reason}") from None
    bound.listen(BACKLOG)
    return bound


def _settings(options: ServerOptions) -> dict[str, Any]:
    return {
        "backlog": BACKLOG,
        "log_config": None,
        "access_log": False,
        "lifespan": "on",
        "server_header": False,
        "timeout_keep_alive": 30,
        "timeout_graceful_shutdown": round(options.drain_s),
        "h11_max_incomplete_event_size": 65_536,
    }
