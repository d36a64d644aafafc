"""A small HTTP/1.1 client for load on loopback: little work of its own, kept-open connections."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any


@dataclass
class Sample:
    """What a run of requests took, in milliseconds, and how many failed."""

    millis: list[float] = field(default_factory=list)
    failures: int = 0
    seconds: float = 0.0

    def line(self) -> str:
        """The figures worth quoting."""
        ordered = sorted(self.millis) or [0.0]
        p95 = ordered[int(len(ordered) * 0.95) - 1]
        rate = len(self.millis) / self.seconds if self.seconds else 0.0
        return (
            f"n={len(self.millis)} median={median(ordered):.1f} ms p95={p95:.1f} ms"
            f" min={ordered[0]:.1f} ms rate={rate:.0f}/s failures={self.failures}"
        )


class Connection:
    """One kept-open connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        """Connect."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def send(self, method: str, path: str, body: Any = None, key: str = "") -> None:
        """Send one request."""
        if self._writer is None:
            await self.open()
        assert self._writer is not None
        raw = b"" if body is None else json.dumps(body, ensure_ascii=False).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(raw)}\r\n"
        if raw:
            head += "Content-Type: application/json\r\n"
        if key:
            head += f"Authorization: Bearer {key}\r\n"
        self._writer.write(head.encode() + b"\r\n" + raw)
        await self._writer.drain()

    async def status(self) -> tuple[int, dict[str, str]]:
        """Read the answer's head."""
        assert self._reader is not None
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
        return int(head[0].split(" ")[1]), headers

    async def answer(self) -> tuple[int, bytes]:
        """Read a whole answer."""
        assert self._reader is not None
        code, headers = await self.status()
        if "content-length" in headers:
            return code, await self._reader.readexactly(int(headers["content-length"]))
        pieces = [piece async for piece in self.chunks()]
        return code, b"".join(pieces)

    async def chunks(self) -> Any:
        """Yield the chunks of a chunked answer as they come."""
        assert self._reader is not None
        while size := int((await self._reader.readline()).strip() or b"0", 16):
            yield await self._reader.readexactly(size)
            await self._reader.readexactly(2)
        await self._reader.readline()

    def close(self) -> None:
        """Close the connection."""
        if self._writer is not None:
            self._writer.close()


async def hammer(
    *, port: int, connections: int, requests: int, ask: Callable[[int], tuple[str, str, Any, str]]
) -> Sample:
    """Send `requests` over so many connections, each one after the other; `ask` makes each."""
    sample = Sample()
    numbers = iter(range(requests))

    async def work() -> None:
        connection = Connection(port)
        for number in numbers:
            method, path, body, key = ask(number)
            started = time.perf_counter()
            await connection.send(method, path, body, key)
            code, _ = await connection.answer()
            sample.millis.append((time.perf_counter() - started) * 1000)
            sample.failures += code >= 400
        connection.close()

    started = time.perf_counter()
    await gather_all([work() for _ in range(connections)])
    sample.seconds = time.perf_counter() - started
    return sample


async def gather_all(work: list[Awaitable[None]]) -> None:
    """Await all of it."""
    await asyncio.gather(*work)
