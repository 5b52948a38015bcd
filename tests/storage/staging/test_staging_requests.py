"""Names of staged files that conflict, and addresses that no staging request may name."""

from __future__ import annotations

import pytest

from tony.storage.staging.staging_requests import clashes, find_remote_scheme


def test_clashes() -> None:
    """Equal names, and a name below another; similar beginnings are no clash."""
    assert clashes(["a", "b", "a", "b/c", "ab", "b.c"]) == [(2, 0), (3, 1)]
    assert clashes(["x/y", "x"]) == [(1, 0)]


@pytest.mark.parametrize(
    ("path", "scheme"),
    [
        ("hdfs://nn/x", "hdfs"),
        ("/job/s3://bucket/x", "s3"),
        ("/job/https:/host/x", "https"),
        ("file:///x", "file"),
        ("/a/b:c", None),
        ("/a/b", None),
    ],
)
def test_addresses(path: str, scheme: str | None) -> None:
    """Also one that was taken for a relative path on its way here."""
    assert find_remote_scheme(path) == scheme
