"""What programs tell of themselves: datagrams of `tony.progress`, event files for TensorBoard, lines of output."""

from __future__ import annotations

import math
import os
import time

from tests.executor.event_records import VERSION, field, framed, scalar, tensor
from tests.fuzz.scratch_folders import scratch
from tests.fuzz.target import Target
from tony.executor.metrics.progress_listener import Advance, CheckpointReport, parse
from tony.executor.metrics.progress_pattern import LogPattern
from tony.executor.metrics.tensorboard_progress import TensorBoardProgress
from tony.executor.output.log_file import BoundedLogFile
from tony.executor.output.output_capture import Stream
from tony.executor.output.writer_thread import WriterThread
from tony.model.metric_definitions import MAX_PROGRAM_SERIES, series_of

_PATTERN = r"(?:step|epoch) (?P<step>\S+)(?:/(?P<total>\S+))?(?: loss (?P<loss>\S+))?"


def told(data: bytes) -> None:
    """One datagram: an advance that can be drawn, a checkpoint of the past, or nothing."""
    found = parse(data, 1e6)
    if isinstance(found, Advance):
        _drawable(found)
    if isinstance(found, CheckpointReport):
        assert found.step >= 0
        assert found.at <= 1e6
        assert 0 <= found.took < math.inf


def event_file(data: bytes) -> None:
    """A file that grows: read in two parts, it says nothing that cannot be drawn, and has an end."""
    folder = scratch("summaries")
    path = folder / "x.tfevents"
    summaries = TensorBoardProgress(folder, time.time() - 60)
    cut = data[0] * len(data) // 256 if data else 0
    for part in (data[1 : 1 + cut], data[1 + cut :]):
        with path.open("ab") as file:
            file.write(part)
        for _ in range(2):
            if advance := summaries.poll():
                _drawable(advance)


def printed_steps(data: bytes) -> None:
    stream = Stream(BoundedLogFile(scratch("steps") / "x.out", 1 << 16), WriterThread(), lambda: None)
    pattern = LogPattern(_PATTERN)
    for start in range(0, len(data), 100):
        stream._keep(data[start : start + 100])
        if advance := pattern.poll([stream]):
            _drawable(advance)
    for descriptor in (stream.pipes[0]._reading, stream.pipes[0].writing):
        os.close(descriptor)


def _drawable(advance: Advance) -> None:
    values = advance.to_values()
    assert len(advance.metrics) <= MAX_PROGRAM_SERIES
    assert all(math.isfinite(value) for value in values.values())
    assert all(series_of(name) for name in values)


TARGETS = (
    Target(
        name="told",
        run=told,
        errors=(),
        seeds=lambda: [b"p\t3.0\t10.0\tloss=0.5\tx=1e3", b"p\t3\t", b"c\t7\t999999.5\t0.25"],
        tokens=(b"p\t", b"c\t", b"\t", b"=", b"nan", b"1e308", b"-"),
        longest=512,
    ),
    Target(
        name="event-file",
        run=event_file,
        errors=(),
        seeds=lambda: [
            b"\x80" + VERSION + framed(scalar(1, loss=0.5)) + framed(scalar(2, loss=0.25)),
            b"\x00"
            + VERSION
            + framed(tensor(3, "a/b", 1.0, content=True))
            + framed(tensor(4, "c", 1.0, content=False)),
            b"\xff"
            + framed(field(2, 5) + field(5, field(1, field(1, b"t") + field(8, field(1, 2) + field(6, bytes(8)))))),
        ],
        tokens=(framed(b""), framed(b"\x10\x01"), VERSION),
        longest=1024,
        memory=16 << 20,
    ),
    Target(
        name="printed-steps",
        run=printed_steps,
        errors=(),
        seeds=lambda: [b"step 1/10 loss 0.5\nepoch 2\r\nstep 3 loss nan\rstep 4%", b"step " + b"1" * 3000 + b"\n"],
        tokens=(b"step ", b"/", b" loss ", b"\r", b"\n", b"1e400"),
        longest=1024,
    ),
)
