"""Tests of the command line run it in this process, on a home of their own."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tony.cli.main import main
from tony.model.state_directory import Home


@dataclass(frozen=True)
class Answer:
    """What a command line printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Tony = Callable[..., Answer]


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """An empty home with a short path, which TONY_HOME names."""
    path = Path(tempfile.mkdtemp(prefix="tony-cli-"))
    monkeypatch.setenv("TONY_HOME", str(path))
    yield Home(path)
    shutil.rmtree(path)


@pytest.fixture
def tony(home: Home, capsys: pytest.CaptureFixture[str]) -> Tony:
    def run(*arguments: str) -> Answer:
        capsys.readouterr()
        code = main(arguments)
        captured = capsys.readouterr()
        return Answer(int(code), captured.out, captured.err)

    return run
