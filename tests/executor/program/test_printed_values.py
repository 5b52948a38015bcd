"""Exports of a program are found among any other output, at no cost for programs without exports."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.executor.conftest import Start
from tests.executor.fake_am import Master
from tony.executor.program.printed_values import MAX_LINE_BYTES, Exports
from tony.protocol import executor_messages as msg
from tony.protocol.executor_messages import MAX_EXPORT_BYTES

MARK = "Model parameters: "


def found(*pieces: bytes, mark: str = MARK) -> str | None:
    """The value in one stream that comes in these pieces."""
    exports = Exports({"V": mark})
    reader = exports.create_reader()
    for piece in pieces:
        reader.feed(piece)
    return exports.collect_values()["V"]


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        (b"", None),
        (b"nothing of the kind\n", None),
        (b"Model parameters: --lr 0.1\n", "--lr 0.1"),
        (b"INFO 12:00 Model parameters:   --lr 0.1 \t\r\nbye\n", "--lr 0.1"),
        (b"Model parameters: 1\nModel parameters: 2\nbye\n", "2"),
        (b"Model parameters: without an end", "without an end"),
        (b"Model parameters: \n", ""),
        (b"Model parameters:\n", None),
        (b"Model parameters: a Model parameters: b\n", "a Model parameters: b"),
        (b"10%\rModel parameters: 3\r100%\r", "3"),
        (b"Model parameters: a\0b\xff\n", "ab\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_the_rest_of_the_last_line(printed: bytes, expected: str | None) -> None:
    """Trimmed; carriage returns end lines, too; what comes in one piece and byte by byte is the same."""
    assert found(printed) == expected
    assert found(*(printed[i : i + 1] for i in range(len(printed)))) == expected


def naive(printed: bytes, mark: bytes) -> bytes | None:
    """The same, line by line over everything."""
    value = None
    for line in re.split(rb"[\r\n]", printed):
        _, there, rest = line[:MAX_LINE_BYTES].partition(mark)
        value = rest.strip() if there else value
    return value


@given(st.lists(st.text("ab:\n\r ", max_size=12), max_size=12), st.text("ab:", min_size=1, max_size=3))
@example(["aa", "a\n"], "aa")
def test_pieces_make_no_difference(pieces: list[str], mark: str) -> None:
    """Wherever the pieces are cut, what is found is what a look at every line would find."""
    expected = naive("".join(pieces).encode(), mark.encode())
    assert found(*(piece.encode() for piece in pieces), mark=mark) == (None if expected is None else expected.decode())


def test_a_long_value_is_cut_between_characters() -> None:
    """At most so many bytes, and no half of a letter."""
    value = found(f"{MARK}{'ä' * MAX_EXPORT_BYTES}\n".encode())
    assert value == "ä" * (MAX_EXPORT_BYTES // 2)
    assert found(f"{MARK}x{'ä' * MAX_EXPORT_BYTES}\n".encode()) == "x" + "ä" * (MAX_EXPORT_BYTES // 2 - 1)


@pytest.mark.parametrize("size", [1000, 1 << 18])
def test_of_an_endless_line_only_the_beginning_is_kept_and_looked_at(size: int) -> None:
    """However it is cut; the next line counts again."""
    exports = Exports({"V": MARK})
    reader = exports.create_reader()
    line = b"x" * (MAX_LINE_BYTES + size) + MARK.encode() + b"too late"
    for at in range(0, len(line), size):
        reader.feed(line[at : at + size])
        assert len(reader._partial) <= MAX_LINE_BYTES
    reader.feed(b"\n")
    assert exports.collect_values() == {"V": None}
    reader.feed(MARK.encode() + b"in time\n")
    assert exports.collect_values() == {"V": "in time"}


def test_the_last_printed_value_counts_on_both_streams() -> None:
    exports = Exports({"V": "v=", "W": "w="})
    out, err = exports.create_reader(), exports.create_reader()
    out.feed(b"v=1\nw=1\n")
    err.feed(b"v=2\n")
    assert exports.collect_values() == {"V": "2", "W": "1"}
    out.feed(b"v=3\n")
    assert exports.collect_values() == {"V": "3", "W": "1"}


def test_all_values_together_fit_into_a_message() -> None:
    """Values beyond the limit are dropped, and the log says which are missing."""
    wanted = {f"V{number}": f"v{number}=" for number in range(20)}
    exports = Exports(wanted)
    reader = exports.create_reader()
    for mark in wanted.values():
        reader.feed(mark.encode() + b'"' * MAX_EXPORT_BYTES + b"\n")
    values = exports.collect_values()
    assert [len(value or "") for value in values.values()] == [MAX_EXPORT_BYTES] * 3 + [0] * 17
    assert list(values.values())[3:] == [None] * 17


def test_looking_is_as_quick_as_a_search_in_memory() -> None:
    """A hundred megabytes of short lines in far less than a second; told by the processor's time, generously."""
    exports = Exports({"V": MARK, "W": "another: "})
    reader = exports.create_reader()
    piece = b"step 1000 loss 0.12345 accuracy 0.9876\n" * 6500
    began = time.process_time()
    for _ in range(400):
        reader.feed(piece)
    assert time.process_time() - began < 10.0
    assert exports.collect_values() == {"V": None, "W": None}


@pytest.mark.slow
def test_a_real_program_exports_its_output(master: Master, guest: Start) -> None:
    """The report of its exit has the values, and which are missing; its output is in the log files as always."""
    command = f"echo '{MARK}1'; echo '{MARK}2' >&2; sleep 0.2; printf '{MARK}three'"
    executor = guest(command, exports={"PARAMS": MARK, "GONE": "never said: "})
    master.wait(msg.Ready)
    master.start()
    assert master.wait(msg.ProgramExited).exports == {"PARAMS": "three", "GONE": None}
    assert Path(executor.read("worker-0.s1.t1.out")).as_posix() == f"{MARK}1\n{MARK}three"


@pytest.mark.slow
def test_a_program_gets_the_exports_of_other_tasks(master: Master, guest: Start) -> None:
    """They take precedence over the job's own variables, but not over those that every program gets."""
    executor = guest("echo $PARAMS $OWN $TASK_INDEX", env={"PARAMS": "default", "OWN": "own"})
    master.wait(msg.Ready)
    variables = {"PARAMS": "--lr 0.1", "TASK_INDEX": "77"}
    master.send(msg.StartProgram(attempt=1, session=1, try_=1, version=1, shared=None, variables=variables))
    assert master.wait(msg.ProgramExited).exports == {}
    assert executor.read("worker-0.s1.t1.out") == "--lr 0.1 own 0\n"
