"""Staging refuses everything that is wrong at once, and otherwise puts each thing into the cache once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.facts import mention_each, mentions
from tests.storage.samples import Node, make_venv, pack_tree, snapshot, tar_of, write_tree, zip_of
from tony.client import staging
from tony.client.staging import stage
from tony.errors import ConfigError, Problem
from tony.model.job_spec import MIB, JobSpec, Role
from tony.model.staged_files import Placement, StagedJob
from tony.model.state_directory import Home
from tony.storage.environments.localization import localize


class Desk:
    """A home, a folder for the job's files, and what was said."""

    def __init__(self, place: Path) -> None:
        self.home = Home(place / "home")
        self.files = place / "files"
        self.files.mkdir()
        self.said: list[str] = []
        self.jobs = 0

    def write(self, tree: dict[str, Node]) -> None:
        write_tree(self.files, tree)

    def path(self, name: str) -> str:
        return str(self.files / name)

    def stage(self, spec: JobSpec, **options: object) -> StagedJob:
        self.jobs += 1
        self.said = []
        self.folder = self.home.job(f"job-{self.jobs}")
        self.folder.path.mkdir(parents=True)
        return stage(spec, self.home, self.folder, lambda notice: self.said.append(str(notice)), **options)  # type: ignore[arg-type]

    def problems(self, spec: JobSpec, **options: object) -> tuple[Problem, ...]:
        with pytest.raises(ConfigError) as caught:
            self.stage(spec, **options)
        assert not self.folder.staged.exists()
        return caught.value.problems

    def objects(self) -> set[str]:
        return {path.name for path in self.home.cache.iterdir() if path.is_file()}

    def laid(self, staged: StagedJob, role: str = "main") -> dict[str, tuple[str, int, bytes | str]]:
        work = self.folder.work / f"{role}-0"
        localize(staged.roles[role], self.home.cache, work)
        return snapshot(work)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


FILE: Node = (b"x", 0o644)


def test_everything_that_a_job_file_shows(desk: Desk) -> None:
    """Source, a file as it is, an archive unpacked under its own name and another, a renamed file, a folder."""
    zip_of(desk.files / "big.zip", {"in": (b"z", 0o755)})
    desk.write({"src/train.py": FILE, "data.npz": (b"d", 0o600), "a.txt": (b"a", 0o644), "extra/e": FILE})
    spec = JobSpec(
        source=desk.path("src"),
        files=(
            desk.path("data.npz"),
            desk.path("big.zip") + "#archive",
            desk.path("big.zip") + "::other#archive",
            desk.path("a.txt") + "::conf/renamed.txt",
            desk.path("extra"),
        ),
    )
    staged = desk.stage(spec)
    assert sorted(desk.laid(staged)) == sorted(
        [
            "train.py",
            "data.npz",
            "big.zip",
            "big.zip/in",
            "other",
            "other/in",
            "conf",
            "conf/renamed.txt",
            "extra",
            "extra/e",
        ]
    )
    assert desk.laid(staged)["data.npz"] == ("file", 0o600, b"d")
    assert desk.laid(staged)["other/in"] == ("file", 0o755, b"z")
    items = staged.roles["main"].items
    assert [item.placement for item in items[:2]] == [Placement.ROOT, Placement.FILE]
    assert set(os.listdir(desk.folder.staged)) == {item.digest for item in items} == desk.objects()


def test_roles_share_objects(desk: Desk) -> None:
    """Job's files and role's files; the same content is one object and is said once."""
    desk.write({"src/train.py": FILE, "a": (b"same", 0o644), "b": (b"same", 0o644)})
    roles = {"worker": Role(files=(desk.path("b"),)), "ps": Role()}
    staged = desk.stage(JobSpec(source=desk.path("src"), files=(desk.path("a"),), roles=roles))
    assert [item.name for item in staged.roles["worker"].items] == ["src", "a", "b"]
    assert [item.name for item in staged.roles["ps"].items] == ["src", "a"]
    assert len(desk.objects()) == 2
    assert desk.said == ["source: 1 bytes in 1 file", "a: 4 bytes", "b: 4 bytes, unchanged"]


def test_second_job_stages_nothing_new(desk: Desk) -> None:
    """The same objects are linked into the second job's folder."""
    desk.write({"src/train.py": FILE, "a": FILE})
    spec = JobSpec(source=desk.path("src"), files=(desk.path("a"),))
    first = desk.stage(spec)
    inodes = {path.stat().st_ino for path in desk.folder.staged.iterdir()}
    assert desk.stage(spec) == first
    assert {path.stat().st_ino for path in desk.folder.staged.iterdir()} == inodes
    assert all("unchanged" in sentence for sentence in desk.said)


def test_all_errors_at_once(desk: Desk) -> None:
    """Each with its key, the value as written, where it was set, and what to do."""
    desk.write({"src/out": "/etc/passwd", "src/up": "../other", "plain.txt": FILE, "a": FILE, "dir/a": FILE})
    roles = {
        "worker": Role(files=(desk.path("plain.txt") + "#archive", "/x::../y"), python=desk.path("plain.txt")),
        "ps": Role(files=(desk.path("dir/a"),)),
    }
    spec = JobSpec(
        source=desk.path("src"),
        files=(desk.path("missing/deep"), desk.path("a"), "hdfs://nn/data"),
        python=desk.path("nopython"),
        roles=roles,
    )
    problems = desk.problems(spec, sources={"files": "job.toml:7", "source": "job.toml:2"})
    said = [(p.key, p.value, p.source) for p in problems]
    assert sorted(said, key=str) == sorted(
        [
            ("files", desk.path("missing/deep"), "job.toml:7"),
            ("files", "hdfs://nn/data", "job.toml:7"),
            ("roles.worker.files", desk.path("plain.txt") + "#archive", None),
            ("roles.worker.files", "/x::../y", None),
            ("roles.worker.python", desk.path("plain.txt"), None),
            ("roles.ps.files", desk.path("dir/a"), None),
            ("source", desk.path("src"), "job.toml:2"),
            ("source", desk.path("src"), "job.toml:2"),
            ("python", desk.path("nopython"), None),
        ],
        key=str,
    )
    text = "\n".join(str(problem) for problem in problems)
    for words in (
        f"{desk.files} exists, missing in it does not",
        "only local paths are allowed",
        "not an archive. Supported are tar, tar.gz",
        "must be a relative path inside the working directory",
        "executable",
        "`a`",
        "the link out -> /etc/passwd leads out",
        "the link up -> ../other leads out",
        "there is no such file or folder",
    ):
        assert words in text
    assert desk.objects() == set()
    assert staging.find_problems(spec, desk.home, sources={"files": "job.toml:7", "source": "job.toml:2"}) == problems


def test_archives_are_read_before_the_job_begins(desk: Desk) -> None:
    """A damaged one, one with `..` members and one without Python are refused, by name."""
    zip_of(desk.files / "evil.zip", {"../x": FILE})
    tar_of(desk.files / "cut.tar.gz", {"x": (os.urandom(50_000), 0o644)}, "w:gz")
    os.truncate(desk.files / "cut.tar.gz", 20_000)
    zip_of(desk.files / "nopy.zip", {"123.xml": FILE})
    spec = JobSpec(
        source=desk.path("cut.tar.gz"), files=(desk.path("evil.zip") + "#archive",), python=desk.path("nopy.zip")
    )
    by_key = {problem.key: problem.message for problem in desk.problems(spec)}
    assert "cut.tar.gz is damaged or truncated" in by_key["source"]
    assert mentions(by_key["files"], "evil.zip", "../x")
    assert "nopy.zip contains no bin/python" in by_key["python"]
    assert desk.objects() == set()
    # As it is, an archive is a file like any other.
    assert desk.stage(JobSpec(files=(desk.path("evil.zip"),))).roles["main"].items[0].suffix == ""


def test_sound_archive_is_read_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of a big archive is not paid at every submit, but for each use."""
    tar_of(desk.files / "a.tgz", {"x": FILE}, "w:gz")
    os.utime(desk.files / "a.tgz", (1, 1))
    read: list[str] = []
    monkeypatch.setattr("tony.storage.archives.unpack.check", lambda archive, kind, name, **_: read.append(name))
    for _ in range(2):
        desk.stage(JobSpec(files=(desk.path("a.tgz") + "#archive",)))
    desk.stage(JobSpec(source=desk.path("a.tgz")))
    assert read == ["a.tgz", "a.tgz"]


@pytest.mark.parametrize(
    ("tree", "source", "words"),
    [
        ({}, "none", "there is no such file or folder. Check the path."),
        ({"f.txt": FILE}, "f.txt", "a file, but not an archive"),
        ({"f.zst": (b"\x28\xb5\x2f\xfd" * 200, 0o644)}, "f.zst", "a zstd archive, which is not supported"),
        ({"l": "nowhere"}, "l", "which does not exist. Fix the link."),
        ({"s/.tonyignore": (b"ok\n!\n", 0o644)}, "s", ".tonyignore:2: `!` is not a valid pattern"),
    ],
)
def test_sources_that_are_none(desk: Desk, tree: dict[str, Node], source: str, words: str) -> None:
    """Each says what it is instead, and what to give."""
    desk.write(tree)
    (problem,) = desk.problems(JobSpec(source=desk.path(source)))
    assert problem.key == "source"
    assert words in problem.message


def test_many_errors_of_one_folder_are_counted(desk: Desk) -> None:
    """Ten are shown."""
    desk.write({f"s/l{number:02}": "/etc" for number in range(25)})
    problems = desk.problems(JobSpec(source=desk.path("s")))
    assert len(problems) == 11
    assert mentions(problems[-1].message, "15 more")


def test_special_files(desk: Desk) -> None:
    """In the source a pipe is left out and that is said; named itself it is refused."""
    desk.write({"s/x": FILE})
    os.mkfifo(desk.files / "s" / "pipe")
    assert sorted(desk.laid(desk.stage(JobSpec(source=desk.path("s"))))) == ["x"]
    assert "warning: source: pipe is a named pipe and is left out" in desk.said
    (problem,) = desk.problems(JobSpec(files=(desk.path("s/pipe"),)))
    assert "neither a file nor a folder" in problem.message


def test_same_entry_twice_is_no_clash(desk: Desk) -> None:
    """A role may repeat what the job says."""
    desk.write({"a": FILE})
    roles = {"worker": Role(files=(desk.path("a"),))}
    assert len(desk.stage(JobSpec(files=(desk.path("a"),), roles=roles)).roles["worker"].items) == 1


def test_a_file_named_by_every_role_is_not_packed_twice(desk: Desk) -> None:
    """`source = "."` and `files = ["data.npz"]`: the file is staged by itself, and the source goes without it."""
    desk.write({"train.py": FILE, "data.npz": (b"d" * 100_000, 0o644)})
    both = desk.stage(JobSpec(source=str(desk.files), files=(desk.path("data.npz"),)))
    assert both.roles["main"].items[0].size < 10_000
    assert sorted(desk.laid(both)) == ["data.npz", "train.py"]
    roles = {"worker": Role(files=(desk.path("data.npz"),)), "ps": Role()}
    one = desk.stage(JobSpec(source=str(desk.files), roles=roles))
    assert sorted(desk.laid(one, "ps")) == sorted(desk.laid(one, "worker")) == ["data.npz", "train.py"]


def test_an_archive_of_python_is_not_packed_twice(desk: Desk) -> None:
    """Next to the program, it is staged by itself, and the source goes without it."""
    desk.write({"src/train.py": FILE})
    tar_of(desk.files / "src" / "env.tar", {"bin/python": "/usr/bin/python3", "data": (os.urandom(100_000), 0o644)})
    staged = desk.stage(JobSpec(source=desk.path("src"), python=desk.path("src/env.tar")), same_host=False)
    source, python = staged.roles["main"].items
    assert source.size < 20_000 < python.size


def test_link_out_of_the_source_may_be_named_in_files(desk: Desk) -> None:
    """The way that the message about an escaping link shows does work."""
    desk.write({"s/train.py": FILE, "elsewhere/d": FILE, "s/data": "../elsewhere"})
    assert len(desk.problems(JobSpec(source=desk.path("s")))) == 1
    staged = desk.stage(JobSpec(source=desk.path("s"), files=(desk.path("s/data"),)))
    assert sorted(desk.laid(staged)) == ["data", "data/d", "train.py"]


def test_home_inside_the_source_is_not_packed_into_itself(tmp_path: Path) -> None:
    """`TONY_HOME` may lie in the project."""
    desk = Desk(tmp_path)
    desk.write({"x": FILE})
    desk.home = Home(desk.files / ".tony")
    for _ in range(2):
        assert sorted(desk.laid(desk.stage(JobSpec(source=str(desk.files))))) == ["x"]


def test_a_folder_that_ignores_everything_is_reported(desk: Desk) -> None:
    """A folder whose own .gitignore hides it all, as tools make them."""
    desk.write({"s/.gitignore": (b"*\n", 0o644), "s/x": FILE})
    assert desk.laid(desk.stage(JobSpec(source=desk.path("s")))) == {}
    assert any("everything in" in sentence for sentence in desk.said)
    # The same folder, named on purpose.
    assert sorted(desk.laid(desk.stage(JobSpec(files=(desk.path("s"),))))) == ["s", "s/.gitignore", "s/x"]


def test_a_gitignore_that_does_not_count(desk: Desk) -> None:
    """What it names is packed; a .tonyignore is heeded still."""
    desk.write({"s/.gitignore": (b"data/\n", 0o644), "s/data/x": FILE, "s/y": FILE})
    job = JobSpec(source=desk.path("s"), gitignore=False)
    assert sorted(desk.laid(desk.stage(job))) == [".gitignore", "data", "data/x", "y"]
    desk.write({"s/.tonyignore": (b"y\n", 0o644)})
    assert sorted(desk.laid(desk.stage(job))) == [".gitignore", ".tonyignore", "data", "data/x"]


def test_large_source_is_warned_about(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the limit (500 MB, made smaller here) the biggest things in it are named, before they are packed."""
    assert staging.LARGE == 500 * MIB
    monkeypatch.setattr(staging, "LARGE", 3 * MIB)
    desk.write({"s/train.py": FILE, "s/data/old/model.bin": FILE})
    os.truncate(desk.files / "s" / "data" / "old" / "model.bin", 4 * MIB)  # a sparse file counts as long as it is
    desk.stage(JobSpec(source=desk.path("s")))
    warning = (
        "warning: source is large (4m) and is copied for every task. Largest entries: "
        "data/old/model.bin (4m), train.py (1 bytes). Leave out what the job does not need with a .tonyignore file."
    )
    assert desk.said == [warning, "source: 4m in 2 files"]
    desk.stage(JobSpec(files=(desk.path("s/data/old/model.bin"),)))
    assert mention_each(desk.said, ("model.bin", "4m"), ("model.bin", "4m"))


class TestPython:
    def test_interpreter(self, desk: Desk) -> None:
        """A path that is no archive, and a name, are left for the node."""
        desk.write({"bin/python3.9": (b"#!/bin/sh\n", 0o755), "link": "bin/python3.9"})
        roles = {"a": Role(), "b": Role(python="python3.12"), "c": Role(python=desk.path("link"))}
        staged = desk.stage(JobSpec(python=desk.path("bin/python3.9"), roles=roles))
        assert [staged.roles[role].python for role in "abc"] == [
            desk.path("bin/python3.9"),
            "python3.12",
            desk.path("link"),
        ]

    def test_a_missing_interpreter_may_exist_on_the_cluster(self, desk: Desk) -> None:
        """On a cluster the submitter's machine need not have it; an archive must be here in every case."""
        staged = desk.stage(JobSpec(python="/opt/none/bin/python"), same_host=False)
        assert staged.roles["main"].python == "/opt/none/bin/python"
        assert len(desk.problems(JobSpec(python="/opt/none/env.tar.gz"), same_host=False)) == 1
        assert len(desk.problems(JobSpec(python="/opt/none/bin/python"))) == 1

    @pytest.mark.slow
    def test_archive_and_folder(self, desk: Desk) -> None:
        """An archive becomes an item that is unpacked as Python; a folder is used where it is."""
        place = make_venv(desk.files / "env")
        archive = pack_tree(desk.files / "env.tar.gz", place)
        roles = {"a": Role(python=str(archive)), "b": Role(python=str(place))}
        staged = desk.stage(JobSpec(roles=roles))
        (item,) = staged.roles["a"].items
        assert (item.placement, item.suffix, item.name) == (Placement.PYTHON, ".tar.gz", "env.tar.gz")
        assert staged.roles["b"].python == str(place / "bin" / "python")

    def test_an_archive_with_a_missing_base_interpreter(self, desk: Desk) -> None:
        """Refused here when the tasks run here; on a cluster the node may have it."""
        tar_of(desk.files / "env.tar", {"bin/python": "python3", "bin/python3": "/opt/none/python3"})
        (problem,) = desk.problems(JobSpec(python=desk.path("env.tar")))
        assert mentions(problem.message, "/opt/none/python3")
        assert desk.stage(JobSpec(python=desk.path("env.tar")), same_host=False).roles["main"].items

    @pytest.mark.parametrize(
        ("tree", "words"),
        [
            ({"p/x": FILE}, "a folder without bin/python"),
            ({"p/bin/python": "/opt/none/python"}, "link to /opt/none/python, which does not exist"),
            ({"p": FILE}, "executable"),
            ({"p": (b"x", 0o700)}, "neither a Linux binary nor a script"),
            ({"p": (b"#!/no/such x\n", 0o700)}, "its #! line names /no/such, which does not exist"),
            ({"p": (b"#! /bin/sh\r\n", 0o700)}, "its #! line names /bin/sh\r, which does not exist"),
            ({"p": (b"7z\xbc\xaf\x27\x1c" + b"x" * 600, 0o644)}, "a 7z archive"),
        ],
    )
    def test_errors_in_a_python_environment(self, desk: Desk, tree: dict[str, Node], words: str) -> None:
        """Each says what it is, and what to give."""
        desk.write(tree)
        (problem,) = desk.problems(JobSpec(python=desk.path("p")))
        assert problem.key == "python"
        assert words in problem.message


def test_ignored_files_are_reported_and_recorded(desk: Desk) -> None:
    """How much, the largest file, the folders, and what changes it; the record has paths for a later failure."""
    tree: dict[str, Node] = {
        ".gitignore": (b"*.dat\ndata\n.venv\n", 0o644),
        "a.py": FILE,
        "data/x": FILE,
        ".venv/x": FILE,
    }
    desk.write({**tree, "a.dat": (b"1" * 2048, 0o644), "b.dat": FILE})
    staged = desk.stage(JobSpec(source=str(desk.files)))
    sentence = "2 files (2k), the largest a.dat, and 2 folders (.venv, data); --set gitignore=false stages all"
    assert f"source: left out by .gitignore: {sentence}" in desk.said
    assert staged.left_out is not None
    assert staged.left_out.paths == (".venv/", "data/", "a.dat", "b.dat")
    assert desk.stage(JobSpec(source=str(desk.files), gitignore=False)).left_out is None
    assert not any("left out" in line for line in desk.said)
