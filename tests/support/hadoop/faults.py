"""Faults to inject into a fake Hadoop daemon."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum


class FaultMoment(Enum):
    """When a fault is injected."""

    #: A client connected.
    CONNECT = "connect"
    #: A login message was received.
    LOGIN = "login"
    #: A call was received.
    CALL = "call"


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayResponse:
    """Delay the response; others overtake it."""

    seconds: float


class HoldResponse:
    """Hold the response until the test releases it; `executed`: whether the call is executed before."""

    def __init__(self, *, executed: bool = True) -> None:
        self.executed = executed
        self._released = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Set while a call is held.
        self.is_held = asyncio.Event()

    def release(self) -> None:
        """Release the response; may be called from any thread."""
        loop = self._loop
        if loop is None:
            self._released.set()
        else:
            loop.call_soon_threadsafe(self._released.set)

    async def wait_released(self) -> None:
        """Wait for `release`; called by the server."""
        self._loop = asyncio.get_running_loop()
        self.is_held.set()
        await self._released.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class DropResponse:
    """Close the connection instead of a response; `executed`: whether the call is executed before."""

    executed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Never respond; keep the connection open."""

    executed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Respond with an exception; with `fatal`, close the connection after it."""

    class_name: str
    message: str = "injected fault"
    fatal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Garble:
    """Send these raw bytes instead of a response."""

    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Execute the call, send the first `after` bytes of the response, and close the connection."""

    after: int = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Dribble:
    """Send the response in pieces of `size` bytes, with an iteration of the event loop between them."""

    size: int = 1


Fault = DelayResponse | HoldResponse | DropResponse | Silence | Refuse | Garble | Cut | Dribble


def standby() -> Refuse:
    """Return the response of a standby daemon."""
    return Refuse(
        class_name="org.apache.hadoop.ipc.StandbyException",
        message="Operation category READ is not supported in state standby",
    )


def retriable(message: str = "not now") -> Refuse:
    """Return the response of a daemon that is starting, or in safe mode."""
    return Refuse(class_name="org.apache.hadoop.ipc.RetriableException", message=message)


@dataclass(slots=True, kw_only=True)
class _Order:
    fault: Fault
    method: str | None
    at: FaultMoment
    times: int
    skip: int


class Orders:
    """The queue of faults to inject."""

    def __init__(self) -> None:
        self._orders: list[_Order] = []

    def order(self, fault: Fault, *, method: str | None, at: FaultMoment, times: int, skip: int) -> None:
        """Add a fault."""
        self._orders.append(_Order(fault=fault, method=method, at=at, times=times, skip=skip))

    def next(self, at: FaultMoment, method: str | None = None) -> Fault | None:
        """Take the fault for the current request, if there is one."""
        for order in self._orders:
            if order.at is not at or order.method not in (None, method):
                continue
            if order.skip:
                order.skip -= 1
                continue
            order.times -= 1
            if order.times <= 0:
                self._orders.remove(order)
            return order.fault
        return None

    def clear(self) -> None:
        """Remove all faults."""
        self._orders.clear()

    @property
    def left(self) -> int:
        """The number of remaining entries."""
        return len(self._orders)
