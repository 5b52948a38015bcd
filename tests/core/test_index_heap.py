"""The heap returns its lowest number first, also after removals."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tony.core.index_heap import IndexHeap


def test_the_lowest_is_taken_first() -> None:
    """Whatever the order of joining; joining twice counts once."""
    line = IndexHeap()
    for number in (5, 1, 3, 1):
        line.join(number)
    line.leave(3)
    line.leave(9)
    assert (len(line), list(line)) == (2, [1, 5])
    assert [line.take(), line.take(), line.take()] == [1, 5, None]


@given(st.lists(st.tuples(st.sampled_from(["join", "leave", "take", "clear"]), st.integers(0, 5))))
def test_a_line_is_a_set_that_knows_its_lowest(moves: list[tuple[str, int]]) -> None:
    """After any moves it holds what a plain set holds, and takes that one's minimum."""
    line, plain = IndexHeap(), set[int]()
    for move, number in moves:
        if move == "join":
            line.join(number)
            plain.add(number)
        elif move == "leave":
            line.leave(number)
            plain.discard(number)
        elif move == "clear":
            line.clear()
            plain.clear()
        else:
            lowest = min(plain, default=None)
            assert line.take() == lowest
            plain.discard(-1 if lowest is None else lowest)
        assert (len(line), set(line)) == (len(plain), plain)
