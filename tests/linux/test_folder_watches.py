"""Many tasks learn of changes in folders through one queue, each of those that it waits for."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tony.linux.folder_watches import FolderWatches


async def test_each_task_is_told_of_its_files(tmp_path: Path) -> None:
    """Folders are watched as long as a task waits for them, and the same one by several tasks."""
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    watches = FolderWatches()
    with watches.watch([one, other], lambda name: name == "a") as a:
        with watches.watch([one], lambda name: name == "b") as b:
            assert a.works
            assert b.works
            (one / "b").write_text("x")
            await asyncio.wait_for(b.changed.wait(), 60)
            assert not a.changed.is_set()
        (other / "a").write_text("x")
        await asyncio.wait_for(a.changed.wait(), 60)
    with watches.watch([one], lambda name: True) as again:
        (one / "c").write_text("x")
        await asyncio.wait_for(again.changed.wait(), 60)


async def test_a_missing_folder_announces_nothing(tmp_path: Path) -> None:
    with FolderWatches().watch([tmp_path / "missing"], lambda name: True) as watch:
        assert not watch.works


async def test_a_folder_no_longer_watched_wakes_no_other_task(tmp_path: Path) -> None:
    """Nor does one that was removed: it wakes those that watch it."""
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    watches = FolderWatches()
    with watches.watch([other], lambda name: name == "a") as a:
        with watches.watch([one], lambda name: True):
            pass
        with watches.watch([one], lambda name: False) as removed:
            one.rmdir()
            await asyncio.wait_for(removed.changed.wait(), 60)
        assert not a.changed.is_set()
        (other / "a").write_text("x")
        await asyncio.wait_for(a.changed.wait(), 60)
