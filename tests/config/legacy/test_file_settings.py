"""What containers get: source, environment, resources, class path, Docker images."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest

from tests.config.legacy.jobs import list_errors, notes, resolve, spec
from tests.facts import mentions

ONE = {"tony.worker.instances": "1"}
RESOURCES = "tony.containers.resources"
LOCATION, CLASSPATH = "tony.application.hadoop.location", "tony.application.hadoop.classpath"
SKIP = ("--container_env", "SKIP_HADOOP_PATH=true")


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_all_of_the_source_is_packed(tmp_path: Path) -> None:
    """LinkedIn TonY knows no `.gitignore`, which often names the data."""
    touch(tmp_path, "src/t.py")
    job = spec(tmp_path, ONE, "--src_dir", "src")
    assert (job.source, job.gitignore) == (f"{tmp_path}/src", False)


class TestResources:
    """`SOURCE[::NAME][#archive]`, relative to the folder where one submits."""

    def test_the_grammar(self, tmp_path: Path) -> None:
        """Local files and folders, new names, archives, addresses, empty items."""
        touch(tmp_path, "a.txt", "b.zip", "d/x")
        items = f"a.txt, a.txt::c ,,b.zip#archive,b.zip::e#archive,d,hdfs://nn/f,file://{tmp_path}/a.txt::g,"
        job = spec(tmp_path, {**ONE, "tony.worker.resources": items})
        assert job.roles["worker"].files == (
            f"{tmp_path}/a.txt",
            f"{tmp_path}/a.txt::c",
            f"{tmp_path}/b.zip#archive",
            f"{tmp_path}/b.zip::e#archive",
            f"{tmp_path}/d",
            "hdfs://nn/f",
            f"{tmp_path}/a.txt::g",
        )

    def test_of_one_name_the_last_one_counts(self, tmp_path: Path) -> None:
        touch(tmp_path, "a/x", "b/x")
        settings = {**ONE, RESOURCES: "a/x,b/x"}
        assert spec(tmp_path, settings).files == (f"{tmp_path}/b/x",)
        said = "a/x is left out: b/x (tony.xml:4) has the same name, and the last one wins."
        assert notes(tmp_path, settings) == [f"{RESOURCES} (tony.xml:4): {said}"]

    def test_a_missing_file_is_an_error(self, tmp_path: Path) -> None:
        assert list_errors(tmp_path, {**ONE, RESOURCES: "x"}) == [
            f'files[0] = "x" (tony.xml:4): {tmp_path}/x does not exist.'
        ]

    def test_two_new_names_stop(self, tmp_path: Path) -> None:
        assert "more than one `::`" in list_errors(tmp_path, {**ONE, "tony.worker.resources": "a::b::c"})[0]

    def test_files_of_the_application_master_alone(self, tmp_path: Path) -> None:
        """Nothing of the user's runs there, unless there are no types."""
        touch(tmp_path, "a")
        assert len(notes(tmp_path, {**ONE, "tony.am.resources": "a"})) == 1
        assert spec(tmp_path, {"tony.am.resources": "a"}).roles["main"].files == (f"{tmp_path}/a",)


class TestSource:
    """`--src_dir` and `--python_venv`."""

    def test_a_folder_and_an_environment(self, tmp_path: Path) -> None:
        """The environment lies in `venv/`, whatever it is called."""
        touch(tmp_path, "src/x.py", "my.zip")
        job = spec(tmp_path, ONE, "--src_dir", "src", "--python_venv", "my.zip")
        assert (job.source, job.files) == (f"{tmp_path}/src", (f"{tmp_path}/my.zip::venv#archive",))

    def test_both_may_lie_in_hdfs(self, tmp_path: Path) -> None:
        job = spec(tmp_path, ONE, "--src_dir", "hdfs:///s.zip", "--python_venv", "hdfs://nn/v.zip")
        assert (job.source, job.files) == ("hdfs:///s.zip", ("hdfs://nn/v.zip::venv#archive",))

    @pytest.mark.parametrize(
        ("flags", "command"),
        [
            ((), "x.py"),
            (("--python_binary_path", "Python/bin/python"), "Python/bin/python x.py"),
            (("--python_binary_path", "Python/bin/python", "--python_venv", "v.zip"), "venv/Python/bin/python x.py"),
            (("--python_binary_path", "/usr/bin/python", "--python_venv", "v.zip"), "/usr/bin/python x.py"),
            (("--task_params", "-e 3"), "x.py -e 3"),
        ],
    )
    def test_the_command_is_put_together(self, tmp_path: Path, flags: tuple[str, ...], command: str) -> None:
        """Interpreter, program, parameters; it wins over the file's."""
        touch(tmp_path, "v.zip")
        assert spec(tmp_path, ONE, "--executes", "x.py", *flags).command == command

    def test_a_types_own_command_wins(self, tmp_path: Path) -> None:
        """`--executes` is for those without one."""
        job = spec(tmp_path, {**ONE, "tony.ps.instances": "1", "tony.ps.command": "serve"}, "--executes", "x")
        assert [job.command_of(name) for name in job.roles] == ["x", "serve"]

    def test_settings_without_a_program_are_reported(self, tmp_path: Path) -> None:
        found = notes(tmp_path, ONE, "--task_params", "1", "--python_binary_path", "p")
        assert [each.partition(":")[0] for each in found] == ["--task_params", "--python_binary_path"]


class TestClassPath:
    """JVM programs and those that read HDFS through libhdfs."""

    def test_hadoops_is_there_unless_it_is_skipped(self, tmp_path: Path) -> None:
        """SKIP_HADOOP_PATH is a variable of the containers."""
        assert spec(tmp_path, ONE).hadoop_classpath
        assert not spec(tmp_path, ONE, *SKIP).hadoop_classpath
        assert not spec(tmp_path, {**ONE, "tony.containers.envs": "SKIP_HADOOP_PATH=True"}).hadoop_classpath
        assert spec(tmp_path, ONE, "--container_env", "SKIP_HADOOP_PATH=false").hadoop_classpath
        assert spec(tmp_path, ONE, "--shell_env", "SKIP_HADOOP_PATH=true").hadoop_classpath

    def test_hdfs_classpath(self, tmp_path: Path) -> None:
        """Files and folders of the cluster's file system; what is missing there is left out."""
        job = spec(tmp_path, ONE, "--hdfs_classpath", "/yarn/libs/, hdfs://nn/x.jar,,")
        assert job.files == ("hdfs:///yarn/libs#optional", "hdfs://nn/x.jar#optional")

    def test_a_hadoop_of_the_jobs_own(self, tmp_path: Path) -> None:
        """Then the node's is not asked."""
        job = spec(tmp_path, {**ONE, LOCATION: "hdfs:///h.tgz#hadoop", CLASSPATH: "hadoop/a/*,hadoop/b"})
        assert job.files == ("hdfs:///h.tgz::hadoop#archive",)
        assert (job.env["CLASSPATH"], job.hadoop_classpath) == ("./*:hadoop/a/*:hadoop/b", False)

    def test_incomplete_docker_settings_are_reported(self, tmp_path: Path) -> None:
        """An archive without a class path, and the reverse."""
        assert len(notes(tmp_path, {**ONE, LOCATION: "hdfs:///h.tgz"})) == 1
        assert len(notes(tmp_path, {**ONE, CLASSPATH: "a"})) == 1


class TestVariables:
    """Of programs and of containers."""

    def test_ours_cannot_be_set(self, tmp_path: Path) -> None:
        assert spec(tmp_path, ONE, "--shell_env", "JOB_NAME=x", "--container_env", "TASK_INDEX=1").env == {}
        found = notes(tmp_path, ONE, "--shell_env", "JOB_NAME=x")
        assert found[0].startswith("--shell_env: JOB_NAME: tony sets this variable")

    def test_a_secret_of_the_containers_is_one_of_the_programs(self, tmp_path: Path) -> None:
        """Nodes would write it into files that others can read."""
        job = spec(tmp_path, ONE, "--container_env", "DB_PASSWORD=x", "--container_env", "A=1")
        assert (job.env, job.container_env) == ({"DB_PASSWORD": "x"}, {"A": "1"})
        assert not any("=x" in each for each in notes(tmp_path, ONE, "--container_env", "DB_PASSWORD=x"))

    def test_braces_of_the_original_are_no_placeholders(self, tmp_path: Path) -> None:
        """Programs get them as they were written."""
        job = spec(tmp_path, {**ONE, "tony.worker.command": "x {role} ${A} {{index}} {json}"})
        assert job.roles["worker"].command == "x {{role}} ${A} {{{{index}}}} {json}"


class TestDocker:
    """Images, mounts; nothing where no image is named."""

    ON = ONE | {"tony.docker.enabled": "true"}

    def test_of_all_and_of_one_type(self, tmp_path: Path) -> None:
        """The application master counts as a type."""
        settings = {
            "tony.docker.containers.image": "all",
            "tony.docker.worker.image": "own",
            "tony.docker.am.image": "master",
            "tony.docker.containers.mount": "/a:/a:ro",
        }
        job = spec(tmp_path, {**self.ON, **settings}, overrides={"scheduler": "yarn"})
        assert job.roles["worker"].image == "own"
        assert job.scheduler_settings == {
            "docker_image": "all",
            "am_docker_image": "master",
            "docker_mounts": "/a:/a:ro",
        }

    def test_no_image_no_docker(self, tmp_path: Path) -> None:
        found = resolve(tmp_path, {**self.ON, "tony.containers.command": "x"}, overrides={"scheduler": "yarn"})
        assert found.spec.scheduler_settings == {}
        assert "no image is set" in str(found.notes[0])

    def test_not_enabled(self, tmp_path: Path) -> None:
        settings = {**ONE, "tony.docker.containers.image": "all", "tony.docker.enabled": "false"}
        assert spec(tmp_path, settings, overrides={"scheduler": "yarn"}).scheduler_settings == {}
        assert len(notes(tmp_path, settings)) == 1

    def test_a_program_that_runs_alone(self, tmp_path: Path) -> None:
        settings = {"tony.docker.enabled": "true", "tony.docker.am.image": "i"}
        assert spec(tmp_path, settings).roles["main"].image == "i"


class TestConfiguration:
    """Where Hadoop's files are."""

    HDFS, YARN = "tony.application.hdfs-conf-path", "tony.application.yarn-conf-path"

    def test_one_folder(self, tmp_path: Path) -> None:
        touch(tmp_path, "conf/hdfs-site.xml", "conf/yarn-site.xml")
        settings = {**ONE, self.HDFS: "conf/hdfs-site.xml", self.YARN: f"{tmp_path}/conf/yarn-site.xml"}
        job = spec(tmp_path, settings, overrides={"scheduler": "yarn"})
        assert job.scheduler_settings == {"conf": f"{tmp_path}/conf"}

    def test_two_folders_or_none(self, tmp_path: Path) -> None:
        touch(tmp_path, "a/hdfs-site.xml", "b/yarn-site.xml")
        found = list_errors(tmp_path, {**ONE, self.HDFS: "a/hdfs-site.xml", self.YARN: "b/yarn-site.xml"})
        assert "are in different folders" in found[0]
        assert "has none of" in list_errors(tmp_path, {**ONE, self.HDFS: "c/hdfs-site.xml"})[0]


class TestNoInterpreter:
    """The archive of the environment is looked into before every task fails."""

    def flags(self, folder: Path, path: str, archive: str = "v.zip") -> tuple[str, ...]:
        """Those of a job with the usual environment: a folder at its top, and a link."""
        with zipfile.ZipFile(folder / "v.zip", "w") as file:
            for name in ("venv/bin/python", "venv/bin/python3", "venv/lib/python/x"):
                file.writestr(name, "")
            link = zipfile.ZipInfo("current")
            link.external_attr = (stat.S_IFLNK | 0o777) << 16
            file.writestr(link, "venv")
        return ("--executes", "t.py", "--python_venv", archive, "--python_binary_path", path)

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
