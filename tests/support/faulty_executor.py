"""An executor with a faulty connection: `module_command("faulty_executor", "delay-ready=1.5", "only=worker:1")`.

- `delay-ready=SECONDS`, `delay-exits=SECONDS`: registrations, or exit reports, are sent that much later, while
  heartbeats continue.
- `only=ROLE:INDEX`: the delays above apply to that task only.
- `orders`: the faults that a `FaultInjector` orders (`faults/faulty_connection.py`).
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.faults.faulty_connection import ORDERS, LinkFault, Order, reach
from tests.support.faults.plan import Delay, Traffic
from tony.executor.main import run
from tony.model.ids import TaskId

if TYPE_CHECKING:
    from tony.executor.control.am_connection import AmTransport, Connect

_DELAYS = {"delay-ready": Traffic.READY, "delay-exits": Traffic.EXITS}


def main() -> int:
    """Run an executor with the faults given as arguments; its launch context is read as in production."""
    arguments = dict(argument.partition("=")[::2] for argument in sys.argv[1:])
    file = Path(ORDERS).absolute()  # resolved now, while the working directory is the job directory
    return run(None, lambda connect: inject_faults(arguments, file, connect))


def inject_faults(arguments: dict[str, str], file: Path, connect: Connect) -> Connect:
    """Return a connect function whose connections have these faults."""
    link = LinkFault()
    only = TaskId.parse(arguments["only"]) if "only" in arguments else None
    for number, (name, traffic) in enumerate(_DELAYS.items()):
        if name in arguments:
            link.order(Order(-1 - number, Delay(traffic, float(arguments[name])), only))
    following: list[asyncio.Task[None]] = []

    async def connect_within(timeout: float) -> AmTransport:
        if "orders" in arguments and not following:
            following.append(asyncio.get_running_loop().create_task(link.follow(file)))
        return await reach(link, connect, timeout)

    return connect_within
