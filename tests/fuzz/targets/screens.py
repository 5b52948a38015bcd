"""What programs print and reports say, on its way to files and terminals."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.scratch_folders import scratch
from tests.fuzz.target import Target
from tests.fuzz.values import plain_of
from tony.cli.terminal.terminal_text import count_columns, cut, escape_line, format_table
from tony.cli.text.log_printer import LogPrinter
from tony.cli.text.status_changes import StatusChanges
from tony.cli.text.status_text import format_live_table, format_status
from tony.control_characters import escape
from tony.executor.output.log_file import BoundedLogFile
from tony.executor.program.printed_values import Exports
from tony.jobs.log_files import Selection, find_log_files
from tony.jobs.log_lines import MAX_LINE_BYTES
from tony.jobs.log_reader import LogReader, open_readers
from tony.jobs.log_tail import LiveReader, LogTail
from tony.model.codec import DecodeError, from_plain
from tony.model.job_report import JobReport
from tony.model.log_name import STREAMS, LogName
from tony.model.strict_json import InvalidJsonError, loads

_MARKS = {"LOSS": "line", "END": "%"}
_COLOUR = re.compile("\x1b\\[[0-9;:]*m")
_NAME = LogName("worker", 0, 1, 1, "out")


def terminal(data: bytes) -> None:
    """A line of a program's output, a name, a cell of a table."""
    for text in (data.decode("utf-8", "replace"), data.decode("utf-8", "surrogateescape"), data.decode("latin-1")):
        plain = escape(text)
        assert escape(plain) == plain
        plain.encode()
        shown = escape_line(text)
        bare = _COLOUR.sub("", shown)
        assert escape(bare) == bare, ascii(bare[:100])
        shown.encode()
        if bare != shown:
            assert shown.endswith("\x1b[0m")
        for columns in (0, 1, 7, 80):
            assert count_columns(cut(plain, columns)) <= columns
        lines = format_table([("A", "B", "C"), (plain, plain, plain)], 40, (1,))
        assert all(count_columns(line) <= 40 for line in lines)


class _Terminal(io.TextIOWrapper):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def printed(data: bytes) -> None:
    """Lines of programs on a terminal, in a file, as JSON."""
    folder = scratch("logs")
    (folder / _NAME.file).write_bytes(data)
    lines = list(LogReader(folder, _NAME).drain())
    raw = io.BytesIO()
    with _Terminal(raw, encoding="utf-8") as stream:
        LogPrinter(stream).print(lines)
        bare = _COLOUR.sub("", raw.getvalue().decode())
        assert len(bare.splitlines()) >= len(lines)
        assert all(escape(line) == line for line in bare.split("\n"))
    as_json = io.BytesIO()
    with io.TextIOWrapper(as_json, encoding="utf-8") as stream:
        LogPrinter(stream, as_json=True).print(lines)
        assert [json.loads(line)["line"] for line in as_json.getvalue().splitlines()] == [line.text for line in lines]


def reader(data: bytes) -> None:
    """A task's log, read while it grows and rotates: no byte twice, none lost but by two rotations at once."""
    how, stream = (data[0] if data else 0), data[1:]
    folder = scratch("logs")
    place = folder / _NAME.file
    exact, live = LogReader(folder, _NAME), LiveReader(folder, _NAME)
    got: list[bytes] = []
    for number, piece in enumerate(_pieces(stream, 1 + how * 8 + len(stream) // 50)):
        with place.open("ab") as file:
            file.write(piece)
        got += _read(exact)
        _read(live)
        if how % 3 == 0 and number % 4 == 3:
            os.replace(place, _NAME.build_rotated_path(folder))
    got += [line.data for line in exact.drain()]
    assert all(len(line) <= MAX_LINE_BYTES + 256 * 1024 for line in got)
    assert b"".join(got) == stream.replace(b"\n", b"")
    for keep in (0, 1, 3):
        last = [line.data for each in open_readers(folder, [_NAME], keep) for line in each.drain()]
        # A line that is too long comes in pieces of that length, and a rest.
        assert sum(len(piece) != MAX_LINE_BYTES for piece in last) <= keep
        assert stream.replace(b"\n", b"").endswith(b"".join(last))


def _read(reader: LogReader) -> list[bytes]:
    return [line.data for line in reader.read()]


def _pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def kept(data: bytes) -> None:
    """A program's output on disk: within its limit, and the end of what was printed; and what it passes on."""
    how, limit, stream = (*data[:2], 0, 0)[0], (*data[:2], 0, 0)[1] * 4, data[2:]
    place = scratch("output") / "x.out"
    file = BoundedLogFile(place, limit)
    exports = Exports(_MARKS)
    looking = exports.create_reader()
    for piece in _pieces(stream, 1 + how + len(stream) // 500):
        file.write(piece)
        looking.feed(piece)
    file.close()
    for name, value in exports.collect_values().items():
        assert (value is None) == (_MARKS[name].encode() not in stream)
        assert "\0" not in (value or "")
        assert value == (value and value.strip())
    older = place.with_name("x.out.1")
    found = (older.read_bytes() if older.exists() else b"") + (place.read_bytes() if place.exists() else b"")
    assert len(found) <= limit
    assert stream.endswith(found)
    assert file.lost == 0


def names(data: bytes) -> None:
    """Files of any name in a folder of logs that is followed; the first line says what they are."""
    folder = scratch("logs")
    kinds, *lines = data.replace(b"\0", b"").split(b"\n")
    with LogTail(folder, Selection(), live=True) as tail:
        for number, line in enumerate(lines[:8]):
            _make(folder, line, kinds[number % len(kinds)] % 4 if kinds else 0)
        changed = tail.take_changes()
        for found in (*tail.read_new_lines(changed), *tail.read_new_lines(), *tail.drain()):
            assert found.name.stream in STREAMS
    for name in find_log_files(folder, Selection()):
        assert LogName.parse(name.file) == name


def _make(folder: Path, name: bytes, kind: int) -> None:
    place = os.fsencode(folder) + b"/" + name
    if not name or b"/" in name or name in (b".", b"..") or len(name) > 255 or os.path.lexists(place):
        return
    if kind == 1:
        os.mkdir(place)
    elif kind == 2:
        os.mkfifo(place)
    elif kind == 3:
        os.symlink(name, place)
    else:
        with open(place, "wb") as file:
            file.write(b"x\ny")


def pages(data: bytes) -> None:
    """A report, as it came over the wire, in every form it has for people."""
    try:
        report = from_plain(JobReport, loads(data), ignore_unknown=True)
    except (InvalidJsonError, DecodeError):
        return
    for columns in (10, 40, 200):
        for row in (*format_live_table(report, 1e9, columns, 5), *format_status(report, columns, {2: "why"})):
            assert escape(row) == row, ascii(row[:100])
    for row in format_live_table(report, 1e9, 30, 0):
        assert count_columns(row) <= 30
    story = StatusChanges()
    story.describe(report, 0.0)
    story.describe(report, 40.0)


_SCREEN_WORDS = (
    b"\x1b[31m",
    b"\x1b[0m",
    b"\x1b]0;",
    b"\x1b[2J",
    b"\x9b",
    b"\x07",
    b"\r",
    "\u202e".encode(),
    "ｗ".encode(),
)
_OUTPUT = b"line one\n 10%\r 20%\r100%\n\x1b[31mred\x1b[0m\n\xff\xfe\nno end"


def _names_seeds() -> list[bytes]:
    return [
        (
            b"0101\nworker-0.s1.t1.out\nworker-0.s1.t1.out.1\nworker-0.s1.t1.err\nps-1.s2.t3.err\nworker-0.executor.log\n"
            b"\xff\xfe.out"
        ),
        b"123\nworker-0.s1.t1.out\nworker-1.s1.t1.out\nworker-2.s1.t1.out",
    ]


TARGETS = (
    Target(
        name="terminal",
        run=terminal,
        errors=(),
        seeds=lambda: [_OUTPUT, "ｗｉｄｅ é e\u0301 \u202e x".encode(), b"\x1b[1;31m\x1b[Kx\x1b[0m\x9b2J\x1b]0;t\x07"],
        tokens=_SCREEN_WORDS,
    ),
    Target(name="printed", run=printed, errors=(), seeds=lambda: [_OUTPUT], tokens=_SCREEN_WORDS, longest=1024),
    Target(
        name="log-reader",
        run=reader,
        errors=(),
        seeds=lambda: [b"\x00" + _OUTPUT, b"\x01" + _OUTPUT, b"\x03" + _OUTPUT * 5],
        memory=16 << 20,
    ),
    Target(
        name="log-file",
        run=kept,
        errors=(),
        seeds=lambda: [b"\x05\x05" + _OUTPUT, b"\xff\x02" + _OUTPUT * 3],
        longest=1024,
    ),
    Target(
        name="log-names",
        run=names,
        errors=(),
        seeds=_names_seeds,
        tokens=(b".out", b".err", b".s1.t1", b".1"),
        longest=512,
    ),
    Target(name="pages", run=pages, errors=(), seeds=lambda: [json.dumps(plain_of(JobReport)).encode()], json=True),
)
