"""The hook that dumps Python's stack traces, without side effects on the program."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tony
from tony.executor.program import stack_dump
from tony.executor.program.program_environment import STACKS_SIGNAL, build_variables, find_folder
from tony.schedulers.shipping import SOURCES

#: Whether a program has the hook's file open.
HAS_FILE = """\
import os
names = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
print(any("tony-stacks" in os.readlink(name) for name in names if os.path.lexists(name)))
"""
FOLDER = Path(tony.__file__).parent / "python_hooks/hooks"


def environment(*folders: Path, stacks: bool = True) -> dict[str, str]:
    """Of a program beside which the hook lies."""
    path = {"PYTHONPATH": os.pathsep.join(map(str, (*folders, FOLDER))), "PATH": os.environ["PATH"]}
    return {**path, "TONY_STACKS": str(int(STACKS_SIGNAL))} if stacks else path


def run(code: str, env: dict[str, str]) -> str:
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def stacks(code: str) -> tuple[str, str]:
    """Where a program stands once it has printed a line, and what it printed then."""
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment(), stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout
        line = program.stdout.readline()
        try:
            text = stack_dump.read_stacks(program.pid)
            again = stack_dump.read_stacks(program.pid) if text else ""
            assert bool(again) == bool(text)
            assert program.poll() is None, "it continues"
            return text, line
        finally:
            program.kill()


def test_a_program_dumps_its_stacks() -> None:
    """All threads, also those that wait in C; as often as it is requested, each time anew."""
    text, _ = stacks(
        "import threading, time\n"
        "def one(): time.sleep(600)\n"
        "def two():\n    print(1, flush=True)\n    threading.Lock().acquire() or time.sleep(600)\n    time.sleep(600)\n"
        "threading.Thread(target=one, daemon=True).start()\n"
        "two()\n"
    )
    assert "in one" in text
    assert "in two" in text


def test_a_program_that_took_the_signal_keeps_it() -> None:
    """Its own handler is called, not ours: nothing is found in our file."""
    code = f"import signal, time\nsignal.signal({int(STACKS_SIGNAL)}, lambda *_: None)\nprint(1, flush=True)\n"
    text, _ = stacks(code + "while True: time.sleep(0.01)\n")
    assert text == ""


def test_a_program_without_the_handler_is_not_signalled() -> None:
    """A signal without a handler ends a process."""
    code = f"import signal, time\nsignal.signal({int(STACKS_SIGNAL)}, signal.SIG_DFL)\nprint(1, flush=True)\n"
    text, _ = stacks(code + "time.sleep(600)\n")
    assert text == ""


def test_a_program_that_closed_all_files_is_not_signalled() -> None:
    """As daemons do: the descriptor's number belongs to another file now."""
    text, _ = stacks("import os, time\nos.closerange(3, 4096)\nprint(1, flush=True)\ntime.sleep(600)\n")
    assert text == ""


def test_a_fork_dumps_its_own_stacks() -> None:
    """It has its parent's file, and writes for itself alone when it alone is asked."""
    code = (
        "import os, time\n"
        "def child(): time.sleep(600)\n"
        "def parent(): time.sleep(600)\n"
        "pid = os.fork()\n"
        "child() if pid == 0 else (print(pid, flush=True), parent())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment(), stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout
        child = int(program.stdout.readline())
        try:
            deadline = time.monotonic() + 60
            while "in child" not in (text := stack_dump.read_stacks(child)):
                assert time.monotonic() < deadline, text
            assert "in parent" not in text
        finally:
            os.kill(child, 9)
            program.kill()


def test_low_numbers_of_files_stay_free() -> None:
    """Programs count on 3 being the next one."""
    assert run("import os; print(os.open('/', 0))", environment()) == "3\n"


def test_without_the_variable_nothing_is_registered() -> None:
    """A program that a program starts without it has no file of ours."""
    assert run(HAS_FILE, environment(stacks=False)) == "False\n"
    assert run(HAS_FILE, environment()) == "True\n"


@pytest.mark.parametrize("where", ["behind", "before"])
def test_the_interpreters_own_sitecustomize_is_run(tmp_path: Path, where: str) -> None:
    """Behind ours on the path it runs as if it were the only one; before ours it is the only one."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nvalue = __name__\nsys.seen = __file__\n")
    env = environment(tmp_path)
    if where == "behind":
        env["PYTHONPATH"] = os.pathsep.join(reversed(env["PYTHONPATH"].split(os.pathsep)))
    show = "import sitecustomize, sys; print(sitecustomize.value, sys.seen == sitecustomize.__file__)"
    assert run(show, env) == "sitecustomize True\n"


def test_without_one_there_is_none() -> None:
    """A program that looks for `sitecustomize` does not find ours."""
    code = "import sys; print('sitecustomize' in sys.modules)"
    theirs = run(code, {"PATH": os.environ["PATH"]})
    assert run(code, environment()) == theirs


def test_a_failing_sitecustomize_is_reported_as_usual(tmp_path: Path) -> None:
    """Python prints its error as without tony's hook, and the program starts."""
    (tmp_path / "sitecustomize.py").write_text("raise ValueError('mine')\n")
    env = environment()
    env["PYTHONPATH"] += f"{os.pathsep}{tmp_path}"
    done = subprocess.run([sys.executable, "-c", "print(1)"], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "ValueError: mine" in done.stderr


def test_variables_keep_the_programs_own() -> None:
    """Its own PYTHONPATH goes first; without hooks only the library is added; an empty one is none."""
    base = find_folder()
    assert base is not None
    assert build_variables({"PYTHONPATH": "src"}, "/x", hooks=True) == {
        "TONY_PROGRESS": "/x",
        "TONY_STACKS": str(int(STACKS_SIGNAL)),
        "PYTHONPATH": f"src:{base}/library:{base}/hooks",
    }
    assert build_variables({"PYTHONPATH": ""}, None, hooks=False) == {"PYTHONPATH": f"{base}/library"}


def test_on_a_node_the_sources_are_next_to_the_compiled_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without sources there is no folder to add."""
    monkeypatch.setattr(tony, "__file__", f"{tmp_path}/programs-cpython-311.zip/tony/__init__.pyc")
    (tmp_path / "programs-cpython-311.zip").touch()
    assert find_folder() is None
    assert build_variables({}, None, hooks=False) == {}
    (tmp_path / "programs.zip").touch()
    assert find_folder() == f"{tmp_path}/programs.zip/tony/python_hooks"


def test_in_a_pod_the_sources_are_in_the_same_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `code_archives` builds it for Kubernetes."""
    archive = tmp_path / "tony.zip"
    archive.touch()
    for folder in ("cpython-311", SOURCES):
        monkeypatch.setattr(tony, "__file__", f"{archive}/{folder}/tony/__init__.py")
        assert find_folder() == f"{archive}/{SOURCES}/tony/python_hooks"


def test_both_can_be_imported_from_a_zip_of_sources(tmp_path: Path) -> None:
    """As they lie on the nodes of a cluster."""
    import zipfile

    root = Path(tony.__file__).parent.parent
    with zipfile.ZipFile(tmp_path / "programs.zip", "w") as archive:
        for path in sorted((root / "tony/python_hooks").rglob("*.py")):
            archive.write(path, str(path.relative_to(root)))
    base = f"{tmp_path}/programs.zip/tony/python_hooks"
    env = {**environment(), "PYTHONPATH": f"{base}/library:{base}/hooks"}
    assert run(HAS_FILE, env) == "True\n"
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import tony; print(tony.__file__)"], env=env, capture_output=True, text=True
    )
    assert done.stdout == f"{base}/library/tony/__init__.py\n"
