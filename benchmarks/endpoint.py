"""A chat endpoint that takes a fixed time a turn and plays a crop, a search and an answer. Prints its port.

    python -m benchmarks.endpoint --turn-s 0.5

It reads requests as bytes and parses nothing but their length: it costs next to nothing beside what is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re

HEAD = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n"
CALLS = (
    '<think>Look at it.</think><tool_call>{"name": "image_crop", "arguments": {"bbox": [400, 400, 600, 600], '
    '"image_index": 0}}</tool_call>',
    '<think>Find it.</think><tool_call>{"name": "text_search", "arguments": {"query": "harbour"}}</tool_call>',
    "<think>Known now.</think><answer>1931</answer>",
)


def _reply(turn: int) -> bytes:
    message = {"role": "assistant", "content": CALLS[min(turn, len(CALLS) - 1)]}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    body = json.dumps({"choices": [choice], "usage": {"prompt_tokens": 1500, "completion_tokens": 60}})
    return (HEAD.format(len(body)) + body).encode()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, turn_s: float) -> None:
    """One connection; which turn it is can be told from the number of assistant messages."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            found = re.search(rb"content-length: (\d+)", head.lower())
            body = await reader.readexactly(int(found[1]) if found else 0)
            turn = body.count(b'"role": "assistant"') + body.count(b'"role":"assistant"')
            await asyncio.sleep(turn_s)
            writer.write(_reply(turn))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve(turn_s: float) -> None:
    """Until it is killed."""
    server = await asyncio.start_server(lambda r, w: _answer(r, w, turn_s), "127.0.0.1", 0, limit=2**24)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--turn-s", type=float, default=0.5)
    asyncio.run(serve(parser.parse_args().turn_s))
