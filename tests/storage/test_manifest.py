"""Where a link leads is told as the kernel would follow it."""

from __future__ import annotations

import pytest

from tony.storage.manifest import resolve_link


@pytest.mark.parametrize(
    ("link", "target", "links", "expected"),
    [
        ("a", "b", {}, "b"),
        ("a", ".", {}, ""),
        ("d/a", "../b", {}, "b"),
        ("d/a", "..//./b/", {}, "b"),
        ("a", "..", {}, None),
        ("d/a", "../..", {}, None),
        ("a", "/etc/passwd", {}, None),
        ("a", "../here/b", {}, None),  # back in by the folder's own name: works only in its old place
        ("z", "a/../../x", {"a": "p/q/r"}, "p/x"),  # its text leaves, its way does not
        ("z", "p/top/../x", {"p/top": ".."}, None),  # its text stays, its way does not
        ("z", "a/b", {"a": "/etc"}, None),
        ("z", "loop/x", {"loop": "loop"}, "loop/x"),
        ("z", "a/x", {"a": "b", "b": "a"}, "a/x"),
    ],
)
def test_link_is_followed(link: str, target: str, links: dict[str, str], expected: str | None) -> None:
    """Parents, other links and loops on the way are taken as they are; leaving the folder is seen."""
    assert resolve_link(link, target, links) == expected
