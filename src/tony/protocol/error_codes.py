"""The stable words for what can be wrong on the wire: `ProtocolError.code`, `Refused.code`, the server's counters."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """Why one side will not hear of the other. Programs compare these, never the sentence beside them."""

    VERSION = "version"  #: the two sides speak different versions of the wire
    TOKEN = "token"  #: not this job's token
    TOO_LONG = "too-long"  #: a frame longer than its sender may send
    NOT_JSON = "not-json"  #: a frame that is not one JSON object (NaN, deep nesting and half characters included)
    UNKNOWN_KIND = "unknown-kind"  #: a message that this version does not know
    BAD_MESSAGE = "bad-message"  #: a known message whose fields do not fit, or a hello that is none
    #: You are not wanted here: another has your place, or nobody has it any more. Said by the programs, not by the
    #: transport, and by an application master only to executors that have obeyed none later than it.
    STALE = "stale"
    #: One of us two application masters is the older one, which has nothing more to say. Said by the programs, too.
    SUPERSEDED = "superseded"
    BUSY = "busy"  #: come back later; said by the programs, not by the transport
    TLS = "tls"  #: no TLS, or a certificate that this job's authority did not sign; never sent, only counted
    PEER = "peer"  #: a process of another user; never sent, only counted
    TIMEOUT = "timeout"  #: no complete hello in time; never sent, only counted
    SLOW_READER = "slow-reader"  #: does not read what it is sent; never sent, only counted
