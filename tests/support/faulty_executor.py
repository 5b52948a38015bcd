"""A fault-injecting executor: `module_command("faulty_executor", "skip-heartbeats=5", "skew=30")`.

Faults:

- `skip-heartbeats=N`: the first N heartbeats are not sent.
- `skew=SECONDS`: the program's exit is reported that much later, while heartbeats continue.
- `delay-ready=SECONDS`: the first registration is sent that much later.
- `only=ROLE:INDEX`: the faults above apply to that task only.
- `orders=FILE`: a file of commands, which a `FaultInjector` appends to (`faults/faulty_connection.py`): partitions,
  and lost, delayed and duplicated messages. The path is relative to the working directory.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.faults.faulty_connection import inject_faults
from tony.executor.main import run
from tony.protocol.executor_messages import Attach, Heartbeat, ProgramExited, Ready
from tony.protocol.messages import Message

if TYPE_CHECKING:
    from tony.executor.control.am_connection import AmTransport, Connect

_FAULTS = ("skip-heartbeats", "skew", "delay-ready", "only", "orders")


def main() -> int:
    """Run an executor with the faults given as arguments; its launch context is read as in production."""
    faults = read_faults(sys.argv[1:])
    orders = faults.pop("orders", None)
    file = Path(orders).absolute() if orders else None  # resolved now, while the working directory is the job directory
    return run(None, lambda connect: inject_faults(file, wrap(faults, connect)) if file else wrap(faults, connect))


def read_faults(arguments: Sequence[str]) -> dict[str, str]:
    """Parse `name=value` arguments.

    Raises:
        ValueError: the name of a fault is unknown.
    """
    faults = dict(argument.split("=", 1) for argument in arguments if argument)
    unknown = sorted(set(faults) - set(_FAULTS))
    if unknown:
        raise ValueError(f"no such fault: {', '.join(unknown)}; use one of {', '.join(_FAULTS)}")
    return faults


def wrap(faults: Mapping[str, str], connect: Connect) -> Connect:
    """Return a connect function whose connections have these faults."""
    state = _State(faults)

    async def connect_within(timeout: float) -> AmTransport:
        return _Misbehaving(await connect(timeout), state)

    return connect_within


class _State:
    """The remaining faults of one executor, over all of its connections."""

    def __init__(self, faults: Mapping[str, str]) -> None:
        self.only = faults.get("only")
        self.skip_heartbeats = int(faults.get("skip-heartbeats", 0))
        self.skew = float(faults.get("skew", 0))
        self.delay_ready = float(faults.get("delay-ready", 0))

    def behave(self) -> None:
        """Disable all faults."""
        self.skip_heartbeats, self.skew, self.delay_ready = 0, 0.0, 0.0


class _Misbehaving:
    """A connection that delays or drops messages. It keeps their order, since reports are numbered."""

    def __init__(self, connection: AmTransport, state: _State) -> None:
        self._connection = connection
        self._state = state
        self._free_at = 0.0

    def send(self, message: Message) -> None:
        """Send a message now, later, or not at all."""
        state = self._state
        delay = 0.0
        match message:
            case Attach(task=task):
                if state.only not in (None, task):
                    state.behave()
            case Heartbeat():
                if state.skip_heartbeats > 0:
                    state.skip_heartbeats -= 1
                else:
                    self._connection.send(message)
                return
            case ProgramExited():
                delay = state.skew
                message = replace(message, ago=message.ago + delay)
            case Ready():
                delay, state.delay_ready = state.delay_ready, 0.0
        loop = asyncio.get_running_loop()
        at = max(loop.time() + delay, self._free_at)
        if at <= loop.time():
            self._connection.send(message)
        else:
            self._free_at = at + 0.0001  # timers with equal deadlines fire in any order
            loop.call_at(at, self._connection.send, message)

    async def receive(self) -> Message | None:
        """Return the next message."""
        return await self._connection.receive()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @property
    def is_full(self) -> bool:
        """Whether the send buffer is full."""
        return self._connection.is_full
