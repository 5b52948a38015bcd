"""The most that a job may ask for; sizes, numbers and times as LinkedIn TonY writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.legacy.jobs import NOWHERE, list_errors, notes, spec, write
from tests.facts import mention_each, mentions
from tony.config.legacy.flags import parse
from tony.config.load import load
from tony.errors import ConfigError
from tony.model.job_spec import MIB

TOTAL = "tony.task.max-total-"


def types(**numbers: int) -> dict[str, str]:
    return {f"tony.{name}.instances": str(number) for name, number in numbers.items()}


class TestLimits:
    """All of them count what a task has by default, too."""

    def test_total_0_with_no_tasks_passes(self, tmp_path: Path) -> None:
        """A program that runs alone is no task."""
        assert spec(tmp_path, {f"{TOTAL}instances": "0"})

    def test_total_3_against_2_and_2(self, tmp_path: Path) -> None:
        said = "the job requests 4 tasks, and this allows 3. Request less, or raise the limit."
        found = list_errors(tmp_path, {**types(worker=2, ps=2), f"{TOTAL}instances": "3"})
        assert found == [f'{TOTAL}instances = "3" (tony.xml:5): {said}']

    def test_a_total_is_no_sum_of_squares(self, tmp_path: Path) -> None:
        """5 workers keep a limit of 10 (G1)."""
        assert spec(tmp_path, {**types(worker=5), f"{TOTAL}instances": "10"})

    def test_1_of_a_type_against_2(self, tmp_path: Path) -> None:
        found = list_errors(tmp_path, {**types(worker=2), "tony.worker.max-instances": "1"})
        assert len(found) == 1
        assert mentions(found[0], "2 tasks", "worker", "1")

    @pytest.mark.parametrize(("asked", "most", "passes"), [(10, 5, False), (5, 10, True), (5, 5, True), (5, -1, True)])
    def test_gpus(self, tmp_path: Path, asked: int, most: int, passes: bool) -> None:
        """10 against 5 are too many, 5 against 10 are not; -1 is no limit."""
        settings = {**types(worker=1), "tony.worker.gpus": str(asked), f"{TOTAL}gpus": str(most)}
        if passes:
            assert spec(tmp_path, settings)
        else:
            assert mentions(list_errors(tmp_path, settings)[0], "10 GPUs", "worker 1 × 10", "5")

    def test_gpus_are_summed_over_types(self, tmp_path: Path) -> None:
        """3 × 1 + 1 × 3 against 5."""
        settings = {**types(worker=3, chief=1), "tony.worker.gpus": "1", "tony.chief.gpus": "3", f"{TOTAL}gpus": "5"}
        assert mentions(list_errors(tmp_path, settings)[0], "6 GPUs", "worker 3 × 1", "chief 1 × 3", "5")

    def test_defaults_count(self, tmp_path: Path) -> None:
        """2 GiB and one vcore for each task; LinkedIn TonY forgets them."""
        found = list_errors(tmp_path, {**types(worker=3), f"{TOTAL}memory": "6143", f"{TOTAL}vcores": "2"})
        assert "6144 MiB (worker 3 × 2048), and this allows 6143" in found[0]
        assert "3 vcores (worker 3 × 1), and this allows 2" in found[1]
        assert spec(tmp_path, {**types(worker=3), f"{TOTAL}memory": "6144", f"{TOTAL}vcores": "3"})

    def test_all_exceeded_limits_are_reported_at_once(self, tmp_path: Path) -> None:
        settings = {**types(worker=3), f"{TOTAL}instances": "2", "tony.worker.max-instances": "1", "tony.x": "1"}
        assert len(list_errors(tmp_path, settings)) == 3


class TestParsing:
    """Numbers with and without units."""

    @pytest.mark.parametrize(
        ("text", "mebibytes"), [("2g", 2048), ("2G", 2048), ("2M", 2), ("512m", 512), ("3", 3), (" 4g ", 4096)]
    )
    def test_sizes(self, tmp_path: Path, text: str, mebibytes: int) -> None:
        """A bare number is MiB."""
        job = spec(tmp_path, {**types(worker=1), "tony.worker.memory": text})
        assert job.roles["worker"].resources.memory == mebibytes * MIB

    @pytest.mark.parametrize("text", ["much", "-1", "2x", "1,5g"])
    def test_sizes_that_are_none(self, tmp_path: Path, text: str) -> None:
        found = list_errors(tmp_path, {**types(worker=1), "tony.worker.memory": text})
        assert len(found) == 1
        assert found[0].startswith(f'tony.worker.memory = "{text}" (tony.xml:4): ')
        assert found[0].endswith("A bare number is MiB.")

    @pytest.mark.parametrize("key", ["tony.worker.vcores", "tony.am.retry-count", "tony.application.timeout"])
    def test_numbers_that_are_none(self, tmp_path: Path, key: str) -> None:
        """LinkedIn TonY's client dies of them."""
        found = list_errors(tmp_path, {**types(worker=1), key: "two"})
        assert mention_each(found, (f'{key} = "two" (tony.xml:4)', "whole number"))

    def test_instances_that_are_no_number(self, tmp_path: Path) -> None:
        """Nothing else is said of the type."""
        assert mention_each(
            list_errors(tmp_path, {"tony.worker.instances": "two"}),
            ('tony.worker.instances = "two" (tony.xml:3)', "whole number"),
        )

    def test_truth_that_is_none_is_the_default(self, tmp_path: Path) -> None:
        """As Hadoop has it; but it is told."""
        key = "tony.application.fail-on-worker-failure-enabled"
        assert mention_each(
            notes(tmp_path, {**types(worker=1), key: "yes"}), (f"{key} (tony.xml:4)", "yes", "LinkedIn TonY")
        )

    def test_a_variable_without_equals_sign_is_empty(self, tmp_path: Path) -> None:
        assert spec(tmp_path, {**types(worker=1), "tony.execution.envs": "k,l=1=2"}).env == {"k": "", "l": "1=2"}

    def test_placement_falls_back_to_that_of_all_containers(self, tmp_path: Path) -> None:
        settings = {
            **types(worker=1, ps=1),
            "tony.containers.placement-spec": "notin,node,all",
            "tony.containers.allocation-tags": "all",
            "tony.ps.placement-spec": "in,rack,ps",
            "tony.ps.allocation-tags": "a,b",
        }
        roles = spec(tmp_path, settings).roles
        assert roles["worker"].scheduler_settings == {
            "yarn": {"placement": "notin,node,all", "placement_tags": ("all",)}
        }
        assert roles["ps"].scheduler_settings == {"yarn": {"placement": "in,rack,ps", "placement_tags": ("a", "b")}}

    @pytest.mark.parametrize("off", ["0", "-1"])
    def test_times_that_are_off(self, tmp_path: Path, off: str) -> None:
        """0 and less; the time to register is off where nothing is said."""
        keys = ("application.timeout", "am.startup-timeout", "container.allocation.timeout")
        job = spec(tmp_path, {**types(worker=1), **{f"tony.{key}": off for key in keys}})
        assert (job.timeouts.job, job.timeouts.queue, job.timeouts.allocation) == (None, None, None)
        assert job.timeouts.registration is None

    def test_the_shorter_time_to_register_counts(self, tmp_path: Path) -> None:
        """One is the application master's, the other the executor's."""
        keys = ("tony.container.registration.timeout", "tony.task.executor.registry-timeout-sec")
        assert spec(tmp_path, {**types(worker=1), keys[0]: "9000", keys[1]: "8"}).timeouts.registration == 8.0
        assert spec(tmp_path, {**types(worker=1), keys[0]: "7000", keys[1]: "8"}).timeouts.registration == 7.0

    def test_heartbeats(self, tmp_path: Path) -> None:
        """At least three may be missed; the interval times their number is the time."""
        interval, missed = "tony.task.heartbeat-interval-ms", "tony.task.max-missed-heartbeats"
        job = spec(tmp_path, {**types(worker=1), missed: "2"})
        assert (job.heartbeat_interval, job.heartbeat_timeout) == (1.0, 3.0)
        job = spec(tmp_path, {**types(worker=1), interval: "100", missed: "5"})
        assert (job.heartbeat_interval, job.heartbeat_timeout) == (0.1, 0.5)
        assert "50 ms" in notes(tmp_path, {**types(worker=1), interval: "1"})[0]

    def test_the_allocation_counts_in_gang_mode_only(self, tmp_path: Path) -> None:
        mode, key = "tony.application.distributed-mode", "tony.container.allocation.timeout"
        settings = {**types(worker=1), mode: "FCFS", key: "5"}
        assert spec(tmp_path, settings).timeouts.allocation is None
        assert len(notes(tmp_path, settings)) == 1
        assert "GANG or FCFS" in list_errors(tmp_path, {**types(worker=1), mode: "both"})[0]


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
