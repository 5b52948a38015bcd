"""A walk through a folder finds what can be staged and names what cannot."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from tests.storage.samples import Node, call_as_unprivileged_user, write_tree
from tony.storage.manifest import ManifestEntryKind
from tony.storage.staging.folder_scan import find_largest_entries, scan

FILE: Node = (b"x", 0o644)


def test_order_is_by_bytes_with_folders_first(tmp_path: Path) -> None:
    """The order does not depend on the file system or on the language."""
    write_tree(tmp_path, {"b/x": FILE, "b-": FILE, "B": FILE, "é": FILE, "a": FILE, "b.c": FILE})
    assert [f.path for f in scan(tmp_path, git=True).found] == ["B", "a", "b", "b-", "b.c", "b/x", "é"]


def test_escaping_links_are_refused_by_name(tmp_path: Path) -> None:
    """A link that leads out would be broken in the container, so it is named, with what to do."""
    write_tree(tmp_path / "s", {"ok": "a", "a": FILE, "d/up": "../a", "out": "../other", "d/etc": "/etc/passwd"})
    refused = scan(tmp_path / "s", git=True).refused
    assert len(refused) == 2
    assert any("the link out -> ../other leads out of the folder" in text and ".tonyignore" in text for text in refused)
    assert any("d/etc -> /etc/passwd" in text for text in refused)


def test_a_virtual_environment_is_refused_as_a_whole(tmp_path: Path) -> None:
    """Its Python is elsewhere on the machine: several links lead there."""
    environment = tmp_path / "env"
    (environment / "bin").mkdir(parents=True)
    (environment / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (environment / "bin" / "python3").symlink_to("/usr/bin/python3")
    (environment / "bin" / "python").symlink_to("python3")
    (refused,) = scan(tmp_path, git=True).refused
    assert "env is a virtual environment" in refused


def test_ignored_link_is_not_refused(tmp_path: Path) -> None:
    """What is left out cannot be in the way."""
    write_tree(tmp_path, {"out": "/etc/passwd", ".tonyignore": (b"out\n", 0o644)})
    assert scan(tmp_path, git=True).refused == ()


def test_absolute_link_to_inside_becomes_relative(tmp_path: Path) -> None:
    """It leads to the same file, wherever the folder is laid; also when the folder was reached through a link."""
    top = write_tree(tmp_path / "real", {"a": FILE, "d/x": FILE})
    (tmp_path / "alias").symlink_to("real")
    (top / "d" / "one").symlink_to(top / "a")
    (top / "d" / "two").symlink_to(tmp_path / "alias" / "d" / "x")
    (top / "here").symlink_to(top)
    result = scan(tmp_path / "alias", git=True)
    links = {f.path: f.target for f in result.found if f.kind is ManifestEntryKind.LINK}
    assert (links, result.refused) == ({"d/one": "../a", "d/two": "x", "here": "."}, ())


def test_loops_of_links_end(tmp_path: Path) -> None:
    write_tree(tmp_path, {"d/up": "..", "self": "self", "d/x": FILE})
    assert [f.path for f in scan(tmp_path, git=True).found] == ["d", "d/up", "d/x", "self"]


def test_special_files_are_skipped_and_reported(tmp_path: Path) -> None:
    """A debugger's socket does not keep a job from being submitted."""
    os.mkfifo(tmp_path / "pipe")
    here = os.getcwd()
    os.chdir(tmp_path)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("sock")
            result = scan(tmp_path, git=True)
    finally:
        os.chdir(here)
    assert (result.found, result.refused) == ((), ())
    assert sorted(result.skipped) == ["pipe is a named pipe and is left out", "sock is a socket and is left out"]


def test_hard_links_are_files(tmp_path: Path) -> None:
    """Two names of one file are two files."""
    write_tree(tmp_path, {"a": FILE})
    os.link(tmp_path / "a", tmp_path / "b")
    found = scan(tmp_path, git=True).found
    assert [(f.path, f.kind, f.size) for f in found] == [
        ("a", ManifestEntryKind.FILE, 1),
        ("b", ManifestEntryKind.FILE, 1),
    ]


def test_folders_that_only_hold_ignored_things_are_left_out(tmp_path: Path) -> None:
    """`__pycache__` must not change the digest; a folder that the user left empty on purpose is kept."""
    write_tree(tmp_path, {".gitignore": (b"*.pyc\n", 0o644), "p/__pycache__/a.pyc": FILE, "p/a.py": FILE, "out": None})
    assert [f.path for f in scan(tmp_path, git=True).found] == [".gitignore", "out", "p", "p/a.py"]


def test_modes_are_kept_and_dangerous_bits_dropped(tmp_path: Path) -> None:
    """Set-user-id goes; a folder stays open to its owner, who must be able to remove it."""
    write_tree(tmp_path, {"a": (b"", 0o4755), "b": (b"", 0o400), "d": None})
    (tmp_path / "d").chmod(0o1555)
    modes = {f.path: f.mode for f in scan(tmp_path, git=True).found}
    assert modes == {"a": 0o755, "b": 0o400, "d": 0o755}


def test_unreadable_things_are_refused_by_name(open_folder: Path) -> None:
    """Each is named, with what to do; the rest is still looked at."""
    write_tree(open_folder, {"a": (b"x", 0o000), "d/x": FILE, "ok": FILE})
    (open_folder / "d").chmod(0o000)
    refused = call_as_unprivileged_user(lambda: scan(open_folder, git=True).refused)
    (open_folder / "d").chmod(0o755)
    assert sorted(refused) == [
        "a cannot be read (permission denied). Make it readable, or leave it out with .tonyignore.",
        "the folder d/ cannot be read (Permission denied). Make it readable, or leave it out with .tonyignore.",
    ]


def test_named_paths_are_left_out(tmp_path: Path) -> None:
    """Our own cache inside the folder would be packed into itself."""
    write_tree(tmp_path, {"home/cache/x": FILE, "home/other": FILE})
    assert [f.path for f in scan(tmp_path, git=True, without=["home/cache"]).found] == ["home", "home/other"]


def test_biggest(tmp_path: Path) -> None:
    """Biggest first, empty ones not at all; a folder that is mostly one thing is named by that thing."""
    tree = {"a/b/big": 900, "a/b/small": 50, "a/x": 100, "c/1": 100, "c/2": 100, "d": 150, "e": 0}
    write_tree(tmp_path, {path: (b"x" * size, 0o644) for path, size in tree.items()})
    assert find_largest_entries(scan(tmp_path, git=True)) == [("a/b/big", 900), ("c", 200), ("d", 150)]
