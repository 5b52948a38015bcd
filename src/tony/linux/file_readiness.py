"""Waits until a pipe, socket or terminal can be read or written, without a change of its mode.

A mode belongs to the open file, which other processes may share: a terminal that was set non-blocking would break the
shell that uses it next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def wait_readable(number: int) -> None:
    """Wait until a read returns at once. Returns immediately for regular files, which always can be read."""
    loop = asyncio.get_running_loop()
    await _wait(number, loop.add_reader, loop.remove_reader)


async def wait_writable(number: int) -> None:
    """Wait until a write takes something. Returns immediately for regular files."""
    loop = asyncio.get_running_loop()
    await _wait(number, loop.add_writer, loop.remove_writer)


async def _wait(number: int, add: Callable[..., None], remove: Callable[[int], object]) -> None:
    ready = asyncio.get_running_loop().create_future()

    def settle() -> None:
        if not ready.done():
            ready.set_result(None)

    try:
        add(number, settle)
    except PermissionError:  # epoll refuses files that are always ready
        await asyncio.sleep(0)
        return
    try:
        await ready
    finally:
        remove(number)
