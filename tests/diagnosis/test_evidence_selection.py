"""Lines of the kernel next to those of the output, and tracebacks of programs that succeed."""

from __future__ import annotations

import pytest

from tony.diagnosis.evidence_selection import MAX_EVIDENCE_LINES, add_kernel_lines, find_last_traceback
from tony.diagnosis.output_scanner import OutputScanner
from tony.model.diagnosis import EvidenceLine

TRACEBACK = 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n    f()\nValueError: x\n'


def line(rule: str, stream: str = "err") -> EvidenceLine:
    return EvidenceLine(stream=stream, number=1, text=rule, ago=0.0, rule=rule)


DISK = line("kernel-disk", "kernel")


@pytest.mark.parametrize(
    ("rules", "is_memory", "first"),
    [
        ([], False, "kernel-disk"),
        (["last-line"], False, "kernel-disk"),
        (["python-exception"], False, "kernel-disk"),
        (["connection-peer"], False, "kernel-disk"),  # about another task
        (["python-code"], False, "python-code"),
        (["python-code"], True, "kernel-disk"),
    ],
)
def test_the_kernel_is_decisive_unless_the_output_says_more(rules: list[str], is_memory: bool, first: str) -> None:
    found = add_kernel_lines([line(rule) for rule in rules], [DISK], is_memory=is_memory)
    assert found[0].rule == first
    assert DISK in found


def test_a_line_of_the_kernel_is_among_the_four() -> None:
    found = add_kernel_lines([line("python-code")] * MAX_EVIDENCE_LINES, [DISK], is_memory=False)
    assert (len(found), found[-1]) == (MAX_EVIDENCE_LINES, DISK)


def test_what_may_be_about_another_program_is_last_and_never_decisive() -> None:
    gpu = line("gpu-hardware", "kernel")
    found = add_kernel_lines([line("last-line")], [], is_memory=False, nearby=[gpu])
    assert found == (line("last-line"), gpu)
    assert add_kernel_lines([], [], is_memory=False, nearby=[gpu]) == ()


def test_without_lines_of_the_kernel_nothing_changes() -> None:
    assert add_kernel_lines([line("python-code")], [], is_memory=False) == (line("python-code"),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TRACEBACK, ["ValueError: x"]),
        (f"epoch 1\n{TRACEBACK}\n\n", ["ValueError: x"]),
        (f"{TRACEBACK}trying again\n", []),
        (f"2026-11-26 12:00:00 ERROR no checkpoint\n{TRACEBACK}", []),
        (f"Exception ignored in: <function Client.__del__ at 0x7f>\n{TRACEBACK}", []),
        ("ValueError: x\n", []),
        ("done\n", []),
        ("", []),
    ],
)
def test_the_traceback_that_ends_the_output(text: str, expected: list[str]) -> None:
    out, err = OutputScanner("out"), OutputScanner("err")
    out.feed(b"done\n", 1.0)  # by the last command of a pipe
    if text:
        err.feed(text.encode(), 1.0)
    assert [found.text for found in find_last_traceback([out, err], 2.0)] == expected
