"""What a played Hadoop daemon does wrong when it is told to."""

from __future__ import annotations

import asyncio
from enum import Enum

from tony.dataclass import dataclass


class FaultMoment(Enum):
    """When a fault strikes."""

    #: Somebody connected.
    CONNECT = "connect"
    #: A step of the login came.
    LOGIN = "login"
    #: A call came.
    CALL = "call"


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayResponse:
    """The answer comes late; others overtake it."""

    seconds: float


class HoldResponse:
    """The answer comes when the test releases it; `executed` says whether the call is carried out before."""

    def __init__(self, *, executed: bool = True) -> None:
        self.executed = executed
        self._released = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Set when a call is held.
        self.is_held = asyncio.Event()

    def release(self) -> None:
        """Lets the answer go; from any thread."""
        loop = self._loop
        if loop is None:
            self._released.set()
        else:
            loop.call_soon_threadsafe(self._released.set)

    async def wait_released(self) -> None:
        """For the server."""
        self._loop = asyncio.get_running_loop()
        self.is_held.set()
        await self._released.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class DropResponse:
    """The connection is closed instead of an answer; `executed` says whether the call is carried out before."""

    executed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """No answer, ever; the connection stays."""

    executed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """An exception instead of an answer; with `fatal` the connection is closed after it."""

    class_name: str
    message: str = "refused on order"
    fatal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Garble:
    """These bytes, as they are, instead of an answer."""

    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Only so many bytes of the answer, then the end of the connection. The call was carried out."""

    after: int = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Dribble:
    """The answer in pieces of so many bytes, with a turn of the loop between them."""

    size: int = 1


Fault = DelayResponse | HoldResponse | DropResponse | Silence | Refuse | Garble | Cut | Dribble


def standby() -> Refuse:
    """As a daemon answers that is not the active one of a pair."""
    return Refuse(
        class_name="org.apache.hadoop.ipc.StandbyException",
        message="Operation category READ is not supported in state standby",
    )


def retriable(message: str = "not now") -> Refuse:
    """As a daemon answers that starts up, or is in safe mode."""
    return Refuse(class_name="org.apache.hadoop.ipc.RetriableException", message=message)


@dataclass(slots=True, kw_only=True)
class _Order:
    fault: Fault
    method: str | None
    at: FaultMoment
    times: int
    skip: int


class Orders:
    """The faults that are still to strike, in order of ordering."""

    def __init__(self) -> None:
        self._orders: list[_Order] = []

    def order(self, fault: Fault, *, method: str | None, at: FaultMoment, times: int, skip: int) -> None:
        """Puts one on the list."""
        self._orders.append(_Order(fault=fault, method=method, at=at, times=times, skip=skip))

    def next(self, at: FaultMoment, method: str | None = None) -> Fault | None:
        """The fault for what happens now, if one was ordered."""
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
        """No more faults."""
        self._orders.clear()

    @property
    def left(self) -> int:
        """Orders that have not been used up."""
        return len(self._orders)
