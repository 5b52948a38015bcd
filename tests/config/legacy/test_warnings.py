"""What is told of jobs before their tasks run."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest

from tests.config.legacy.jobs import NOWHERE, list_errors, notes, write
from tests.facts import mentions
from tony.config.legacy.flags import parse
from tony.config.load import load
from tony.errors import ConfigError

ONE = {"tony.worker.instances": "1"}
RUN = ("--executes", "t.py")


def told(folder: Path, *flags: str) -> list[str]:
    """The notes on a job without a `tony.xml` in the current folder."""
    (folder / "job/src").mkdir(parents=True, exist_ok=True)
    resolved = load(flags=parse([*RUN, *flags]), environ=NOWHERE, cwd=folder, site_files=[])
    return [str(note) for note in resolved.notes]


class TestNoSettingsFile:
    """A program of many tasks that runs alone looks as if all were well."""

    SAID = (
        "there is no tony.xml here and no --conf_file, so no number of tasks is set: the program runs as a single task."
    )

    def test_a_missing_class_path_is_reported(self, tmp_path: Path) -> None:
        """The file next to the source is named, where users of LinkedIn TonY have it."""
        assert told(tmp_path, "--src_dir", "job/src") == [self.SAID]
        write(tmp_path, ONE, "job/tony.xml")
        assert told(tmp_path, "--src_dir", "job/src") == [f"{self.SAID} Did you mean --conf_file job/tony.xml?"]
        assert told(tmp_path, "--src_dir", "job/src/") == [f"{self.SAID} Did you mean --conf_file job/tony.xml?"]

    def test_no_warning_with_explicit_settings(self, tmp_path: Path) -> None:
        """By flags, or by a file without types: a program may run alone."""
        assert told(tmp_path, "--conf", "tony.worker.instances=2") == []
        assert notes(tmp_path, {}, *RUN) == []

    @pytest.mark.parametrize("folder", ["x" * 5000, "a\0b/src"])
    def test_an_invalid_path_gets_no_suggestion(self, tmp_path: Path, folder: str) -> None:
        """The error is found by another check."""
        with pytest.raises(ConfigError):
            told(tmp_path, "--src_dir", folder)


class TestNoInterpreter:
    """The archive is looked into before every task fails."""

    def flags(self, folder: Path, path: str, archive: str = "v.zip") -> tuple[str, ...]:
        """Those of a job with the usual environment: a folder at its top, and a link."""
        with zipfile.ZipFile(folder / "v.zip", "w") as file:
            for name in ("venv/bin/python", "venv/bin/python3", "venv/lib/python/x"):
                file.writestr(name, "")
            link = zipfile.ZipInfo("current")
            link.external_attr = (stat.S_IFLNK | 0o777) << 16
            file.writestr(link, "venv")
        return (*RUN, "--python_venv", archive, "--python_binary_path", path)

    def test_it_is_refused_with_the_right_path(self, tmp_path: Path) -> None:
        """As LinkedIn TonY's page on PyTorch has it, whose archive has another folder."""
        (found,) = list_errors(tmp_path, ONE, *self.flags(tmp_path, "bin/python"))
        assert mentions(
            found,
            '--python_binary_path = "bin/python" (command line)',
            "v.zip",
            "venv/",
            "--python_binary_path=venv/bin/python",
        )
        (found,) = list_errors(tmp_path, ONE, *self.flags(tmp_path, "bin/pypy"))
        assert found.endswith("; name a file of the archive, or an absolute path on the nodes.")

    @pytest.mark.parametrize(
        "path",
        ["venv/bin/python", "./venv/bin/python3", "venv/bin/python -u", "/usr/bin/python3", "current/bin/python3"],
    )
    def test_not_if_it_is_there(self, tmp_path: Path, path: str) -> None:
        """Or outside the environment, or behind a link."""
        assert notes(tmp_path, ONE, *self.flags(tmp_path, path)) == []

    def test_not_if_it_cannot_be_known(self, tmp_path: Path) -> None:
        """An archive of another kind, or elsewhere."""
        (tmp_path / "v.tar").write_bytes(b"no zip")
        assert notes(tmp_path, ONE, *self.flags(tmp_path, "bin/python", "v.tar")) == []
        assert notes(tmp_path, ONE, *self.flags(tmp_path, "bin/python", "hdfs://nn/v.zip")) == []
