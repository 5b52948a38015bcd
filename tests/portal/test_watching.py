"""How often a location is looked through."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tony.portal.watching import FULL, full_pause, quick_pause
from tony.storage.fsspec_store import FsspecStore
from tony.storage.local_store import LocalStore
from tony.storage.store import Store


@pytest.fixture
def paid() -> Store:
    """One where requests cost money."""
    return FsspecStore(f"memory://watched-{uuid.uuid4()}")


def test_what_is_new_is_looked_for_within_five_seconds(tmp_path: Path, paid: Store) -> None:
    """In every kind of store, if a look is what it usually is: one request a folder, and ten for those that run."""
    for store in (LocalStore(tmp_path), paid):
        assert quick_pause(store, took=0.5, requests=14) < 5.0


def test_looks_that_cost_much_come_seldom(tmp_path: Path, paid: Store) -> None:
    """Requests for names have a price: four a second for what is new, and one for everything."""
    for requests in (100, 1_000):
        assert requests / quick_pause(paid, 0.0, requests) <= 4.0
        assert quick_pause(LocalStore(tmp_path), 0.0, requests) < 5.0
    assert full_pause(paid, 4_000) == 4_000.0
    assert full_pause(paid, 10) == full_pause(LocalStore(tmp_path), 1_000_000) == FULL
    assert full_pause(paid, 1_000_000) < 86_400.0


def test_looks_that_take_long_leave_time_for_others(tmp_path: Path, paid: Store) -> None:
    """A folder here is read with our processor, so it rests longer than one that is waited for."""
    assert quick_pause(LocalStore(tmp_path), 10.0, 0) > quick_pause(paid, 10.0, 0) > 10.0
