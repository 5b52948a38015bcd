"""A fresh user for each test, and the proof that nothing is left behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.lab import Lab, one_user


@pytest.fixture
def lab() -> Iterator[Lab]:
    """One user with an empty home. After the test no process of any of their jobs may live."""
    with one_user(Lab) as made:
        yield made
