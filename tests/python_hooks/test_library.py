"""`tony.progress` and `tony.checkpoint`, as a program without tony finds them; and that they get out of its way."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tony
from tony import clock
from tony.executor.metrics.progress_listener import Advance, CheckpointReport, parse
from tony.python_hooks.library.tony.reporting import _Reporter, checkpoint, progress
from tony.rpc.sockets import shorten_path

FOLDER = Path(tony.__file__).parent / "python_hooks/library"


@pytest.fixture
def hearer(tmp_path: Path) -> Iterator[socket.socket]:
    """Where programs tell; bound, never waiting for ever."""
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made, shorten_path(path) as short:
        made.bind(short)
        made.settimeout(30)
        yield made


def environment(hearer: socket.socket | None, *folders: Path) -> dict[str, str]:
    """Of a program beside which our library lies."""
    told = {"TONY_PROGRESS": hearer.getsockname()} if hearer else {}
    return {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(map(str, (*folders, FOLDER))), **told}


def run(code: str, env: dict[str, str]) -> str:
    """What a program prints. `-S`: it has no packages, as one in another environment than ours has none of ours."""
    done = subprocess.run([sys.executable, "-S", "-c", code], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def heard(hearer: socket.socket) -> list[Advance | CheckpointReport | None]:
    found = []
    hearer.setblocking(False)
    while True:
        try:
            found.append(parse(hearer.recv(65536), clock.monotonic()))
        except BlockingIOError:
            return found


def test_a_program_reports(hearer: socket.socket) -> None:
    """Step, total, numbers of its own; a checkpoint with its time; in order."""
    run(
        "import tony, time\n"
        "tony.progress(1)\ntony.progress(2, 10, loss=0.5, **{'a.b': 3})\n"
        "with tony.checkpoint(2): time.sleep(0.01)\n",
        environment(hearer),
    )
    first, second, saved = heard(hearer)
    assert first == Advance(1.0)
    assert second == Advance(2.0, 10.0, {"user.loss": 0.5, "user.a.b": 3.0})
    assert isinstance(saved, CheckpointReport)
    assert (saved.step, 0.01 <= saved.took < 30, 0 <= clock.monotonic() - saved.at < 30) == (2, True, True)


def test_a_socket_with_a_long_path(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        with shorten_path(str(folder / "socket")) as short:
            made.bind(short)
        run("import tony\ntony.progress(1)", {**environment(None), "TONY_PROGRESS": str(folder / "socket")})
        assert heard(made) == [Advance(1.0)]


def test_outside_of_tony_both_do_nothing() -> None:
    run("import tony\ntony.progress(1, 2, loss=3)\nwith tony.checkpoint(1): pass", environment(None))


@pytest.mark.parametrize(
    "call",
    [
        "tony.progress('no number')",
        "tony.progress(1, object())",
        "tony.progress(1, loss=None)",
        "tony.progress(1, **{'x' * 10000: 1})",
        "tony.progress(10 ** 400)",
        "tony.checkpoint('no number').__exit__(None, None, None)",
        "tony.reporting._reporter.name = '/no/such/socket'; tony.progress(1)",
        "tony.reporting._reporter.name = 'x' * 500; tony.progress(1)",
        "tony.progress(1); import os; os.closerange(3, 50); tony.progress(2)",
    ],
)
def test_reporting_never_fails_the_program(hearer: socket.socket, call: str) -> None:
    """Whatever it reports."""
    run(f"import tony\n{call}\n", environment(hearer))


def test_a_checkpoint_that_fails_is_none(hearer: socket.socket) -> None:
    """Its exception is the program's."""
    code = "import tony\ntry:\n    with tony.checkpoint(1): 1 / 0\nexcept ZeroDivisionError: print('raised')\n"
    assert run(code, environment(hearer)) == "raised\n"
    assert heard(hearer) == []


def test_reports_are_rate_limited(hearer: socket.socket) -> None:
    """A loop of thousand calls sends a few; checkpoints are all sent, though they must wait for room."""
    code = (
        "import tony\n"
        "for step in range(1000): tony.progress(step)\n"
        "for step in range(30):\n"
        "    with tony.checkpoint(step): pass\n"
        "print('told', flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-S", "-c", code], env=environment(hearer), stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout
        assert program.stdout.readline() == "told\n"  # nothing was read: most of it waits, and the program ends soon
        found: list[Advance | CheckpointReport | None] = []
        while sum(isinstance(each, CheckpointReport) for each in found) < 30:
            found.append(parse(hearer.recv(4096), clock.monotonic()))
        assert program.wait(30) == 0
    found += heard(hearer)
    assert sorted(each.step for each in found if isinstance(each, CheckpointReport)) == list(range(30))
    assert sum(isinstance(each, Advance) for each in found) < 30


def test_the_last_progress_is_sent_at_the_exit(hearer: socket.socket) -> None:
    """Although the rate limit did not permit it; with its plain numbers, and once."""
    code = "import tony\nfor step in range(1, 301): tony.progress(step, 300, loss=step / 2, other=b'1')\n"
    run(code, environment(hearer))
    found = heard(hearer)
    assert found[-1] == Advance(300.0, 300.0, {"user.loss": 150.0})
    run("import tony\ntony.progress(1)\n", environment(hearer))
    assert heard(hearer) == [Advance(1.0)]


def test_a_stuck_listener_does_not_block_the_program(hearer: socket.socket) -> None:
    """Neither while it runs nor at its end."""
    code = "import tony\nfor step in range(200):\n    with tony.checkpoint(step): pass\n"
    run(code, environment(hearer))


def test_a_fork_does_not_repeat_its_parents_reports(hearer: socket.socket) -> None:
    """Pending checkpoints are sent once, and both processes continue to report."""
    reporter = _Reporter()
    reporter.name = hearer.getsockname()
    while reporter.send(b"x"):
        pass
    reporter.keep(b"c\t1\t1\t1")
    child = os.fork()
    if child == 0:
        reporter.reset()
        os._exit(len(reporter.waiting))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(reporter.waiting) == 1
    heard(hearer)
    reporter.finish()
    assert len(heard(hearer)) == 1


def test_a_reused_descriptor_belongs_to_the_program(hearer: socket.socket) -> None:
    """A program that closes all files, as daemons do: a file that it opens then gets no reports, and is not closed."""
    code = (
        "import os, socket, tony\n"
        "with tony.checkpoint(1): pass\n"
        "os.closerange(3, 256)\n"
        "mine, other = socket.socketpair()\n"
        "with tony.checkpoint(2): pass\n"
        "os.closerange(3, 256)\n"
        "mine.detach(), other.detach()\n"
        "kept = open(os.devnull, 'w')\n"
        "mine, other = socket.socketpair()\n"
        "with tony.checkpoint(3): pass\n"
        "print('mine', file=kept, flush=True)\n"
        "mine.send(b'mine')\n"
        "other.send(b'other')\n"
        "print(mine.recv(99), other.recv(99))\n"
    )
    assert run(code, environment(hearer)) == "b'other' b'mine'\n"
    assert [each.step for each in heard(hearer) if isinstance(each, CheckpointReport)] == [1, 2, 3]


def test_any_thread_and_process_may_report(hearer: socket.socket) -> None:
    code = (
        "import os, threading, tony\n"
        "def tell():\n"
        "    for step in range(50):\n"
        "        tony.progress(step, 100, loss=1.5)\n"
        "        with tony.checkpoint(step): pass\n"
        "child = os.fork()\n"
        "threads = [threading.Thread(target=tell) for _ in range(4)]\n"
        "for each in threads: each.start()\n"
        "for each in threads: each.join()\n"
        "if child: os.waitpid(child, 0)\n"
    )
    run(code, environment(hearer))
    found = heard(hearer)
    assert found
    assert None not in found


def test_the_programs_own_package_goes_first(hearer: socket.socket, tmp_path: Path) -> None:
    """Next to the program, on its path after tony's, or installed: it is the one that is imported, and whole."""
    (tmp_path / "site/tony").mkdir(parents=True)
    (tmp_path / "site/tony/__init__.py").write_text("who = 'mine'\nfrom tony import part\n")
    (tmp_path / "site/tony/part.py").write_text("import tony\nname = tony.__name__ + '.part'\n")
    code = "import tony, sys\nprint(tony.who, tony.part.name, tony.__file__)\nfrom tony import who\nimport tony.part"
    expected = f"mine tony.part {tmp_path}/site/tony/__init__.py\n"
    behind = f"import sys; sys.path.append({str(tmp_path / 'site')!r})\n"
    assert run(behind + code, environment(hearer)) == expected
    assert run(code, environment(hearer, tmp_path / "site")) == expected


def test_a_folder_of_that_name_is_no_package(hearer: socket.socket, tmp_path: Path) -> None:
    """Data of a program may lie in a folder called tony."""
    (tmp_path / "tony").mkdir()
    code = f"import sys; sys.path.append({str(tmp_path)!r})\nimport tony; tony.progress(1)"
    run(code, environment(hearer))
    assert heard(hearer) == [Advance(1.0)]


def test_a_package_that_fails_fails(tmp_path: Path) -> None:
    """Its error is its own, and nothing of ours takes its place."""
    (tmp_path / "tony").mkdir()
    (tmp_path / "tony/__init__.py").write_text("raise RuntimeError('broken')\n")
    code = (
        f"import sys; sys.path.append({str(tmp_path)!r})\n"
        "try:\n    import tony\nexcept RuntimeError as error: print(error, 'tony' in sys.modules)"
    )
    assert run(code, environment(None)) == "broken False\n"


def test_the_installed_package_has_the_same_functions() -> None:
    """`tony` itself, for programs whose Python has it."""
    assert (tony.progress, tony.checkpoint) == (progress, checkpoint)
