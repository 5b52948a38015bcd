"""The kernel's log, read record by record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tony.linux.kernel_log import parse_records, read_messages

RECORDS = (
    b"6,339,5140900,-;NET: Registered protocol family 10\n",
    b"3,340,9000000,-;Memory cgroup out of memory: Killed process 4242 (python3)\n SUBSYSTEM=acpi\n",
    b"not a record",
    b"30,341,9500000,-,caller=T1;NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n",
)


def play(*answers: bytes | OSError) -> Callable[[], bytes]:
    left = [*answers, BlockingIOError()]

    def read() -> bytes:
        answer = left.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    return read


def test_messages_since_a_time() -> None:
    assert parse_records(play(*RECORDS), 8.0) == [
        "Memory cgroup out of memory: Killed process 4242 (python3)",
        "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.",
    ]


def test_overwritten_records_are_passed_over() -> None:
    assert len(parse_records(play(BrokenPipeError(), *RECORDS), 0.0)) == 3


def test_a_log_that_never_ends_is_not_read_for_ever() -> None:
    assert len(parse_records(lambda: RECORDS[0], 0.0)) == 200


def test_no_log_is_no_message(tmp_path: Path) -> None:
    assert read_messages(1.0, str(tmp_path / "none")) == ()
