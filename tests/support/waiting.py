"""Wait for conditions that nothing reports: `wait_until` in an event loop, `block_until` outside."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: After this time a condition counts as never true.
TIMEOUT_SECONDS = 60.0


async def wait_until(condition: Callable[[], object]) -> None:
    """Wait until the condition is true, while the event loop runs.

    Raises:
        TimeoutError: it did not become true.
    """
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not condition():
            await asyncio.sleep(0.002)


def block_until(condition: Callable[[], T | None]) -> T:
    """Block until the condition is true; return its value.

    Raises:
        TimeoutError: it did not become true.
    """
    began = time.monotonic()
    while not (found := condition()):
        waited = time.monotonic() - began
        if waited > TIMEOUT_SECONDS:
            raise TimeoutError(f"not within {TIMEOUT_SECONDS:g} s")
        time.sleep(min(max(0.005, waited / 10), 0.1))
    return found
