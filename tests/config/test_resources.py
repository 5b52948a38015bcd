"""Resources that only some clusters count, by their own names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tony.config.load import load
from tony.errors import ConfigError


def _loaded(folder: Path, resources: str) -> dict[str, int]:
    path = folder / "job.toml"
    path.write_text(f'command = "true"\n[roles.worker]\nresources = {{ {resources} }}\n')
    return dict(load(str(path)).spec.roles["worker"].resources.others)


def test_names_of_clusters(tmp_path: Path) -> None:
    """A domain may stand in front."""
    found = _loaded(tmp_path, '"yarn.io/fpga" = 1, licence = 2, "example.org/tape-drive" = 0')
    assert found == {"yarn.io/fpga": 1, "licence": 2, "example.org/tape-drive": 0}


@pytest.mark.parametrize("name", ["", "/x", "a/b/c", "a b", "x" * 300, "ü"])
def test_impossible_names(tmp_path: Path, name: str) -> None:
    """YARN would refuse them, with less words."""
    with pytest.raises(ConfigError, match="a resource name is"):
        _loaded(tmp_path, f'"{name}" = 1')
