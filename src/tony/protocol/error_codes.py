"""Stable codes for protocol errors: `ProtocolError.code`, `Refused.code`, the server's counters."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """Reason for which one side refuses the other. Programs compare these, never the accompanying text."""

    VERSION = "version"  #: the two sides speak different versions of the wire
    TOKEN = "token"  #: the token of another job
    TOO_LONG = "too-long"  #: a frame longer than its sender may send
    NOT_JSON = "not-json"  #: a frame that is not one JSON object (NaN, deep nesting and half characters included)
    UNKNOWN_KIND = "unknown-kind"  #: a message that this version does not know
    BAD_MESSAGE = "bad-message"  #: a known message with invalid fields, or an invalid hello
    #: The peer was replaced, or is no longer needed. Sent by the AM or the executor, not by the transport; an AM
    #: sends it only to executors that have obeyed no later AM attempt.
    STALE = "stale"
    #: The AM attempt is older than another one that the executor has obeyed. Not sent by the transport either.
    SUPERSEDED = "superseded"
    BUSY = "busy"  #: try again later; not sent by the transport
    TLS = "tls"  #: no TLS, or a certificate that this job's authority did not sign; never sent, only counted
    PEER = "peer"  #: a process of another user; never sent, only counted
    TIMEOUT = "timeout"  #: no complete hello in time; never sent, only counted
    SLOW_READER = "slow-reader"  #: does not read what it is sent; never sent, only counted
