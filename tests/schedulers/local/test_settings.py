"""The settings of the local scheduler, and the table they are described in."""

from pathlib import Path

import pytest

from tony.errors import Problem
from tony.schedulers import registry
from tony.schedulers.local.settings import SETTINGS, LocalSettings, read_settings
from tony.schedulers.settings_schema import load_settings


def test_table_is_found_by_name() -> None:
    """Job validation and documentation find the settings by the scheduler's name."""
    assert load_settings("local") == tuple(SETTINGS)
    with pytest.raises(LookupError):
        load_settings("none")


def test_every_scheduler_has_a_table() -> None:
    """And each entry says what it is for."""
    assert all(setting.meaning and setting.default for name in registry.names() for setting in load_settings(name))


def test_nothing_set() -> None:
    assert read_settings({}) == (LocalSettings(), [])


def test_all_set() -> None:
    """Sizes may come as text or read already."""
    values = {"memory": "4g", "gpus": 2, "ledger": "/somewhere"}
    expected = LocalSettings(memory=4 << 30, gpus=2, ledger=Path("/somewhere"))
    assert read_settings(values) == (expected, [])
    assert read_settings({**values, "memory": 4 << 30}) == (expected, [])


def test_all_errors_are_reported_at_once() -> None:
    """Each wrong value with its key, and what would be right."""
    _, problems = read_settings({"memory": "4", "gpus": -1, "ledger": "here", "speed": 1})
    assert problems == [
        Problem(key="scheduler.local.memory", value="4", message=problems[0].message),
        Problem(key="scheduler.local.gpus", value="-1", message="expected a whole number of at least 0."),
        Problem(key="scheduler.local.ledger", value="here", message="expected an absolute path."),
        Problem(
            key="scheduler.local.speed",
            value="1",
            message="unknown setting of the local scheduler; its settings are memory, gpus, ledger.",
        ),
    ]
    assert "a size needs a unit" in problems[0].message


@pytest.mark.parametrize("value", [True, 1.5, 0, -1])
def test_memory_that_is_no_size(value: object) -> None:
    """Neither truth nor fractions nor nothing is a size."""
    assert len(read_settings({"memory": value})[1]) == 1
