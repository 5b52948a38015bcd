"""What is left out is what git would leave out, unless a .tonyignore says otherwise."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from tests.storage.samples import Node, write_tree
from tony.model.staged_files import LeftOut
from tony.storage.manifest import ManifestEntryKind
from tony.storage.staging.folder_scan import Scan, scan
from tony.storage.staging.ignore_rules import IgnoreFileError, load_rules, simplify_regex

FILE: Node = (b"x", 0o644)
pytestmark = pytest.mark.filterwarnings("error")


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


GLOBS = st.lists(st.sampled_from(["a", "b", "*", "*", "?", "/", "[ab]", "[!a]", "**/", "/**", "\\*"]), max_size=9)
PATHS = st.text("ab*/", min_size=1, max_size=8)


def regex_of(glob: str) -> str | None:
    patterns: list[Any] = list(GitIgnoreSpec.from_lines([glob]).patterns)
    return patterns[0].regex.pattern if patterns and patterns[0].regex else None


@settings(max_examples=500)
@given(GLOBS.map("".join), PATHS)
def test_patterns_match_as_fnmatch(glob: str, path: str) -> None:
    """But for sets, which never match a slash."""
    try:
        regex = regex_of(glob)
    except ValueError:
        return
    if regex is None:
        return
    plain = regex.replace("[^a]", "(?!/)[^a]")
    for text in (path, f"{path}/"):
        ours, theirs = re.search(simplify_regex(regex), text), re.search(plain, text)
        assert (ours and ours.span()) == (theirs and theirs.span()), (regex, simplify_regex(regex))


@pytest.mark.parametrize("glob", ["*a" * 20 + "b", "?*" * 20 + "b", "*[ab]" * 20 + "c", "*a*" * 4 + "b"])
def test_many_stars_take_little_time(tmp_path: Path, glob: str) -> None:
    """With a naive translation some of these take longer than a lifetime."""
    write_tree(tmp_path, {".gitignore": patterns(glob)})
    rules = load_rules(tmp_path, git=True)
    began = time.process_time()
    for path in ("a" * 255, "a/" * 100 + "a" * 255):
        assert not rules.ignores(path, is_folder=False)
    assert time.process_time() - began < 5


def git(folder: Path, *words: str) -> None:
    """Run git with no configuration but the repository's own."""
    bare = {"PATH": os.environ["PATH"], "HOME": os.fspath(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *who, *words], cwd=folder, env=bare, check=True, capture_output=True)


def repository(folder: Path, tree: dict[str, Node], *tracked: str) -> Path:
    """Make a repository that tracks some files, those that it ignores among them."""
    write_tree(folder, tree)
    git(folder, "init", "--quiet")
    if tracked:
        git(folder, "add", "--force", *tracked)
        git(folder, "commit", "--quiet", "--message", "all")
    return folder


def files(found: Scan) -> set[str]:
    return {each.path for each in found.found if each.kind is ManifestEntryKind.FILE}


def ignoring(*lines: str) -> Node:
    return ("".join(f"{line}\n" for line in lines).encode(), 0o644)


def test_a_tracked_file_is_kept_though_a_pattern_names_it(tmp_path: Path) -> None:
    """Also in a folder that is ignored as a whole; what lies beside it untracked is not."""
    tree = {".gitignore": ignoring("*.dat", "data/"), "a.dat": FILE, "b.dat": FILE, "data/x": FILE, "data/y": FILE}
    found = scan(repository(tmp_path, tree, "a.dat", "data/x"), git=True)
    assert files(found) == {".gitignore", "a.dat", "data/x"}
    assert found.left_out is not None
    assert (found.left_out.files, found.left_out.paths) == (2, ("data/y", "b.dat"))
    assert found.skipped == ()


def test_a_folder_of_a_repository_is_like_the_whole(tmp_path: Path) -> None:
    """The source may be a folder somewhere below the repository's top."""
    tree = {"sub/.gitignore": ignoring("*.dat"), "sub/a.dat": FILE, "sub/é/b.dat": FILE, "sub/c.dat": FILE}
    repository(tmp_path, tree, "sub/a.dat", "sub/é/b.dat")
    assert files(scan(tmp_path / "sub", git=True)) == {".gitignore", "a.dat", "é/b.dat"}


def test_submodules_worktrees_and_nested_repositories_have_their_own_index(tmp_path: Path) -> None:
    """Their `.git` is a file, or a folder below the source."""
    tree = {".gitignore": ignoring("*.dat"), "a.dat": FILE, "b.dat": FILE}
    inner = repository(tmp_path / "inner", tree, ".gitignore", "a.dat")
    outer = repository(tmp_path / "outer", {"main.py": FILE})
    git(outer, "submodule", "--quiet", "add", os.fspath(inner), "third_party")
    write_tree(outer / "third_party", {"b.dat": FILE})
    assert {"main.py", "third_party/a.dat"} == files(scan(outer, git=True)) - {".gitmodules", "third_party/.gitignore"}
    git(inner, "worktree", "add", "--quiet", os.fspath(tmp_path / "tree"))
    write_tree(tmp_path / "tree", {"b.dat": FILE})
    assert files(scan(tmp_path / "tree", git=True)) == {".gitignore", "a.dat"}
    repository(tmp_path / "checkouts" / "one", tree, "b.dat")
    assert files(scan(tmp_path / "checkouts", git=True)) == {"one/.gitignore", "one/b.dat"}


def test_a_variable_for_another_repository_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a hook of git, where GIT_DIR names the repository that is committed to."""
    tree = {".gitignore": ignoring("*.dat"), "a.dat": FILE}
    mine = repository(tmp_path / "mine", tree, "a.dat")
    other = repository(tmp_path / "other", {"x": FILE}, "x")
    monkeypatch.setenv("GIT_DIR", os.fspath(other / ".git"))
    assert files(scan(mine, git=True)) == {".gitignore", "a.dat"}


def test_a_tonyignore_leaves_out_tracked_files(tmp_path: Path) -> None:
    """It is written for tony alone."""
    tree = {".tonyignore": ignoring("a.dat"), "a.dat": FILE}
    found = scan(repository(tmp_path, tree, "a.dat"), git=True)
    assert found.left_out == LeftOut(ignore_file=".tonyignore", files=1, size=1, paths=("a.dat",))


def test_git_is_called_only_where_patterns_ignore_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without git the patterns alone count, with a notice if they excluded something."""
    tree = {".gitignore": ignoring("*.dat"), "a.py": FILE}
    repository(tmp_path, tree, "a.py")
    monkeypatch.setenv("PATH", "")
    assert scan(tmp_path, git=True).skipped == ()
    write_tree(tmp_path, {"a.dat": FILE})
    (sentence,) = scan(tmp_path, git=True).skipped
    assert "git is not installed" in sentence
    assert ".gitignore may leave out some of them" in sentence


def test_a_folder_that_is_ignored_as_a_whole_is_not_searched(tmp_path: Path) -> None:
    """It counts as one entry; folders nearest to the top come first, those of compiled Python last."""
    tree: dict[str, Node] = {".gitignore": ignoring(".venv/", "__pycache__", "data", "*.log")}
    tree |= {".venv/lib/x": FILE, "p/data/x": FILE, "__pycache__/x": FILE, "p/a.py": FILE, "a.log": (b"123", 0o644)}
    left_out = scan(write_tree(tmp_path, tree), git=True).left_out
    paths = (".venv/", "p/data/", "__pycache__/", "a.log")
    assert left_out == LeftOut(ignore_file=".gitignore", files=1, size=3, folders=3, paths=paths)


def test_of_many_things_that_are_left_out_few_are_recorded(tmp_path: Path) -> None:
    """All are counted, and the largest are among those that are named."""
    tree: dict[str, Node] = {".gitignore": ignoring("*.d")}
    tree |= {f"{number}.d": (b"x" * number, 0o644) for number in range(100)}
    left_out = scan(write_tree(tmp_path, tree), git=True).left_out
    assert left_out is not None
    assert (left_out.files, left_out.size, left_out.paths[0], len(left_out.paths)) == (100, 4950, "99.d", 20)
