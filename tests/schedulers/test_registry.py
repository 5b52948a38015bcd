"""Schedulers by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tony.model.state_directory import Home
from tony.schedulers import registry


@pytest.mark.parametrize("name", registry.names())
def test_capabilities_are_known_without_loading_the_scheduler(tmp_path: Path, name: str) -> None:
    """The capabilities of a package are those of its scheduler."""
    assert registry.load(name).create_submitter(Home(tmp_path)).capabilities == registry.capabilities_of(name)


def test_a_scheduler_that_is_not_installed() -> None:
    """A job of one, seen by a portal, has no logs that could be fetched."""
    assert not registry.has_remote_logs("slurm")
    with pytest.raises(LookupError):
        registry.load("slurm")
