"""What to do about errors whose text does not say it."""

from __future__ import annotations

import pytest

from tony.jobs.failure_text import find_hints


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: Attempt to convert a value (PerReplica:{",
        "}) with an unsupported type (<class 'tensorflow.python.distribute.values.PerReplica'>) to a Tensor.",
    ],
)
def test_keras_3_under_a_strategy(line: str) -> None:
    (hint,) = find_hints(["...", line, "  [0. 0.]"])
    assert 'TF_USE_LEGACY_KERAS = "1"' in hint


def test_other_errors_have_none() -> None:
    assert find_hints(["ValueError: no such column", "KeyError: 'PerReplica'"]) == []
