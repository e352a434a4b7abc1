"""One question about pictures from Python: `vlagent.ask(...)`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path

from vlagent.agent.config import AgentConfig
from vlagent.agent.loop import Agent, run_agent
from vlagent.chat.base import ChatModel
from vlagent.chat.open import open_chat
from vlagent.images import probe
from vlagent.search.base import SearchServices, closed
from vlagent.search.open import open_search
from vlagent.tools.registry import make_tools
from vlagent.types import Sample, Trajectory


async def ask_async(
    images: Sequence[str | Path],
    question: str,
    model: ChatModel | str,
    *,
    base_url: str | None = None,
    search: str | Path | None = None,
    config: AgentConfig | None = None,
) -> Trajectory:
    """Play one episode and return it: `.answer`, `.sources`, `.turns`, `.stop`.

    `model` is a `ChatModel` or the name that the endpoint `base_url` knows it by; `search` is a folder that
    `vlagent index` made. The tools are those of `config`, or the crop and whatever searches the folder has. A wrong
    path or option raises `UserError`; what a model or a service does wrong is in the trajectory.
    """
    async with AsyncExitStack() as opened:
        services = open_search(Path(search), published=False) if search else SearchServices()
        opened.push_async_callback(services.aclose)
        has = {"text_search": services.text, "image_search": services.images}
        config = config or AgentConfig(tools=("image_crop", *(name for name, service in has.items() if service)))
        if isinstance(model, str):
            model = open_chat(model, base_url)
            opened.push_async_callback(closed, model)
        tools = make_tools(config.tools, search=services)
        sample = Sample(id="ask", source="ask", question=question, images=tuple(probe(Path(path)) for path in images))
        return await run_agent(Agent(model=model, config=config, tools=tools, search=services), sample)


def ask(
    images: Sequence[str | Path],
    question: str,
    model: ChatModel | str,
    *,
    base_url: str | None = None,
    search: str | Path | None = None,
    config: AgentConfig | None = None,
) -> Trajectory:
    """`ask_async` for plain code; inside a running event loop (a notebook) it plays in a thread of its own."""
    episode = ask_async(images, question, model, base_url=base_url, search=search, config=config)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(episode)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, episode).result()
