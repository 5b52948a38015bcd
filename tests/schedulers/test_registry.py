"""Schedulers by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tony.model.layout import Home
from tony.schedulers import registry


@pytest.mark.parametrize("name", registry.names())
def test_what_is_said_without_loading_one_is_so(tmp_path: Path, name: str) -> None:
    """Where log files are: the registry's short answer is that of the capabilities."""
    submitter = registry.load(name).submitter(Home(tmp_path))
    assert registry.has_remote_logs(name) == (not submitter.capabilities.log_files)
