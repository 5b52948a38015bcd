"""Delays between attempts."""

from __future__ import annotations

from itertools import islice

from tony.retry import Backoff


def test_delays_grow_up_to_the_maximum_and_start_again() -> None:
    backoff = Backoff(first=0.5, most=3.0)
    assert [*islice(backoff, 5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert next(iter(backoff)) == 0.5


def test_the_first_delay_is_within_the_maximum() -> None:
    assert [*islice(Backoff(first=5.0, most=1.0), 2)] == [1.0, 1.0]


def test_jitter_shortens_each_delay_by_up_to_its_fraction() -> None:
    delays = islice(Backoff(first=0.05, factor=1.5, most=1.0, jitter=0.5), 10)
    for delay, full in zip(delays, [0.05 * 1.5**n for n in range(8)] + [1.0, 1.0], strict=True):
        assert full / 2 <= delay <= full * (1 + 1e-9)  # the product of two factors may be rounded up
