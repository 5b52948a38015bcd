"""Readiness of pipes and of files that are always ready; the mode of the file stays."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tony.linux.file_readiness import wait_readable, wait_writable


async def test_a_pipe() -> None:
    """Readable with data, or at its end; not writable while it is full."""
    reading, writing = os.pipe()
    waiting = asyncio.ensure_future(wait_readable(reading))
    await wait_writable(writing)
    assert not waiting.done()
    os.write(writing, b"x")
    await waiting
    os.read(reading, 1)
    os.close(writing)
    await wait_readable(reading)
    assert os.get_blocking(reading)
    os.close(reading)


async def test_a_regular_file(tmp_path: Path) -> None:
    number = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR, 0o600)
    await wait_readable(number)
    await wait_writable(number)
    os.close(number)
