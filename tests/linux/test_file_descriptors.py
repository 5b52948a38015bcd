"""A letter queue for an open file keeps it, whatever becomes of who put it in."""

import fcntl
import os
from pathlib import Path

from tony.linux.file_descriptors import DescriptorQueue


def locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def put_by_a_fork(queue: DescriptorQueue, *paths: Path) -> None:
    """A process locks files, puts them in and ends."""
    pid = os.fork()
    if pid == 0:
        for path in paths:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(file, fcntl.LOCK_EX)
            queue.put(file)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def test_a_lock_outlives_its_taker(tmp_path: Path) -> None:
    """In the queue, and as the descriptor that is taken out; started programs do not get that."""
    queue = DescriptorQueue()
    put_by_a_fork(queue, tmp_path / "a")
    assert locked(tmp_path / "a")
    found = queue.take_last()
    assert found is not None
    assert not os.get_inheritable(found)
    assert locked(tmp_path / "a")
    os.close(found)
    assert not locked(tmp_path / "a")
    queue.close()


def test_the_last_one_counts(tmp_path: Path) -> None:
    """Those before it are closed; an empty queue has none."""
    queue = DescriptorQueue()
    assert queue.take_last() is None
    put_by_a_fork(queue, tmp_path / "a", tmp_path / "b")
    found = queue.take_last()
    assert found is not None
    assert (locked(tmp_path / "a"), locked(tmp_path / "b")) == (False, True)
    os.close(found)
    assert queue.take_last() is None
    put_by_a_fork(queue, tmp_path / "a")
    queue.close()
    assert not locked(tmp_path / "a")
