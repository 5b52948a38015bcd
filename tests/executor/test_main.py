"""How the executor program begins: what it is told, and what it makes of nonsense."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.executor.fake_am import Master, context
from tests.support.child_modules import module_command
from tony.isolated_interpreter import command
from tony.model.codec import to_plain
from tony.protocol import executor_messages as msg

pytestmark = pytest.mark.slow
MAIN = "tony.executor.main"


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        (b"", "cannot read the launch context: it is not JSON"),
        (b'{"task": "secret-token"', "cannot read the launch context: it is not JSON"),
        (b"{}", "cannot read the launch context: LaunchContext lacks"),
    ],
)
def test_nonsense_is_refused_without_repeating_it(told: bytes, complaint: str) -> None:
    """A broken context is our bug; it may hold secrets, so it is not quoted."""
    done = subprocess.run(command(MAIN), input=told, capture_output=True, timeout=60)
    assert done.returncode == 70
    assert done.stderr.decode().startswith(complaint)
    assert b"secret-token" not in done.stderr


def test_context_in_a_file_is_deleted(master: Master, tmp_path: Path) -> None:
    """A scheduler that cannot pass a pipe passes a file; it is read once."""
    file = tmp_path / "context.json"
    file.write_text(json.dumps(to_plain(context(master, tmp_path))))
    executor = subprocess.Popen(command(MAIN, str(file)))
    try:
        master.wait(msg.Ready)
        assert not file.exists()
        master.send(msg.ReleaseExecutor())
        assert executor.wait(30) == 0
    finally:
        executor.kill()
        executor.wait()


def test_a_bug_is_what_it_says_last_to_the_scheduler(master: Master, tmp_path: Path) -> None:
    """Where its log is gone with the container."""
    last = tmp_path / "last"
    told = json.dumps(to_plain(context(master, tmp_path, end_message=str(last)))).encode()
    done = subprocess.run(module_command("buggy_executor", "start"), input=told, timeout=60)
    assert done.returncode == 70
    assert last.read_text().startswith("a bug in the executor: ")


def test_without_an_am_it_exits_at_once(master: Master, tmp_path: Path) -> None:
    """And reports why."""
    master.stop_listening()
    told = json.dumps(to_plain(context(master, tmp_path))).encode()
    done = subprocess.run(command(MAIN), input=told, capture_output=True, timeout=60)
    assert done.returncode == 3
    last = (tmp_path / "logs" / "worker-0.executor.log").read_text().splitlines()[-1]
    assert "lost contact with the application master" in last
    assert "No such file or directory" in last
