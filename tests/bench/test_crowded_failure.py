"""Some of very many executors are lost: the others continue in the next session, and nothing of the old one counts."""

from __future__ import annotations

import pytest

from bench.crowded_failure import play

TASKS = 300


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["pytorch", "tensorflow"])
def test_no_message_of_an_old_session_is_accepted(framework: str) -> None:
    """Each surviving executor reports once more that its old program has failed; each of these is refused, and
    nothing ends."""
    seen = play(framework, TASKS)
    assert (297, 297, 297) == (seen.kept, seen.repeated, seen.refused)
