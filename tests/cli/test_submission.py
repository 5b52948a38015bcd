"""`submit`, `run` and `validate`: from what a person types to a job, an exit code and the right output."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import Tony
from tests.facts import mentions
from tests.jobs.fake_am import FAILURE, failed, succeeded
from tests.jobs.recording_scheduler import Desk, Office
from tony.errors import Problem, SchedulerError
from tony.history.job_record import write_summary
from tony.model.failure import FailureCause, FailureClass
from tony.model.job_report import JobReport
from tony.model.job_spec import GIB, MIB, JobSpec
from tony.model.setting_choices import RoleKind
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState
from tony.model.submission_record import JobRecord
from tony.schedulers import registry
from tony.schedulers.client_interface import PreparedJob, Submitter

Ending = Callable[[JobFolder, JobRecord], JobReport]


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Every scheduler is this one, and every job succeeds at once."""
    desk = Desk()
    monkeypatch.setattr(registry, "load", lambda name: Office(desk))
    end_with(desk, succeeded)
    return desk


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a program in it."""
    (tmp_path / "train.py").write_text("print(1)")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def end_with(desk: Desk, ending: Ending) -> None:
    def taken(job: PreparedJob) -> None:
        write_summary(job.folder, ending(job.folder, job.record))

    desk.taken = taken


def killed(folder: JobFolder, record: JobRecord) -> JobReport:
    failure = replace(FAILURE, failure_class=FailureClass.KILLED, cause=FailureCause.KILLED, reason="killed by ann")
    return replace(failed(folder, record, failure), state=JobState.KILLED, exit_code=4)


def job_file(folder: Path, text: str) -> str:
    (folder / "job.toml").write_text(text)
    return "job.toml"


TWO = 'name = "digits"\ncommand = "true"\n[roles.worker]\ninstances = 2\n'


class TestSubmit:
    def test_to_the_end(self, tony: Tony, desk: Desk, folder: Path) -> None:
        """Exit code 0, and the story on standard output."""
        answer = tony("submit", job_file(folder, TWO))
        job_id = desk.jobs[0].record.job_id
        assert answer.code == 0
        assert mentions(answer.out, f"job {job_id}", "2 tasks")
        *_, end, outputs = answer.out.splitlines()
        assert end.endswith(f"job {job_id} (digits) succeeded after 8 s")
        assert outputs.startswith("Files your program wrote to relative paths")
        assert answer.err == "tony: a word before\n"

    @pytest.mark.parametrize(("ending", "code"), [(succeeded, 0), (failed, 1), (killed, 4)])
    def test_exit_codes(self, tony: Tony, desk: Desk, folder: Path, ending: Ending, code: int) -> None:
        end_with(desk, ending)
        assert tony("submit", job_file(folder, TWO)).code == code

    def test_a_failure_is_explained(self, tony: Tony, desk: Desk, folder: Path) -> None:
        end_with(desk, failed)
        answer = tony("submit", job_file(folder, TWO))
        page = answer.err.splitlines()[1:]
        assert page[0].endswith("(digits) failed after 8 s: worker:1 on here: exit code 3")
        assert page[1:4] == [
            "  Last lines of output:",
            "    Traceback (most recent call last):",
            "    ValueError: no such file",
        ]

    def test_detached(self, tony: Tony, desk: Desk, folder: Path, home: Home) -> None:
        """The id alone on standard output; as JSON the folder too."""
        answer = tony("submit", "--detach", job_file(folder, TWO))
        assert (answer.code, answer.out) == (0, f"{desk.jobs[0].record.job_id}\n")
        answer = tony("submit", "-d", "--json", "job.toml")
        job_id = desk.jobs[1].record.job_id
        assert answer.json == {"job": job_id, "folder": str(home.job(job_id).path)}

    def test_only_a_detached_job_needs_the_user_later(
        self, tony: Tony, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Submitter, "find_detached_notice", lambda _: "come back")
        assert "tony: come back" in tony("submit", "--detach", job_file(folder, TWO)).err
        assert "come back" not in tony("submit", "job.toml").err

    def test_as_json(self, tony: Tony, desk: Desk, folder: Path) -> None:
        """The last report on standard output, everything else on standard error."""
        end_with(desk, failed)
        answer = tony("submit", "--json", job_file(folder, TWO))
        assert answer.code == 1
        assert answer.json["failure"]["exit_code"] == 3
        assert "2 tasks on local" in answer.err

    def test_settings_of_the_command_line(self, tony: Tony, desk: Desk, folder: Path) -> None:
        file = job_file(folder, TWO + '[params]\nlr = "1"\n')
        tony("submit", "-d", file, "--set", "roles.worker.memory=2g", "--param", "lr=0.1", "--scheduler", "local")
        spec = desk.jobs[0].record.spec
        assert (spec.roles["worker"].resources.memory, spec.params, spec.scheduler) == (2 * GIB, {"lr": "0.1"}, "local")

    def test_a_dry_run(self, tony: Tony, desk: Desk, folder: Path, home: Home) -> None:
        answer = tony("submit", "--dry-run", job_file(folder, TWO))
        assert answer.json == {"name": "digits", "env": {}}
        assert desk.jobs == []
        assert os.listdir(home.path) == []

    def test_errors_in_a_job_file(self, tony: Tony, desk: Desk, folder: Path, home: Home) -> None:
        """All at once, each with its line; exit code 2, nothing made."""
        answer = tony("submit", job_file(folder, 'command = "true"\nstop_grace = 3\n[roles.worker]\nmemry = "1g"\n'))
        assert (answer.code, answer.out) == (2, "")
        assert "stop_grace = 3 (job.toml:2): a duration needs a unit" in answer.err
        assert "job.toml:4" in answer.err
        assert answer.err.endswith("tony: 2 errors; nothing was started\n")
        assert os.listdir(home.path) == []

    def test_an_unsatisfiable_job_is_refused(self, tony: Tony, desk: Desk, folder: Path) -> None:
        """The scheduler's arithmetic, and where the value was set."""
        desk.problems = [Problem(key="name", value='"digits"', message="too many digits.")]
        answer = tony("submit", job_file(folder, TWO))
        assert answer.code == 2
        assert answer.err.startswith('name = "digits" (job.toml:1): too many digits.\n')

    def test_a_scheduler_that_refuses(self, tony: Tony, desk: Desk, folder: Path, home: Home) -> None:
        """Exit code 3, and no job is left."""
        desk.error = SchedulerError("closed today")
        answer = tony("submit", job_file(folder, TWO))
        assert (answer.code, answer.out) == (3, "")
        assert answer.err.endswith("tony: closed today\n")
        assert os.listdir(home.jobs) == []

    def test_ctrl_c_before_it_is_submitted(self, tony: Tony, desk: Desk, folder: Path, home: Home) -> None:
        def interrupt(spec: JobSpec) -> list[str]:
            home.jobs.mkdir()
            raise KeyboardInterrupt

        desk.notices = interrupt  # type: ignore[method-assign]
        answer = tony("submit", job_file(folder, TWO))
        assert (answer.code, answer.out) == (130, "")
        assert answer.err.startswith("tony: interrupted; nothing was submitted")
        assert os.listdir(home.jobs) == []

    def test_a_file_that_is_not_there(self, tony: Tony, folder: Path) -> None:
        answer = tony("submit", "nowhere.toml")
        assert answer.code == 2
        assert "nowhere.toml" in answer.err


class TestRun:
    def spec(self, tony: Tony, desk: Desk, *arguments: str) -> JobSpec:
        answer = tony("run", "-d", *arguments)
        assert answer.code == 0, answer.err
        return desk.jobs[-1].record.spec

    def test_one_task(self, tony: Tony, desk: Desk, folder: Path) -> None:
        """The words are executed as they are, in this folder."""
        spec = self.spec(tony, desk, "--", "python", "-u", "train.py", "--lr", "0.1", "a b")
        assert spec.command == ("python", "-u", "train.py", "--lr", "0.1", "a b")
        assert {name: role.instances for name, role in spec.effective_roles.items()} == {"main": 1}
        assert (spec.source, spec.name, spec.framework) == (str(folder), "train", "none")

    def test_workers_and_others(self, tony: Tony, desk: Desk, folder: Path) -> None:
        """-n makes workers; what is said for each task gives way to a role's own."""
        spec = self.spec(
            tony, desk, "-n", "4", "--memory", "1g", "--vcores", "2", "--framework", "tensorflow",
            "--role", "ps=1,memory=512m", "--role", "eval=1,kind=sidecar,gpus=0", "--", "python", "train.py",
        )  # fmt: skip
        assert {name: role.instances for name, role in spec.roles.items()} == {"worker": 4, "ps": 1, "eval": 1}
        memory = {name: role.resources.memory for name, role in spec.roles.items()}
        assert memory == {"worker": GIB, "ps": 512 * MIB, "eval": GIB}
        assert {role.resources.vcores for role in spec.roles.values()} == {2}
        assert spec.roles["eval"].kind is RoleKind.SIDECAR
        assert spec.framework == "tensorflow"

    @pytest.mark.parametrize("option", ["--procs-per-task", "--nproc-per-node"])
    def test_processes_of_a_task(self, tony: Tony, desk: Desk, folder: Path, option: str) -> None:
        """By either name; of the only task, or of each worker."""
        alone = self.spec(tony, desk, option, "4", "--framework", "pytorch", "--", "python", "train.py")
        assert {name: role.procs_per_task for name, role in alone.effective_roles.items()} == {"main": 4}
        several = self.spec(tony, desk, "-n", "2", option, "4", "--framework", "pytorch", "--", "python", "train.py")
        assert (several.roles["worker"].instances, several.roles["worker"].procs_per_task) == (2, 4)

    def test_a_variable_of_the_shell(
        self, tony: Tony, desk: Desk, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without a value it is taken from there, also if it is empty."""
        monkeypatch.setenv("WANDB_MODE", "offline")
        monkeypatch.setenv("EMPTY", "")
        spec = self.spec(tony, desk, "--env", "WANDB_MODE", "--env", "EMPTY", "--env", "A=b=c", "--", "x")
        assert spec.env == {"WANDB_MODE": "offline", "EMPTY": "", "A": "b=c"}

    def test_everything_else(self, tony: Tony, desk: Desk, folder: Path) -> None:
        """Name, variables, files, settings, an empty working directory."""
        spec = self.spec(
            tony, desk, "--name", "x", "--env", "A=1=2", "--env", "B=", "--file", "train.py::t.py", "--source", "",
            "--set", "max_restarts=2", "--param", "lr=0.1", "--gpus", "0", "--", "true", "{params.lr}",
        )  # fmt: skip
        assert (spec.name, spec.env, spec.source, spec.max_restarts) == ("x", {"A": "1=2", "B": ""}, None, 2)
        assert spec.files == (f"{folder}/train.py::t.py",)
        assert spec.params == {"lr": "0.1"}

    def test_explicit_settings_win_over_defaults_of_run(
        self, tony: Tony, desk: Desk, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """--set and variables override the name, the source and the single task that `run` assumes."""
        (folder / "inner").mkdir()
        monkeypatch.setenv("TONY_SET_SOURCE", "inner")
        spec = self.spec(tony, desk, "--set", "name=digits", "--set", "roles.main.instances=3", "--", "true")
        assert (spec.name, spec.source, len(spec.task_ids)) == ("digits", str(folder / "inner"), 3)

    @pytest.mark.parametrize(
        ("words", "name"),
        [
            (["python3.11", "-u", "a/train.py"], "train"),
            (["python", "-c", "print(1)"], "python"),
            (["bash", "-c", "echo 1"], "bash"),
            (["./run.sh"], "run"),
            (["env", "A=1", "x"], "env"),
            (["python", "-m", "pkg.train"], "pkg"),
            (["x" * 300], "x" * 60),
        ],
    )
    def test_a_name(self, tony: Tony, desk: Desk, folder: Path, words: list[str], name: str) -> None:
        (folder / "a").mkdir()
        (folder / "a" / "train.py").touch()
        (folder / "run.sh").touch()
        assert self.spec(tony, desk, "--", *words).name == name

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--role", "ps", "--", "x"], "'ps': write NAME=N[,KEY=VALUE...], such as ps=1,memory=512m"),
            (["--role", "ps=1,memory", "--", "x"], "'memory': write NAME=N"),
            (["--role", "ps=1", "--role", "ps=2", "--", "x"], "role 'ps' is given twice"),
            (["-n", "1", "--role", "worker=2", "--", "x"], "role 'worker' is given twice"),
            (["--role", "ps=many", "--", "x"], "roles.ps.instances"),
            (["--role", "ps=1,memry=1g", "--", "x"], "memory"),
            (["--memory", "1", "--", "x"], "a size needs a unit"),
            (["--env", "=A", "--", "x"], "'=A': write NAME=VALUE"),
            (["--env", "TONY_NO_SUCH", "--", "x"], "'TONY_NO_SUCH' is not set in your environment"),
            (["--procs-per-task", "0", "--", "x"], "must be a whole number, at least 1"),
            (["-n", "0", "--", "x"], "must be a whole number, at least 1"),
            (["-n", "2"], "COMMAND"),
            (["--source", "nowhere", "--", "x"], "nowhere"),
            (["-c", "1", "--", "x"], "no such option '-c'"),
            (["--gpu", "1", "--", "x"], "no such option '--gpu'. Did you mean '--gpus'?\n"),
        ],
    )
    def test_errors_on_the_command_line(
        self, tony: Tony, desk: Desk, folder: Path, arguments: list[str], said: str
    ) -> None:
        answer = tony("run", *arguments)
        assert (answer.code, answer.out) == (2, "")
        assert said in answer.err
        assert desk.jobs == []

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--python", "nowhere.tar.gz", "--", "x"], "(--python)"),
            (["--memory", "1", "--", "x"], "(--memory)"),
            (["--memory", "1g", "--role", "ps=1,memory=1", "--", "x"], "(--role)"),
            (["--role", "ps=many", "--", "x"], "(--role)"),
            (["--file", "nowhere", "--", "x"], "(--file)"),
            (["--framework", "nothing", "--", "x"], "(--framework)"),
            (["--source", "nowhere", "--", "x"], "(--source)"),
            (["--env", "JOB_NAME=x", "--", "x"], "(--env)"),
            (["--framework", "tensorflow", "--procs-per-task", "2", "--", "x"], "(--procs-per-task)"),
            (["--set", "stop_grace=1", "--", "x"], "(--set)"),
        ],
    )
    def test_errors_name_the_option(
        self, tony: Tony, desk: Desk, folder: Path, arguments: list[str], said: str
    ) -> None:
        answer = tony("run", *arguments)
        assert answer.code == 2
        assert said in answer.err
        assert "argument" not in answer.err

    def test_values_name_the_option(self, tony: Tony, desk: Desk, folder: Path) -> None:
        self.spec(tony, desk, "-n", "2", "--memory", "1g", "--role", "ps=1,vcores=2", "--", "x")
        sources = desk.jobs[-1].record.sources
        assert {key: sources[key] for key in sources if key.startswith("roles.") or key == "command"} == {
            "command": "COMMAND",
            "roles.worker.instances": "-n",
            "roles.worker.memory": "--memory",
            "roles.ps.instances": "--role",
            "roles.ps.memory": "--memory",
            "roles.ps.vcores": "--role",
        }

    def test_in_a_removed_folder(self, tony: Tony, desk: Desk, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Exit code 2 and a sentence, not a crash report."""
        gone = folder / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        answer = tony("run", "--", "true")
        assert (answer.code, answer.out) == (2, "")
        assert "the current folder" in answer.err

    def test_options_of_the_program_are_its_own(self, tony: Tony, desk: Desk, folder: Path) -> None:
        assert self.spec(tony, desk, "-n", "1", "--", "x", "-n", "7", "--json", "--").command == (
            "x",
            "-n",
            "7",
            "--json",
            "--",
        )

    @pytest.mark.parametrize(("exit_code", "is_told"), [(3, True), (None, False)])
    def test_outputs_of_programs_that_ran(
        self, tony: Tony, desk: Desk, folder: Path, exit_code: int | None, is_told: bool
    ) -> None:
        """A command that was not found wrote no file."""
        end_with(desk, lambda folder, record: failed(folder, record, replace(FAILURE, exit_code=exit_code)))
        assert ("to relative paths" in tony("run", "-n", "2", "--", "nosuchcmd").out) is is_told


class TestValidate:
    def test_a_good_file(self, tony: Tony, desk: Desk, folder: Path) -> None:
        answer = tony("validate", job_file(folder, TWO))
        assert answer.code == 0
        assert mentions(answer.out, "job.toml", "worker 2")
        assert desk.jobs == []

    def test_every_value(self, tony: Tony, desk: Desk, folder: Path) -> None:
        """With the place it came from; defaults too."""
        answer = tony("validate", "--resolved", job_file(folder, TWO), "--set", "max_restarts=2")
        rows = {line.split()[0]: line.split()[1:] for line in answer.out.splitlines()}
        assert rows["name"] == ['"digits"', "job.toml:1"]
        assert rows["max_restarts"] == ["2", "--set"]
        assert rows["stop_grace"] == ['"15s"', "default"]

    def test_as_json(self, tony: Tony, desk: Desk, folder: Path) -> None:
        file = job_file(folder, TWO)
        facts = {"valid": True, "problems": [], "notes": [], "notices": ["a word before"], "settings": None}
        assert tony("validate", "--json", file).json == facts
        rows = {row["key"]: row for row in tony("validate", "--json", "--resolved", file).json["settings"]}
        assert rows["roles.worker.instances"] == {
            "key": "roles.worker.instances",
            "value": 2,
            "source": "job.toml:4",
        }
        assert (rows["stop_grace"]["value"], rows["command"]["value"]) == ("15s", "true")
        answer = tony("validate", "--json", job_file(folder, "stop_grace = 3\n"))
        assert answer.code == 2
        assert not answer.json["valid"]
        assert {problem["key"] for problem in answer.json["problems"]} >= {"stop_grace"}

    def test_errors_in_a_job_file(self, tony: Tony, desk: Desk, folder: Path) -> None:
        desk.problems = [Problem(key="name", message="no.")]
        answer = tony("validate", job_file(folder, TWO))
        assert answer.code == 2
        assert answer.err == "name (job.toml:1): no.\ntony: 1 error in job.toml\n"

    def test_secrets_are_masked(self, tony: Tony, desk: Desk, folder: Path) -> None:
        file = job_file(folder, 'command = "true"\nenv = { HF_TOKEN = "hush" }\n')
        for arguments in (["--resolved"], ["--resolved", "--json"]):
            out = tony("validate", *arguments, file).out
            assert "HF_TOKEN" in out
            assert "hush" not in out


@pytest.mark.e2e
@pytest.mark.slow
class TestForReal:
    """With the real local scheduler, application master and executors."""

    def test_a_job(self, tony: Tony, folder: Path) -> None:
        answer = tony("run", "-n", "2", "--memory", "64m", "--", "sh", "-c", "echo I am {index}; cat train.py")
        assert answer.code == 0, answer.err
        for line in ("worker:0 | I am 0", "worker:1 | I am 1", "worker:0 | print(1)"):
            assert line in answer.out
        work = tony("status", "last", "--json").json["folder"] + "/work"
        assert answer.out.endswith(
            f"\nFiles your program wrote to relative paths are in: {work}/, one folder per task\n"
        )
        assert tony("replay", "last").code == 0

    def test_ranks_of_one_machine(self, tony: Tony, folder: Path) -> None:
        """As torchrun has them: one working directory, and a LOCAL_RANK for each."""
        words = ("sh", "-c", "touch $LOCAL_RANK.of.$LOCAL_WORLD_SIZE")
        answer = tony("run", "--nproc-per-node", "2", "--framework", "pytorch", "--", *words)
        assert answer.code == 0, answer.err
        work = Path(tony("status", "last", "--json").json["folder"], "work", "main-0")
        assert {path.name for path in work.glob("*.of.*")} == {"0.of.2", "1.of.2"}
        assert answer.out.endswith(f"\nFiles your program wrote to relative paths are in: {work}\n")

    def test_a_progress_pattern_that_matches_nothing_is_named(self, tony: Tony, folder: Path) -> None:
        text = "command = 'echo step 1'\n[roles.good]\nprogress_pattern = 'step (?P<step>[0-9]+)'\n"
        answer = tony("submit", job_file(folder, f"{text}[roles.bad]\nprogress_pattern = 'stap (?P<step>[0-9]+)'\n"))
        assert answer.code == 0, answer.err
        notes = [line for line in answer.err.splitlines() if "progress_pattern" in line]
        assert notes == ["tony: roles.bad.progress_pattern matched no line of the output"]
