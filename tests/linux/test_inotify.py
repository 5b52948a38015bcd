"""A watch wakes when a file changes, and never sleeps for ever."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from tony.linux import inotify
from tony.linux.inotify import ChangeWatch


async def test_a_change_before_waiting_is_not_missed(tmp_path: Path) -> None:
    """From `add` on everything is noted."""
    with ChangeWatch() as watch:
        watch.add(tmp_path)
        (tmp_path / "a").write_text("x")
        assert await watch.wait_change() == {tmp_path / "a"}
        assert watch.take_changes() == set()


async def test_a_change_while_waiting_wakes(tmp_path: Path) -> None:
    """Writing on, and a file that is moved in."""
    (tmp_path / "in").mkdir()
    (tmp_path / "b").write_text("x")
    with ChangeWatch() as watch:
        watch.add(tmp_path / "in")
        waiting = asyncio.ensure_future(watch.wait_change())
        await asyncio.sleep(0)
        (tmp_path / "b").rename(tmp_path / "in" / "c")
        assert await waiting == {tmp_path / "in" / "c"}


async def test_several_folders(tmp_path: Path) -> None:
    folders = [tmp_path / "1", tmp_path / "2"]
    with ChangeWatch() as watch:
        for folder in folders:
            folder.mkdir()
            watch.add(folder)
        for folder in folders:
            (folder / "x").write_text("x")
        assert await watch.wait_change() == {folder / "x" for folder in folders}


async def test_names_are_bytes_to_the_kernel(tmp_path: Path) -> None:
    """A name that is no UTF-8 comes out as Python has it."""
    with ChangeWatch() as watch:
        watch.add(tmp_path)
        path = tmp_path / "\udcff"
        path.write_text("x")
        assert await watch.wait_change() == {path}


MOST = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())


async def test_too_many_changes_mean_look_at_all(tmp_path: Path) -> None:
    """The kernel's queue has an end (16,384 as a rule)."""
    with ChangeWatch() as watch:
        watch.add(tmp_path)
        files = [(tmp_path / str(n)).open("wb", buffering=0) for n in range(2)]
        for n in range(MOST + 2):
            files[n % 2].write(b"x")
        answers = [await watch.wait_change() for _ in range(1)]
        while (changed := watch.take_changes()) != set():
            answers.append(changed)
        assert None in answers
        for file in files:
            file.close()


async def test_without_inotify_it_looks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's watches may be used up: then waiting ends by itself, with "look at everything"."""

    def refuse() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(inotify, "Inotify", refuse)
    with ChangeWatch() as watch:
        watch.add(tmp_path)
        assert await watch.wait_change() is None
        assert watch.take_changes() is None


async def test_a_folder_that_is_not_there_is_looked_at_again(tmp_path: Path) -> None:
    with ChangeWatch() as watch:
        watch.add(tmp_path / "nowhere")
        assert await watch.wait_change() is None


def test_closing_twice_is_harmless() -> None:
    watch = ChangeWatch()
    watch.close()
    watch.close()
