"""Tasks that LinkedIn TonY makes itself: a program that runs alone, a first run, a TensorBoard, Horovod's driver."""

from __future__ import annotations

from pathlib import Path

from tests.config.legacy.jobs import notes, spec
from tony.model.ids import TaskId
from tony.model.job_spec import GIB
from tony.model.setting_choices import RoleKind

ONE = {"tony.worker.instances": "1"}
LOGS = "tony.application.tensorboard-log-dir"
DEBUG = "tony.horovod.driver.mode.debug"
HOROVOD = {"tony.application.framework": "horovod"}


class TestAlone:
    """No type has tasks."""

    def test_it_is_one_task_with_the_resources_of_the_application_master(self, tmp_path: Path) -> None:
        """Memory, vcores, GPUs; no framework; the port for a page; the chief, whose HOME is its folder on clusters."""
        job = spec(tmp_path, {"tony.am.memory": "3g", "tony.am.vcores": "2", "tony.am.gpus": "1"})
        role = job.roles["main"]
        assert job.task_ids == (TaskId("main", 0),)
        assert (role.resources.memory, role.resources.vcores, role.resources.gpus) == (3 * GIB, 2, 1)
        assert role.command == "python train.py"
        assert role.env == {"PREPROCESSING_JOB": "true"}
        assert (job.framework, job.tensorboard_task, job.chief) == ("none", TaskId("main", 0), TaskId("main", 0))
        assert job.max_restarts == 0

    def test_its_memory_is_2g_by_default(self, tmp_path: Path) -> None:
        """As in LinkedIn TonY. Types with 0 tasks do not count."""
        assert spec(tmp_path, {"tony.ps.instances": "0"}).roles["main"].resources.memory == 2 * GIB

    def test_it_is_where_the_application_master_was(self, tmp_path: Path) -> None:
        """Its label and its image; those of a first run, too."""
        settings = {"tony.am.node-label": "gpu", "tony.docker.enabled": "true", "tony.docker.am.image": "i"}
        for more, name in (({}, "main"), ({**ONE, TestPreprocess.KEY: "true"}, "preprocess")):
            job = spec(tmp_path, {**settings, **more}, overrides={"scheduler": "yarn"})
            assert (job.roles[name].node_label, job.roles[name].image) == ("gpu", "i")
            assert job.scheduler_settings == {}

    def test_it_is_not_started_again(self, tmp_path: Path) -> None:
        assert spec(tmp_path, {"tony.am.retry-count": "3"}).max_restarts == 0
        assert "is not restarted" in notes(tmp_path, {"tony.am.retry-count": "3"})[0]

    def test_an_ineffective_framework_is_reported(self, tmp_path: Path) -> None:
        """There are no other tasks whose addresses it could pass."""
        assert len(notes(tmp_path, {"tony.application.framework": "pytorch"})) == 1


class TestPreprocess:
    """The command runs once, and what it prints goes to all."""

    KEY = "tony.application.enable-preprocess"

    def test_a_role_that_runs_first(self, tmp_path: Path) -> None:
        settings = {**ONE, self.KEY: "true", "tony.am.memory": "1g", "tony.am.command": "prepare"}
        job = spec(tmp_path, settings, overrides={"scheduler": "yarn"})
        role = job.roles["preprocess"]
        assert role.kind is RoleKind.SETUP
        assert role.exports == {"MODEL_PARAMS": "Model parameters: "}
        assert role.command == 'export HOME="$PWD"; prepare'
        assert role.env == {"PREPROCESSING_JOB": "true"}
        assert role.resources.memory == GIB
        assert "am_memory" not in job.scheduler_settings

    def test_without_a_command_of_its_own_it_is_the_jobs(self, tmp_path: Path) -> None:
        job = spec(tmp_path, {**ONE, self.KEY: "true"})
        assert job.roles["preprocess"].command == 'export HOME="$PWD"; python train.py'

    def test_off(self, tmp_path: Path) -> None:
        """No role; and its command is reported to have no effect."""
        assert list(spec(tmp_path, {**ONE, self.KEY: "false"}).roles) == ["worker"]
        assert len(notes(tmp_path, {**ONE, "tony.am.command": "x"})) == 1


class TestBoard:
    """A TensorBoard beside the job."""

    def test_key_or_flag(self, tmp_path: Path) -> None:
        for settings, flags in (({LOGS: "/logs"}, ()), ({LOGS: "x"}, ("--sidecar_tensorboard_log_dir", "/logs"))):
            job = spec(tmp_path, {**ONE, **settings}, *flags)
            role = job.roles["tensorboard"]
            assert (role.instances, role.kind, role.resources.vcores) == (1, RoleKind.SIDECAR, 2)
            assert (role.resources.memory, role.env) == (2 * GIB, {"TB_LOG_DIR": "/logs"})
            assert role.command == 'python -m tensorboard.main --logdir "$TB_LOG_DIR" --port "$TB_PORT" --bind_all'
            assert job.tensorboard_task == TaskId("tensorboard", 0)

    def test_its_interpreter_is_the_jobs(self, tmp_path: Path) -> None:
        (tmp_path / "v.zip").touch()
        flags = ("--executes", "x.py", "--python_venv", "v.zip", "--python_binary_path", "bin/python")
        job = spec(tmp_path, {**ONE, LOGS: "/logs"}, *flags)
        assert str(job.roles["tensorboard"].command).startswith("venv/bin/python -m tensorboard.main")

    def test_own_command_and_resources(self, tmp_path: Path) -> None:
        """And always one task, and a sidecar, whatever else is said."""
        settings = {
            **ONE,
            LOGS: "/logs",
            "tony.tensorboard.command": "board",
            "tony.tensorboard.vcores": "1",
            "tony.tensorboard.instances": "3",
            "tony.application.sidecar.jobtypes": "other",
        }
        job = spec(tmp_path, settings)
        role = job.roles["tensorboard"]
        assert (role.instances, role.kind, role.command) == (1, RoleKind.SIDECAR, "board")
        assert role.resources.vcores == 1
        assert any("always has one task" in each for each in notes(tmp_path, settings))

    def test_not_with_a_program_that_runs_alone(self, tmp_path: Path) -> None:
        assert list(spec(tmp_path, {LOGS: "/logs"}).roles) == ["main"]
        assert len(notes(tmp_path, {LOGS: "/logs"})) == 1


class TestHorovod:
    """Its driver."""

    def test_debugging(self, tmp_path: Path) -> None:
        """One untracked task, with the command that is given."""
        settings = {**ONE, **HOROVOD, DEBUG: "true", "tony.driver.command": "drive"}
        job = spec(tmp_path, settings)
        role = job.roles["driver"]
        assert (role.instances, role.kind, role.command) == (1, RoleKind.UNTRACKED, "drive")
        given = {"tony.driver.instances": "1", "tony.application.untracked.jobtypes": "driver"}
        assert spec(tmp_path, {**settings, **given}).roles["driver"] == role

    def test_no_driver_where_none_is_needed(self, tmp_path: Path) -> None:
        assert list(spec(tmp_path, {**ONE, **HOROVOD}).roles) == ["worker"]


def test_a_placement_takes_the_label_away(tmp_path: Path) -> None:
    """As there, but told: of the type, of all types, of the application. A type without a placement keeps its own."""
    label = {"tony.worker.instances": "1", "tony.ps.instances": "1", "tony.worker.node-label": "gpu"}
    assert spec(tmp_path, label).roles["worker"].node_label == "gpu"
    for key in ("tony.worker.placement-spec", "tony.containers.placement-spec", "tony.application.placement-spec"):
        settings = {**label, key: "notin,node,ps"}
        assert spec(tmp_path, settings, overrides={"scheduler": "yarn"}).roles["worker"].node_label is None
        assert key in "".join(notes(tmp_path, settings, overrides={"scheduler": "yarn"}))
    kept = {**label, "tony.ps.placement-spec": "notin,node,ps"}
    assert spec(tmp_path, kept, overrides={"scheduler": "yarn"}).roles["worker"].node_label == "gpu"
