"""How far a program is, from TensorBoard's event files: whole ones, growing ones, torn and damaged ones."""

import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.executor.event_records import VERSION, field, framed, scalar, tensor
from tony import clock
from tony.executor.metrics.progress_listener import Advance
from tony.executor.metrics.tensorboard_progress import TensorBoardProgress
from tony.executor.metrics.tfevents import DamagedFileError, Scalars, compute_masked_crc, parse_record, read_length

NAME = "events.out.tfevents.1700000000.host.1.0"


def write(path: Path, *pieces: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.writelines(pieces)


def test_the_sum_is_that_of_the_format() -> None:
    """CRC32C of the nine digits is a known number; masked as TFRecords are."""
    crc = 0xE3069283
    assert compute_masked_crc(b"123456789") == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (scalar(7, loss=0.5, a__b=-2.0), Scalars(7, {"loss": 0.5, "a/b": -2.0})),
        (tensor(8, "loss", 0.25, content=True), Scalars(8, {"loss": 0.25})),
        (tensor(9, "loss", 0.75, content=False), Scalars(9, {"loss": 0.75})),
        (scalar(0, loss=float("nan")), None),
        (scalar(-3, loss=1.0), None),
        (field(2, 3), None),
        (field(2, 3) + field(5, field(1, field(1, b"text") + field(8, field(1, 7) + field(8, b"words")))), None),
        (field(2, 3) + field(5, field(1, field(1, b"\xff") + field(2, 1.0))), None),
        (b"\xff" * 30, None),
        (b"", None),
    ],
)
def test_scalars_of_an_event_are_parsed(data: bytes, expected: Scalars | None) -> None:
    """In all their forms; other values are ignored."""
    framed_data = framed(data)
    assert parse_record(framed_data[12:]).parse_scalars() == expected
    assert read_length(framed_data[:12]) == len(data)


def test_damaged_records_are_rejected() -> None:
    """One bit wrong in the data, or in its length."""
    good = framed(scalar(7, loss=0.5))
    assert parse_record(good[12:-5] + bytes([good[-5] ^ 1]) + good[-4:]).parse_scalars() is None
    with pytest.raises(DamagedFileError):
        read_length(bytes([good[0] ^ 1]) + good[1:12])


TENSORFLOW = """\
import sys
import tensorflow as tf
with tf.summary.create_file_writer(sys.argv[1] + "/train").as_default():
    tf.summary.text("notes", "words", step=11)
    tf.summary.histogram("weights", tf.range(100.0), step=11)
    tf.summary.scalar("epoch loss", 0.5, step=12)
"""


@pytest.mark.slow
@pytest.mark.framework
def test_tensorflows_own_files_are_read(tmp_path: Path) -> None:
    """What it writes is what we take it for."""
    summaries = TensorBoardProgress(tmp_path, time.time())
    subprocess.run([sys.executable, "-c", TENSORFLOW, str(tmp_path)], check=True, capture_output=True)
    assert summaries.poll() == Advance(12.0, None, {"user.train.epoch_loss": 0.5})


def test_a_file_is_read_on_as_it_grows(tmp_path: Path) -> None:
    """Each event once; half a record is left until it is whole."""
    summaries = TensorBoardProgress(tmp_path, time.time())
    assert summaries.poll() is None
    path = tmp_path / NAME
    write(path, VERSION, framed(scalar(1, loss=1.0)), framed(scalar(2, loss=0.5)))
    assert summaries.poll() == Advance(2.0, None, {"user.loss": 0.5})
    assert summaries.poll() is None
    more = framed(scalar(3, loss=0.25, acc=1.0))
    write(path, more[:20])
    assert summaries.poll() is None
    write(path, more[20:-1])
    assert summaries.poll() is None
    write(path, more[-1:])
    assert summaries.poll() == Advance(3.0, None, {"user.loss": 0.25, "user.acc": 1.0})


def test_the_first_step_is_the_first_one_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are written now and then: many steps come at once. Those before the program was started are not its own."""
    monkeypatch.setattr(clock, "wall", lambda: 2e9 + 120.0)
    monkeypatch.setattr(clock, "monotonic", lambda: 500.0)
    summaries = TensorBoardProgress(tmp_path, 2e9)
    events = [framed(scalar(step, 2e9 + step - 10.0, loss=1.0)) for step in range(11, 300)]
    write(tmp_path / NAME, VERSION, *events)
    os.utime(tmp_path / NAME, (2e9 + 120.0,) * 2)
    assert summaries.poll() == Advance(299.0, None, {"user.loss": 1.0})
    assert summaries.first == (11.0, 500.0 - 119.0)
    earlier = TensorBoardProgress(tmp_path, 2e9 + 100.0)
    assert earlier.poll()
    assert earlier.first is None


def test_parallel_runs_keep_their_names(tmp_path: Path) -> None:
    """`train` and `validation` have the same tags."""
    summaries = TensorBoardProgress(tmp_path, time.time())
    write(tmp_path / "train" / NAME, VERSION, framed(scalar(5, epoch_loss=1.0)))
    write(tmp_path / "validation" / NAME, VERSION, framed(scalar(4, epoch_loss=2.0)))
    expected = {"user.train.epoch_loss": 1.0, "user.validation.epoch_loss": 2.0}
    assert summaries.poll() == Advance(5.0, None, expected)


def test_files_of_earlier_task_attempts_are_ignored(tmp_path: Path) -> None:
    """Files without a write since the program was started are not its own."""
    write(tmp_path / NAME, VERSION, framed(scalar(500, loss=1.0)))
    os.utime(tmp_path / NAME, (1, 1))
    assert TensorBoardProgress(tmp_path, time.time()).poll() is None


def test_pictures_are_passed_over(tmp_path: Path) -> None:
    """A megabyte is not read for a step."""
    write(tmp_path / NAME, VERSION, framed(bytes(1 << 20)), framed(scalar(3, loss=0.5)))
    assert TensorBoardProgress(tmp_path, time.time()).poll() == Advance(3.0, None, {"user.loss": 0.5})


def test_of_very_much_the_end_is_read(tmp_path: Path) -> None:
    """A file that grows faster than it is read is caught up with at its end."""
    summaries = TensorBoardProgress(tmp_path, time.time())
    write(tmp_path / NAME, VERSION, *(framed(scalar(step, loss=1.0)) for step in range(20_000)))
    for _ in range(3):
        advance = summaries.poll()
    write(tmp_path / NAME, framed(scalar(20_000, loss=0.5)))
    advance = summaries.poll() or advance
    assert advance is not None
    assert advance.step == 20_000


def test_damage_in_the_middle_loses_only_existing_records(tmp_path: Path) -> None:
    """Reading continues with what is written afterwards."""
    summaries = TensorBoardProgress(tmp_path, time.time())
    path = tmp_path / NAME
    write(path, VERSION, framed(scalar(1, loss=1.0)))
    assert summaries.poll() is not None
    write(path, b"\0" * 100)
    assert summaries.poll() is None
    write(path, framed(scalar(2, loss=0.5)))
    assert summaries.poll() == Advance(2.0, None, {"user.loss": 0.5})


def test_files_that_are_no_event_files_are_ignored(tmp_path: Path) -> None:
    """Text, a folder, a pipe without a writer, a length beyond all bounds."""
    write(tmp_path / "a.tfevents", b"hello, world, this is text\n" * 10)
    (tmp_path / "b.tfevents").mkdir()
    os.mkfifo(tmp_path / "c.tfevents")
    length = struct.pack("<Q", 1 << 62)
    write(tmp_path / "d.tfevents", length + struct.pack("<I", compute_masked_crc(length)) + b"x" * 50)
    summaries = TensorBoardProgress(tmp_path, time.time())
    assert (summaries.poll(), summaries.poll()) == (None, None)


def test_a_rewritten_file_is_read_from_its_start(tmp_path: Path) -> None:
    """Some programs reuse a name."""
    summaries = TensorBoardProgress(tmp_path, time.time())
    write(tmp_path / NAME, VERSION, framed(scalar(1, loss=1.0)), framed(scalar(2, loss=1.0)))
    assert summaries.poll() is not None
    (tmp_path / NAME).write_bytes(VERSION + framed(scalar(1, loss=3.0)))
    assert summaries.poll() == Advance(1.0, None, {"user.loss": 3.0})


def test_losses_come_first_where_there_is_too_much(tmp_path: Path) -> None:
    """A program has only so many series."""
    tags = {f"a{number}": 1.0 for number in range(100)}
    write(tmp_path / NAME, VERSION, framed(scalar(1, **tags, z__loss=2.0)))
    advance = TensorBoardProgress(tmp_path, time.time()).poll()
    assert advance is not None
    assert len(advance.metrics) == 32
    assert advance.metrics["user.z.loss"] == 2.0
