"""The ports that a task has reserved for its program."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Sequence

from tony.linux.port_reservation import PortsExhausted, Reservation, listeners, reserve
from tony.model.states import ReservedPort

log = logging.getLogger(__name__)

_IN_USE = re.compile(r"address already in use|EADDRINUSE", re.IGNORECASE)
#: What may be a port in such a line; error numbers are shorter.
_PORT = re.compile(r"(?<![\d.])\d{4,5}(?![\d.])")


class TaskPorts:
    """One session's ports: one that other tasks know, perhaps one for TensorBoard.

    Attributes:
        port: the first is what the cluster spec names; 0 before the first `renew`.
        tb_port: for TensorBoard, None for tasks that have none.
    """

    def __init__(
        self,
        port_range: tuple[int, int] | None,
        wants_tb_port: bool,
        role: str = "main",
        mode: ReservedPort = ReservedPort.RESERVED,
    ) -> None:
        """Reserves nothing yet."""
        self._role = role
        self.port = 0
        self.tb_port: int | None = None
        self._range = port_range
        self._wants_tb_port = wants_tb_port
        self._held: list[Reservation] = []
        self._let_go = mode is ReservedPort.FREE
        self._answered = False

    def renew(self) -> None:
        """Reserves ports for another session and gives up those of the last one.

        They are others if there are others: what was meant for the last session finds nobody.

        Raises:
            PortsExhausted: says which range is full.
        """
        old, self._held = self._held, []
        try:
            self._reserve()
        except PortsExhausted:
            self.close()
            for reservation in old:
                reservation.close()
            self._reserve()
        for reservation in old:
            reservation.close()

    def listen(self) -> socket.socket:
        """Takes the first port for ourselves: a socket that listens there. To be called after each `renew`.

        Raises:
            PortsExhausted: it was taken meanwhile.
        """
        listening = self._held[0].listen()
        self._answered = True
        return listening

    def _reserve(self) -> None:
        self._held.append(reserve(self._range))
        self.port = self._held[0].port
        if self._wants_tb_port:
            self._held.append(reserve(self._range))
            self.tb_port = self._held[1].port

    def close(self) -> None:
        """Gives up everything. May be called twice."""
        for reservation in self._held:
            reservation.close()
        self._held.clear()

    def before_start(self) -> None:
        """Free the ports of a program that is about to start, if its role says so or it has failed to bind them."""
        if self._let_go:
            for reservation in self._held:
                reservation.close()

    def taken(self) -> str:
        """Who else listens on a port of ours while our program does not run; empty if nobody."""
        for name, port in self._named():
            for listener in listeners(port):
                return f"{name} {port}, reserved for this task, was taken by {listener}"
        return ""

    def blamed(self, tail: Sequence[str]) -> str:
        """Whether a program's last words say that it could not bind a port of ours; empty if not.

        A line without a port's number (as Python prints it) is taken to mean ours. As long as this process holds the
        port, a server that sets neither SO_REUSEADDR nor SO_REUSEPORT cannot bind it: from now on ports are freed when
        the program starts.
        """
        words = [line for line in tail if _IN_USE.search(line)]
        if not words:
            return ""
        named = {int(number) for line in words for number in _PORT.findall(line)}
        ours = [(name, port) for name, port in self._named() if not named or port in named]
        if not ours:
            return ""
        name, port = ours[0]
        in_use = f"{name} {port}, reserved for this task, was in use when the program wanted it"
        if self._let_go:
            return f"{in_use}, by a process that no longer listens on it"
        log.warning("the program found an address in use; from now on its ports are freed when it starts")
        self._let_go = True
        return (
            f"{in_use}: tony's executor (process {os.getpid()}) holds it, and the program's server sets neither "
            f'SO_REUSEADDR nor SO_REUSEPORT (roles.{self._role}.port = "free" leaves it free, as the next session does)'
        )

    def _named(self) -> list[tuple[str, int]]:
        """The ports that are the program's."""
        found = [("port", self.port)] if self.port and not self._answered else []
        return found if self.tb_port is None else [*found, ("TensorBoard port", self.tb_port)]
