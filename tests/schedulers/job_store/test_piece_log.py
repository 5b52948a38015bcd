"""Two AM attempts never both write the log, whatever the order of their requests, and whichever answers are lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tony.errors import InfraError
from tony.schedulers.job_store import piece_log
from tony.schedulers.job_store.piece_log import (
    EventLogPiece,
    PieceLog,
    PieceStore,
    SupersededLogError,
    claim_log,
    close_log,
    read_log,
)


class MemoryStore:
    """Pieces in memory. `lost` says of each request whether its answer is lost, after it was carried out."""

    def __init__(self) -> None:
        self.pieces: dict[int, EventLogPiece] = {}
        self.lost: list[bool] = []

    def create(self, number: int, piece: EventLogPiece) -> bool:
        is_new = self.pieces.setdefault(number, piece) is piece
        if self.lost and self.lost.pop(0):
            raise InfraError("the answer was lost")
        return is_new

    def read(self, number: int) -> EventLogPiece | None:
        return self.pieces.get(number)

    def list_sizes(self) -> Mapping[int, int]:
        return {number: len(piece.data) for number, piece in self.pieces.items()}


class Durable:
    """Takes the reports of a log."""

    def __init__(self) -> None:
        self.count = 0
        self.changed = threading.Condition()

    def note(self, count: int) -> None:
        with self.changed:
            self.count = count
            self.changed.notify_all()

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.count >= count, 60)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def open_log(store: MemoryStore, durable: Durable | None = None) -> PieceLog:
    assert claim_log(store, "one")
    return PieceLog(store, "one", 0.0, 1 << 20, (durable or Durable()).note)


def test_bytes_are_durable_in_order(store: MemoryStore) -> None:
    durable = Durable()
    log = open_log(store, durable)
    log.write(b"a\n")
    durable.wait_for(2)
    log.write(b"b\n")
    log.close(60)
    assert (join(store), durable.count, log.waiting, log.error) == (b"a\nb\n", 4, 0, None)


def test_a_lost_answer_writes_nothing_twice(store: MemoryStore) -> None:
    log = open_log(store)
    store.lost = [True, False]
    log.write(b"a\n")
    log.close(60)
    assert join(store) == b"a\n"


def test_what_is_queued_after_a_lost_answer_is_a_piece_of_its_own(store: MemoryStore) -> None:
    durable = Durable()
    log = open_log(store, durable)
    store.lost = [True]
    log.write(b"a\n")
    while log.trouble is None:
        time.sleep(0.001)
    log.write(b"b\n")
    durable.wait_for(4)
    log.close(60)
    assert (join(store), log.error) == (b"a\nb\n", None)


def test_a_number_that_is_too_high_does_not_move_the_fence(store: MemoryStore) -> None:
    log = open_log(store)
    store.pieces[7] = EventLogPiece("forged")
    close_log(store, "two")
    log.write(b"a\n")
    log.close(60)
    assert isinstance(log.error, SupersededLogError)


def test_pieces_end_with_a_line(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piece_log, "MAX_PIECE_BYTES", 5)
    log = open_log(store)
    log.write(b"aa\nbb\ncccccccc\nd\n")
    log.close(60)
    assert [piece.data for _, piece in sorted(store.pieces.items())] == [b"", b"aa\n", b"bb\n", b"cccccccc\n", b"d\n"]


def test_a_writer_that_was_fenced_writes_no_more(store: MemoryStore) -> None:
    durable = Durable()
    log = open_log(store, durable)
    log.write(b"a\n")
    durable.wait_for(2)
    close_log(store, "two")
    close_log(store, "two")
    log.write(b"b\n")
    log.close(60)
    assert join(store) == b"a\n"
    assert isinstance(log.error, SupersededLogError)
    with pytest.raises(SupersededLogError):
        log.write(b"c\n")


def test_a_log_that_was_fenced_before_it_was_claimed_cannot_be_claimed(store: MemoryStore) -> None:
    close_log(store, "two")
    assert not claim_log(store, "one")


def test_a_log_has_one_writer(store: MemoryStore) -> None:
    assert claim_log(store, "one")
    assert claim_log(store, "one")
    assert not claim_log(store, "two")


SCHEDULES = st.lists(st.sampled_from(["write", "lost", "close"]), max_size=8)


@given(SCHEDULES)
def test_what_a_reader_saw_of_a_closed_log_stays(steps: list[str]) -> None:
    follow_schedule(MemoryStore(), steps)


def follow_schedule(store: PieceStore, steps: list[str]) -> None:
    """Each step is one request of the writer, carried out with or without an answer, or a later AM attempt's close."""
    assert claim_log(store, "one")
    number, written, closed = 1, b"", None
    pending: bytes | None = None
    for count, step in enumerate(steps):
        if step == "close":
            close_log(store, "two")
            closed = join(store) if closed is None else closed
            continue
        data = pending or f"{count}\n".encode()
        piece = EventLogPiece("one", data)
        is_new = store.create(number, piece)
        if step == "lost":
            pending = data
        elif is_new or store.read(number) == piece:
            written += data
            number, pending = number + 1, None
        else:
            assert closed is not None
            break
    assert join(store).startswith(written)
    assert closed is None or (join(store) == closed and closed.startswith(written))


def join(store: PieceStore) -> bytes:
    return read_log(store, "memory", 0, 1 << 20) or b""
