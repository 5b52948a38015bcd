"""What is left out is what git would leave out, unless a .tonyignore says otherwise."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.storage.samples import Node, write_tree
from tony.storage.cache.manifest import ManifestEntryKind
from tony.storage.staging.folder_scan import scan
from tony.storage.staging.ignore_rules import IgnoreFileError, load_rules

FILE: Node = (b"x", 0o644)


def kept(root: Path, *, git: bool = True) -> set[str]:
    return {found.path for found in scan(root, git=git).found if found.kind is ManifestEntryKind.FILE}


def patterns(*lines: str) -> Node:
    return ("\n".join(lines).encode(), 0o644)


CASES: list[tuple[dict[str, Node], set[str]]] = [
    ({".gitignore": patterns("*.pyc", "/data"), "a.pyc": FILE, "d/b.pyc": FILE, "data/x": FILE}, {".gitignore"}),
    ({".gitignore": patterns("/data"), "d/data": FILE, "build": FILE}, {".gitignore", "d/data", "build"}),
    ({".gitignore": patterns("data/**", "!data/keep"), "data/keep": FILE, "data/x": FILE}, {".gitignore", "data/keep"}),
    ({".gitignore": patterns("data/", "!data/keep"), "data/keep": FILE}, {".gitignore"}),
    ({".gitignore": patterns("*.h5", "!d/"), "d/a.h5": FILE, "d/b": FILE}, {".gitignore", "d/b"}),
    (
        {".gitignore": patterns("*.log"), "d/.gitignore": patterns("!keep.log"), "d/keep.log": FILE, "d/x.log": FILE},
        {".gitignore", "d/.gitignore", "d/keep.log"},
    ),
    ({"d/.gitignore": patterns("/x"), "d/x": FILE, "x": FILE, "d/e/x": FILE}, {"d/.gitignore", "x", "d/e/x"}),
    ({".gitignore": patterns("[ab]", "!foo/"), "foo/b/keep": FILE, "foo/c": FILE}, {".gitignore", "foo/c"}),
    ({".gitignore": patterns("*", "!*/", "!*.py"), "p/q/r.py": FILE, "p/x": FILE}, {"p/q/r.py"}),
    ({".gitignore": patterns("# no", "", "\\#y", "a\r"), "#y": FILE, "# no": FILE, "a": FILE}, {".gitignore", "# no"}),
]


@pytest.mark.parametrize(("tree", "expected"), CASES)
def test_gitignore_is_read_as_git_reads_it(tmp_path: Path, tree: dict[str, Node], expected: set[str]) -> None:
    """Anchors, folders, negation, nesting and the rule that nothing comes back from a folder that is out."""
    assert kept(write_tree(tmp_path, tree)) == expected


@pytest.mark.skipif(shutil.which("git") is None, reason="compares with git")
@pytest.mark.parametrize(("tree", "expected"), CASES)
def test_git_agrees(tmp_path: Path, tree: dict[str, Node], expected: set[str]) -> None:
    """The expectations above are git's own."""
    write_tree(tmp_path, tree)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    listed = ["git", "-C", str(tmp_path), "ls-files", "-coz", "--exclude-standard"]
    assert set(subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split("\0")) - {""} == expected


def test_tonyignore_replaces_gitignore(tmp_path: Path) -> None:
    """With a .tonyignore at the top no .gitignore counts, however deep."""
    tree = {".tonyignore": patterns("a"), ".gitignore": patterns("b"), "a": FILE, "b": FILE}
    nested = {"d/.gitignore": patterns("c"), "d/c": FILE, "d/a": FILE}
    assert kept(write_tree(tmp_path, tree | nested)) == {".tonyignore", ".gitignore", "b", "d/.gitignore", "d/c"}


def test_git_folder_is_left_out_always(tmp_path: Path) -> None:
    """At any depth, as a folder or (in a submodule) as a file, and whatever .tonyignore says."""
    tree = {".tonyignore": patterns("!.git"), ".git/config": FILE, "sub/.git": FILE, "sub/x": FILE, ".github/y": FILE}
    assert kept(write_tree(tmp_path, tree)) == {".tonyignore", "sub/x", ".github/y"}


def test_gitignore_can_be_switched_off(tmp_path: Path) -> None:
    """For an explicitly named folder only .tonyignore counts."""
    write_tree(tmp_path, {".gitignore": patterns("*"), "a": FILE})
    assert kept(tmp_path, git=False) == {".gitignore", "a"}
    write_tree(tmp_path, {".tonyignore": patterns("a")})
    assert kept(tmp_path, git=False) == {".gitignore", ".tonyignore"}


def test_meaningless_pattern_is_named(tmp_path: Path) -> None:
    """A line that is no pattern is refused with its file and number."""
    write_tree(tmp_path, {".tonyignore": patterns("a", "!")})
    with pytest.raises(IgnoreFileError, match=r"\.tonyignore:2: `!` is not a valid pattern"):
        load_rules(tmp_path, git=True)
