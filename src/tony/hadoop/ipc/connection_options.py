"""Timeouts and size limits of an IPC connection."""

from __future__ import annotations

from dataclasses import dataclass

from tony.hadoop.ipc.frames import MAX_FRAME


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """Settings of one connection; the defaults are Hadoop's.

    Attributes:
        connect_timeout: seconds for TCP, all addresses of a name together (`ipc.client.connect.timeout`).
        login_timeout: seconds for the negotiation; with Kerberos the KDC is part of it.
        call_timeout: seconds for an answer; None waits for ever (`ipc.client.rpc-timeout.ms`, 120 s since 3.4).
        ping_interval: seconds of silence with a call pending until a ping is sent (`ipc.ping.interval`).
        dead_after: seconds that bytes may lie unacknowledged until the kernel gives the connection up.
        max_answer: bytes of the longest answer (`ipc.maximum.response.length`).
    """

    connect_timeout: float = 20.0
    login_timeout: float = 30.0
    call_timeout: float | None = 120.0
    ping_interval: float = 60.0
    dead_after: float = 60.0
    max_answer: int = MAX_FRAME


DEFAULTS = ConnectionOptions()
