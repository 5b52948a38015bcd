"""Executors with faults: `bootstrap.command("tony.testing.faulty_executor", "skip-heartbeats=5", "skew=30")`.

Faults:

- `skip-heartbeats=N`: the first N heartbeats are not sent.
- `skew=SECONDS`: the program's end is reported so much later, with heartbeats all the while.
- `delay-ready=SECONDS`: the first registration comes so much later.
- `only=ROLE:INDEX`: the faults above hold for that task; others behave.
- `orders=FILE`: what a `Striker` orders while the job runs (`faults/connection.py`): partitions, lost, late and doubled
  messages. The file's name is relative to the job's folder.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tony.dataclass import replace
from tony.executor.main import run
from tony.protocol.messages import Attach, Heartbeat, Message, ProgramExited, Ready
from tony.testing.faults.faulty_connection import struck

if TYPE_CHECKING:
    from tony.executor.am_connection import AmTransport, Connect

_FAULTS = ("skip-heartbeats", "skew", "delay-ready", "only", "orders")


def main() -> int:
    """Runs an executor with the faults that the arguments name; its launch context comes as for any other."""
    faults = read_faults(sys.argv[1:])
    orders = faults.pop("orders", None)
    file = Path(orders).absolute() if orders else None  # now: the folder we are in is the job's
    return run(None, lambda connect: struck(file, wrap(faults, connect)) if file else wrap(faults, connect))


def read_faults(arguments: Sequence[str]) -> dict[str, str]:
    """Reads `name=value` arguments.

    Raises:
        ValueError: a fault that we do not know.
    """
    faults = dict(argument.split("=", 1) for argument in arguments if argument)
    unknown = sorted(set(faults) - set(_FAULTS))
    if unknown:
        raise ValueError(f"no such fault: {', '.join(unknown)}; there are {', '.join(_FAULTS)}")
    return faults


def wrap(faults: Mapping[str, str], connect: Connect) -> Connect:
    """Connections made from now on misbehave."""
    state = _State(faults)

    async def connect_within(timeout: float) -> AmTransport:
        return _Misbehaving(await connect(timeout), state)

    return connect_within


class _State:
    """What is left of the faults, over all connections of one executor."""

    def __init__(self, faults: Mapping[str, str]) -> None:
        self.only = faults.get("only")
        self.skip_heartbeats = int(faults.get("skip-heartbeats", 0))
        self.skew = float(faults.get("skew", 0))
        self.delay_ready = float(faults.get("delay-ready", 0))

    def behave(self) -> None:
        """No faults from now on."""
        self.skip_heartbeats, self.skew, self.delay_ready = 0, 0.0, 0.0


class _Misbehaving:
    """A connection that holds back some of what is sent. Order is kept, since reports are numbered."""

    def __init__(self, connection: AmTransport, state: _State) -> None:
        self._connection = connection
        self._state = state
        self._free_at = 0.0

    def send(self, message: Message) -> None:
        """Sends, later, or not at all."""
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
            self._free_at = at + 0.0001  # timers of one moment fire in any order
            loop.call_at(at, self._connection.send, message)

    async def receive(self) -> Message | None:
        """The next message."""
        return await self._connection.receive()

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    @property
    def is_full(self) -> bool:
        """Whether more was sent than the other side takes now."""
        return self._connection.is_full
