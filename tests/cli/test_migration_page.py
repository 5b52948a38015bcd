"""What docs/migrating.md shows, executed as it stands there: the XML that is converted, calls of the client API."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tony
from tests.cli.conftest import Tony
from tests.config.legacy.jobs import write
from tony.model.state_directory import Home

PAGE = Path(__file__).parents[2] / "docs" / "migrating.md"
#: As the page has them.
FLAGS = ("--src_dir=src", "--executes=train.py", "--python_binary_path=python3")
SETTINGS = {
    "tony.ps.instances": "1",
    "tony.worker.instances": "1",
    "tony.ps.memory": "64m",
    "tony.worker.memory": "64m",
    "tony.ps.command": "sleep 600",
    "tony.worker.command": "test $ENV_CHECK = ENV_CHECK",
    "tony.execution.envs": "ENV_CHECK=ENV_CHECK",
    "tony.containers.envs": "SKIP_HADOOP_PATH=true",
}


def block(language: str) -> str:
    """The page's one block of code in a language."""
    (text,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return str(text)


@pytest.fixture
def sample(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the page's program defines; the current folder is empty, and no site file of this machine is found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TONY_CONF_DIR", str(tmp_path / "site"))
    monkeypatch.setenv("TONY_SET_SCHEDULER__LOCAL__LEDGER", str(tmp_path / "ledger"))
    text = block("python")
    names: dict[str, Any] = {}
    exec(compile(text, str(PAGE), "exec"), names)
    return names


def test_the_listener_and_the_id(sample: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The id first, then each change of the two tasks until both have ended; the exit code is the job's."""
    write(tmp_path, SETTINGS)
    assert sample["run"]("tony.xml", scheduler="local") == 0
    first, *changes = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"local-\S+", first)
    last = dict(line.rsplit(" ", 1) for line in changes)
    assert last == {"ps 0": "stopped", "worker 0": "succeeded"}
    assert len(changes) > len(last)


def test_ending_it_by_force(sample: dict[str, Any], tmp_path: Path) -> None:
    """Comes back once that is on its way; there is nothing to close."""
    write(tmp_path, {**SETTINGS, "tony.worker.command": "sleep 600"})
    job = tony.submit("tony.xml", scheduler="local")
    job.kill(now=True)
    report = job.wait(300)
    assert (report.state.value, report.exit_code) == ("killed", 4)


def test_the_job_file_that_is_shown(tony: Tony, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what the XML above it becomes, but for the first words of its head."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TONY_CONF_DIR", str(tmp_path / "site"))
    page = PAGE.read_text(encoding="utf-8")
    lines = page[page.index("    <configuration>") :].partition("\n\n")[0].splitlines()
    (tmp_path / "tony.xml").write_text("\n".join(line[4:] for line in lines), encoding="utf-8")
    assert f"    tony convert tony.xml {' '.join(FLAGS)} > job.toml\n" in page
    made = tony("convert", "tony.xml", *FLAGS)
    assert made.code == 0
    assert made.out.endswith(f"\n#\n{block('toml')}")
