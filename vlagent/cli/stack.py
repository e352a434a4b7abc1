"""`vlagent serve stack PROFILE`: starts what belongs on this machine, checks what runs on others."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from vlagent.chat.keys import key_from_environment
from vlagent.cli.stack_profiles import PROFILES, Service, Site
from vlagent.errors import ServiceError, TransientError, UserError

START_S, MODEL_START_S = 60.0, 1800.0
"""Until a service answers: ours, and one that loads a model."""
STOP_S = 35.0
EACH_S = 1.0
KEY_NAMES = ("VLAGENT_SERVER_KEY",)


def run_stack(args: argparse.Namespace) -> int:
    """Print with `--dry-run`; else start, wait until all answer, and stop all when one ends or a signal comes."""
    here, others = plan(args)
    if args.dry_run:
        print("\n".join(lines(here, others)))
        return 0
    for host, services in others.items():
        for service in services:
            check(service, host)
            print(f"{service.name} at {host}:{service.port} answers", flush=True)
    with _running(here) as started:
        for service in here:
            _await_answer(service, started)
            print(f"{service.name} at port {service.port} answers", flush=True)
        return _watch(started) if here else 0


def plan(args: argparse.Namespace) -> tuple[list[Service], dict[str, list[Service]]]:
    """Services of this machine, and those of others by host."""
    machines = PROFILES.get(args.source)
    if machines is None:
        raise UserError(f"profile {args.source!r}: known are {', '.join(PROFILES)}")
    node = _node(args, list(machines))
    addresses = _addresses(args.address or [], [name for name in machines if name != node])
    shared = any(PROFILES[args.source][name] for name in machines if name != node)
    site = Site(host="0.0.0.0" if shared else "127.0.0.1", search=args.search, passages=args.passages)
    here = [make(site) for make in machines[node]]
    if args.only:
        _refuse_unknown(args.only, [service.name for service in here], node)
        here = [service for service in here if service.name in args.only]
    if not args.dry_run:
        _refuse_gaps(here, site)
    others = {
        addresses.get(name, name): [make(site) for make in makers]
        for name, makers in machines.items()
        if name != node and makers
    }
    return here, others


def lines(here: Sequence[Service], others: Mapping[str, Sequence[Service]]) -> Iterator[str]:
    """What would be done, as a shell would take it."""
    for host, services in others.items():
        for service in services:
            yield f"# {service.name}: expected at http://{host}:{service.port}"
    for service in here:
        settings = [f"{name}={shlex.quote(value)}" for name, value in service.environment.items()]
        yield " ".join([*settings, shlex.join(service.command)])


def check(service: Service, host: str) -> None:
    """Raises a typed error where the service does not answer at this host, or serves another model."""
    name, url = f"{service.name} at {host}:{service.port}", f"http://{host}:{service.port}"
    key = key_from_environment(KEY_NAMES)
    headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key and not service.model else {}
    try:
        answer = httpx.get(f"{url}/health", headers=headers, timeout=10.0, trust_env=False)
        if answer.status_code != 200:
            raise TransientError(name, f"HTTP {answer.status_code} for /health")
        if service.model:
            models = httpx.get(f"{url}/v1/models", timeout=10.0, trust_env=False).json()["data"]
            if service.model not in [model["id"] for model in models]:
                raise UserError(f"{name}: it does not serve {service.model}; start it as --dry-run says")
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        raise TransientError(name, f"does not answer ({type(error).__name__})") from None


@contextmanager
def _running(services: Sequence[Service]) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """The processes, ended in reverse order whatever happens."""
    started: dict[str, subprocess.Popen[bytes]] = {}
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        for service in services:
            started[service.name] = _start(service)
        yield started
    finally:
        for process in reversed(started.values()):
            _end(process)
        signal.signal(signal.SIGTERM, before)


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def _start(service: Service) -> subprocess.Popen[bytes]:
    program, *rest = service.command
    command = [*([sys.executable, "-m", "vlagent"] if program == "vlagent" else [_found(program)]), *rest]
    return subprocess.Popen(command, env={**os.environ, **service.environment}, start_new_session=True)


def _found(program: str) -> str:
    path = sys.executable if program == "python" else shutil.which(program)
    if path is None:
        raise UserError(f"{program}: not found; install it, or start that service yourself and leave it out (--only)")
    return path


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _await_answer(service: Service, started: Mapping[str, subprocess.Popen[bytes]]) -> None:
    limit = time.monotonic() + (MODEL_START_S if service.slow else START_S)
    while True:
        for name, process in started.items():
            if process.poll() is not None:
                raise TransientError(name, f"ended with {process.returncode} while the stack was starting")
        try:
            check(service, "127.0.0.1")
            return
        except ServiceError:
            if time.monotonic() > limit:
                raise
        time.sleep(EACH_S / 4)


def _watch(started: Mapping[str, subprocess.Popen[bytes]]) -> int:
    """Until one ends by itself, which is a failure, or we are told to stop."""
    try:
        while True:
            for name, process in started.items():
                if process.poll() is not None:
                    raise TransientError(name, f"ended with {process.returncode}; the stack is stopped")
            time.sleep(EACH_S)
    except KeyboardInterrupt:
        return 0


def _node(args: argparse.Namespace, names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    if args.node not in names:
        given = "" if args.node is None else f" {args.node}"
        raise UserError(f"--node{given}: which machine is this? {', '.join(names)}")
    return str(args.node)


def _addresses(given: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in given:
        name, _, host = text.partition("=")
        if name not in names or not host:
            raise UserError(f"--address {text}: write it as NODE=HOST with a node of {', '.join(names) or 'none'}")
        found[name] = host
    return found


def _refuse_unknown(wanted: Sequence[str], names: Sequence[str], node: str) -> None:
    for name in wanted:
        if name not in names:
            raise UserError(f"--only {name}: on machine {node} are {', '.join(names) or 'no services'}")


def _refuse_gaps(services: Sequence[Service], site: Site) -> None:
    """What the servers of ours read must be there before anything is started."""
    names = {service.name for service in services}
    if "search" in names and not (site.search or site.passages):
        raise UserError("--search: name a live.toml or a search folder for the search server")
    if "retrieval" in names and not site.passages:
        raise UserError("--passages: name the search folder of the retrieval server (or leave it out with --only)")
    for path in (site.search, site.passages):
        if path and not Path(path).exists():
            raise UserError(f"{path}: no such file or folder")
    if site.host != "127.0.0.1" and names & {"search", "retrieval"} and key_from_environment(KEY_NAMES) is None:
        raise UserError(f"other machines call these servers, so a key is needed; set {KEY_NAMES[0]} on all of them")
