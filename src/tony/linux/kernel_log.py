"""The kernel's log, where this user may read it: `/dev/kmsg`."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence

#: Records that are read at most, and bytes of one: the kernel's limit.
_MAX_RECORDS = 20_000
_RECORD_BYTES = 8192
#: Messages that are returned at most: the last ones.
_MAX_MESSAGES = 200
#: Seconds by which the kernel's clock for its log may differ from ours.
_SLACK_SECONDS = 1.0
#: `priority,sequence,microseconds,flags[,...];message`.
_RECORD = re.compile(rb"^\d+,\d+,(\d{1,19}),[^;]*;([^\n]*)")


def read_messages(seconds: float, device: str = "/dev/kmsg") -> Sequence[str]:
    """Return the messages of the last seconds, oldest first; none where the log cannot be read."""
    try:
        descriptor = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ()
    try:
        return parse_records(lambda: os.read(descriptor, _RECORD_BYTES), time.monotonic() - seconds - _SLACK_SECONDS)
    finally:
        os.close(descriptor)


def parse_records(read: Callable[[], bytes], since: float) -> Sequence[str]:
    """Return the messages of the records that `read` returns one by one.

    Args:
        read: raises BrokenPipeError if records were overwritten meanwhile, another OSError at the end.
        since: seconds since the start of the machine.
    """
    found: list[str] = []
    for _ in range(_MAX_RECORDS):
        try:
            record = read()
        except BrokenPipeError:
            continue
        except OSError:
            break
        match = _RECORD.match(record)
        if not record:
            break
        if match and int(match[1]) / 1e6 >= since:
            found.append(match[2].decode(errors="replace"))
    return found[-_MAX_MESSAGES:]
