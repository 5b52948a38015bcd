"""Times of a piece of output on the wire."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tony.protocol.output_messages import LOG_PIECE, MAX_PIECE_TIMES, pack_times, unpack_times

TIMES = st.lists(st.tuples(st.integers(0, LOG_PIECE), st.integers(1, 1 << 49)), max_size=50)


@given(times=TIMES)
def test_times_arrive_as_they_were_sent(times: list[tuple[int, int]]) -> None:
    offsets, moments = sorted(offset for offset, _ in times), sorted(moment for _, moment in times)
    ordered = list(zip(offsets, moments, strict=True))
    assert unpack_times(pack_times(ordered)) == ordered


def test_there_is_a_limit() -> None:
    assert len(pack_times((number, number) for number in range(1 << 20))) == MAX_PIECE_TIMES


@pytest.mark.parametrize("packed", [(5,), (-1, 5), (5, 1, -9, 5), (LOG_PIECE + 1, 1), (1, 1 << 60)])
def test_invalid_times_are_left_out(packed: tuple[int, ...]) -> None:
    assert unpack_times(packed) in ([], [(5, 1)])
