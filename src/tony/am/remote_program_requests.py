"""Requests of clients to run programs in tasks' containers: checked, recorded as events, then sent to the executor."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import count
from pathlib import PurePath

from tony.am.tunnel_broker import TunnelBroker
from tony.core.events import RemoteProgramRequested
from tony.model.actor import Actor
from tony.protocol.framing import Raw
from tony.protocol.message_base import Message
from tony.protocol.remote_program_messages import (
    ClientTerminal,
    InputTaken,
    InterruptProgram,
    RemoteProgramExited,
    ResizeWindow,
    RunInTask,
    StartRemoteProgram,
    decode_arguments,
)
from tony.protocol.tunnel_messages import EndTunnel, TunnelFailed
from tony.rpc.connection import RpcConnection

#: Names of programs that are recorded. Other text may be a whole command line, with secrets.
_PROGRAM_NAME = re.compile(r"[\w.+-]{1,64}", re.ASCII)
_UNNAMED = "a program"
_TERMINAL_KIND = re.compile(r"[\w.+-]{1,64}", re.ASCII)
_FROM_CLIENT: tuple[type[Message], ...] = (Raw, EndTunnel, InterruptProgram, ResizeWindow)
_FROM_EXECUTOR: tuple[type[Message], ...] = (Raw, InputTaken, RemoteProgramExited)


class RemoteProgramRequests:
    """The requests of this AM attempt that are being recorded.

    Args:
        tunnels: joins the client's connection with the executor's.
    """

    def __init__(self, tunnels: TunnelBroker) -> None:
        self._tunnels = tunnels
        self._numbers = count(1)
        self._recorded_soon: dict[int, tuple[RpcConnection, RunInTask]] = {}

    def on_request(self, client: RpcConnection, message: RunInTask, actor: Actor) -> RemoteProgramRequested | None:
        """Return the event that leads to `start`; None if the request was refused."""
        try:
            argv = decode_arguments(message.argv)
        except ValueError as error:
            reason = str(error)
        else:
            reason = self._tunnels.explain_refusal(message.task)
        if client in (each for each, _ in self._recorded_soon.values()):
            reason = "this connection has requested a program already"
        if reason:
            client.send(TunnelFailed(reason=reason))
            return None
        number = next(self._numbers)
        self._recorded_soon[number] = client, replace(message, terminal=_check_terminal(message.terminal))
        return RemoteProgramRequested(
            actor=actor,
            task=message.task,
            number=number,
            program=find_program_name(argv[0]) if argv else "",
            argument_count=max(0, len(argv) - 1),
        )

    def start(self, number: int) -> None:
        """Have the executor start a program, now that its request is in the log; nothing if the client has gone."""
        found = self._recorded_soon.pop(number, None)
        if found is None:
            return
        client, message = found

        def build(word: str) -> StartRemoteProgram:
            return StartRemoteProgram(tunnel=word, argv=message.argv, terminal=message.terminal)

        self._tunnels.request(client, message.task, build, _FROM_CLIENT, _FROM_EXECUTOR)

    def on_closed(self, client: RpcConnection) -> None:
        """Drop the request of a client that has disconnected."""
        for number in [number for number, (each, _) in self._recorded_soon.items() if each is client]:
            del self._recorded_soon[number]


def find_program_name(program: bytes) -> str:
    """Return the name of a program for the job's history: without its folder, and only if it looks like a name."""
    name = PurePath(program.decode("utf-8", "replace")).name
    return name if _PROGRAM_NAME.fullmatch(name) else _UNNAMED


def _check_terminal(terminal: ClientTerminal | None) -> ClientTerminal | None:
    if terminal is None:
        return None
    kind = terminal.kind if _TERMINAL_KIND.fullmatch(terminal.kind) else "dumb"
    return ClientTerminal(size=terminal.size.limit(), kind=kind)
