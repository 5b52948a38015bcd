"""The ports reserved for a task's program."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Sequence

from tony.linux.port_reservation import PortsExhaustedError, Reservation, listeners, reserve
from tony.model.setting_choices import ReservedPort

log = logging.getLogger(__name__)

_IN_USE = re.compile(r"address already in use|EADDRINUSE", re.IGNORECASE)
#: A possible port number in such a line; error numbers are shorter.
_PORT = re.compile(r"(?<![\d.])\d{4,5}(?![\d.])")


class TaskPorts:
    """One session's ports: one that other tasks know, perhaps one for TensorBoard.

    Attributes:
        port: the port in the cluster spec; 0 before the first `renew`.
        tb_port: for TensorBoard; None for tasks without one.
    """

    def __init__(
        self,
        port_range: tuple[int, int] | None,
        wants_tb_port: bool,
        role: str = "main",
        mode: ReservedPort = ReservedPort.RESERVED,
    ) -> None:
        self._role = role
        self.port = 0
        self.tb_port: int | None = None
        self._range = port_range
        self._wants_tb_port = wants_tb_port
        self._reservations: list[Reservation] = []
        self._is_free = mode is ReservedPort.FREE
        self._is_served_by_tony = False

    def renew(self) -> None:
        """Reserve ports for another session and release those of the previous one.

        They differ from the previous ones if possible, so that late connections of the previous session fail.

        Raises:
            PortsExhaustedError: the range is full; the message names it.
        """
        old, self._reservations = self._reservations, []
        try:
            self._reserve()
        except PortsExhaustedError:
            self.close()
            for reservation in old:
                reservation.close()
            self._reserve()
        for reservation in old:
            reservation.close()

    def listen(self) -> socket.socket:
        """Return a socket that listens on the first port, for tony itself. Call it after each `renew`.

        Raises:
            PortsExhaustedError: the port was taken meanwhile.
        """
        listening = self._reservations[0].listen()
        self._is_served_by_tony = True
        return listening

    def _reserve(self) -> None:
        self._reservations.append(reserve(self._range))
        self.port = self._reservations[0].port
        if self._wants_tb_port:
            self._reservations.append(reserve(self._range))
            self.tb_port = self._reservations[1].port

    def close(self) -> None:
        """Release everything. May be called twice."""
        for reservation in self._reservations:
            reservation.close()
        self._reservations.clear()

    def release_before_start(self) -> None:
        """Release the ports of a program that is about to start, if its role says so or it has failed to bind them."""
        if self._is_free:
            for reservation in self._reservations:
                reservation.close()

    def find_taken(self) -> str:
        """Return which process has taken a reserved port while the program does not run; empty if none has."""
        for name, port in self._list_named():
            for listener in listeners(port):
                return f"{name} {port}, reserved for this task, was taken by {listener}"
        return ""

    def explain_bind_failure(self, tail: Sequence[str]) -> str:
        """Return a sentence if the program's last lines say that it could not bind a reserved port; else empty.

        A line without a port number (as Python prints it) counts as well. While this process holds the port, a server
        that sets neither SO_REUSEADDR nor SO_REUSEPORT cannot bind it: from now on ports are released when the program
        starts.
        """
        words = [line for line in tail if _IN_USE.search(line)]
        if not words:
            return ""
        named = {int(number) for line in words for number in _PORT.findall(line)}
        own_ports = [(name, port) for name, port in self._list_named() if not named or port in named]
        if not own_ports:
            return ""
        name, port = own_ports[0]
        in_use = f"{name} {port}, reserved for this task, was in use when the program tried to bind it"
        if self._is_free:
            return f"{in_use}, by a process that no longer listens on it"
        log.warning("the program found its address in use; from now on its ports are released when it starts")
        self._is_free = True
        return (
            f"{in_use}: tony's executor (process {os.getpid()}) holds it, and the program's server sets neither "
            f'SO_REUSEADDR nor SO_REUSEPORT (roles.{self._role}.port = "free" leaves it free, as the next session does)'
        )

    def _list_named(self) -> list[tuple[str, int]]:
        """Return the program's ports with their names."""
        found = [("port", self.port)] if self.port and not self._is_served_by_tony else []
        return found if self.tb_port is None else [*found, ("TensorBoard port", self.tb_port)]
