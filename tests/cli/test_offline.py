from __future__ import annotations

import subprocess
import sys

import pytest

from vlagent.cli.offline import check_endpoint, is_loopback
from vlagent.errors import UserError


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]", "::ffff:127.0.0.1", None])
def test_this_machine_is_loopback(host: str | None) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["example.org", "10.0.0.1", "0.0.0.0", "::2", "localhost.evil.org", "127.0.0.1.x.io"])
def test_others_are_not(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("url", ["https://api.openai.com/v1", "http://user@10.0.0.1:80/v1", "api.openai.com/v1"])
def test_a_far_endpoint_is_refused_by_name(url: str) -> None:
    with pytest.raises(UserError, match="not this machine"):
        check_endpoint(url)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/v1", "http://[::1]:8000/v1", "http://localhost/v1", None])
def test_a_near_endpoint_is_fine(url: str | None) -> None:
    check_endpoint(url)


PROBE = """
import socket
from vlagent.cli.offline import forbid_network
from vlagent.errors import ServiceError
forbid_network()
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).close()
for attempt in (
    lambda: socket.create_connection(("192.0.2.1", 80), 0.1),
    lambda: socket.getaddrinfo("example.org", 80),
    lambda: socket.gethostbyname("example.org"),
    lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53)),
):
    try:
        attempt()
    except ServiceError as error:
        print("refused")
"""


def test_nothing_of_the_process_can_leave_the_machine() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["refused"] * 4
