"""Names of repositories."""

from __future__ import annotations

import pytest

from tony.oci.image_names import Repository


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("ghcr.io/ann/files", "ghcr.io"),
        ("localhost:5000/a__b/c-d.e", "localhost:5000"),
        ("docker.io/ann/files", "registry-1.docker.io"),
    ],
)
def test_a_repository(text: str, host: str) -> None:
    repository = Repository.from_text(text)
    assert (str(repository), repository.host) == (text, host)


@pytest.mark.parametrize(
    "text", ["", "ghcr.io", "ghcr.io/", "ghcr.io/Ann", "ghcr.io/a:latest", "ghcr.io/a//b", "ghcr.io/../a", "u@h/a"]
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="REGISTRY/NAME"):
        Repository.from_text(text)
