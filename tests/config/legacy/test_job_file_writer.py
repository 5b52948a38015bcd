"""A job of LinkedIn TonY, written as a job file and read again, is the same job; and people can read it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.config.legacy.jobs import NOWHERE, drafted
from tony.config.legacy.flags import parse
from tony.config.legacy.job_file_writer import job_file
from tony.config.load import load
from tony.errors import ConfigError
from tony.model.job_spec import JobSpec

GOLDEN = Path(__file__).parents[2] / "golden" / "convert"

_types = ["worker", "ps", "chief", "evaluator", "tensorboard", "My-type_2"]
_odd = st.sampled_from("\n\t'\"\\{}")
_plain = st.characters(exclude_categories=["Cs", "Cc", "Cn"], exclude_characters="\ufffe\uffff")
_texts = st.text(_plain | _odd, max_size=20)
_words = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8)
_numbers = st.integers(0, 3).map(str)
_times = st.integers(-1, 10**7).map(str)
_truths = st.sampled_from(["true", "false", "TRUE", "maybe"])
_lists = st.lists(st.sampled_from([*_types, "", "unknown"]), max_size=3).map(",".join)
_files = st.lists(
    st.sampled_from(["a.txt", "a.txt::b", "d", "z.zip#archive", "z.zip::u#archive", "hdfs:///x", "hdfs://nn/y::n", ""]),
    max_size=3,
).map(",".join)
_variables = st.lists(
    st.sampled_from(["A=1", "B", "C=a=b", "SKIP_HADOOP_PATH=true", "JOB_NAME=x", "MY_TOKEN=t", "D={role}", "É=é\"'"]),
    max_size=4,
).map(",".join)
_memory = st.sampled_from(["2g", "1500", "512m", "3G"])
_docker = st.sampled_from(["image:1", ""])

#: Key -> what it may be. Those of types are added for each.
_VALUES: dict[str, st.SearchStrategy[str]] = {
    "tony.application.name": _texts,
    "tony.application.framework": st.sampled_from(["tensorflow", "PyTorch", "none", "standalone"]),
    "tony.application.type": _words,
    "tony.application.tags": _lists,
    "tony.application.distributed-mode": st.sampled_from(["GANG", "fcfs"]),
    "tony.application.untracked.jobtypes": _lists,
    "tony.application.sidecar.jobtypes": _lists,
    "tony.application.stop-on-failure-jobtypes": _lists,
    "tony.application.fail-on-worker-failure-enabled": _truths,
    "tony.application.enable-preprocess": _truths,
    "tony.application.prepare-stage": _lists,
    "tony.application.group.A": _lists,
    "tony.application.dependency.evaluator.timeout.after.A": _numbers,
    "tony.application.dependency.evaluator.timeout.after.A.ignored": _truths,
    "tony.application.timeout": _times,
    "tony.application.tensorboard-log-dir": _texts,
    "tony.application.hadoop.location": st.sampled_from(["hdfs:///h.tgz#h"]),
    "tony.application.hadoop.classpath": st.sampled_from(["h/*,h/b"]),
    "tony.am.memory": _memory,
    "tony.am.vcores": _numbers,
    "tony.am.command": _texts,
    "tony.am.resources": _files,
    "tony.am.retry-count": _numbers,
    "tony.am.startup-timeout": _times,
    "tony.yarn.queue": _words,
    "tony.other.namenodes": st.sampled_from(["hdfs://a,hdfs://b"]),
    "tony.task.heartbeat-interval-ms": st.integers(1, 5000).map(str),
    "tony.task.max-missed-heartbeats": _numbers,
    "tony.task.executor.execution-timeout-ms": _times,
    "tony.task.executor.registry-timeout-sec": _times,
    "tony.container.registration.timeout": _times,
    "tony.container.allocation.timeout": _times,
    "tony.containers.resources": _files,
    "tony.containers.envs": _variables,
    "tony.execution.envs": _variables,
    "tony.containers.placement-spec": st.sampled_from(["notin,node,ps"]),
    "tony.containers.allocation-tags": _words,
    "tony.docker.enabled": _truths,
    "tony.docker.containers.image": _docker,
    "tony.docker.worker.image": _docker,
    "tony.docker.containers.mount": st.sampled_from(["/a:/a:ro"]),
    "tony.history.location": _words,
    **{
        f"tony.{name}.{ending}": values
        for name in _types
        for ending, values in {
            "instances": _numbers,
            "memory": _memory,
            "vcores": _numbers,
            "gpus": _numbers,
            "resources": _files,
            "command": _texts,
            "node-label": _words,
        }.items()
    },
}


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, str]:
    """A settings file; it may have errors."""
    names = draw(st.lists(st.sampled_from(sorted(_VALUES)), max_size=15, unique=True))
    settings = {"tony.containers.command": draw(_texts | st.just("python train.py"))}
    settings |= {f"tony.{draw(st.sampled_from(_types))}.instances": "2" for _ in range(draw(st.integers(0, 3)))}
    return settings | {name: draw(_VALUES[name]) for name in names}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jobs")
    for name in ("a.txt", "z.zip", "d/x"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    return folder


def answer(folder: Path, file: str, scheduler: str) -> JobSpec | int:
    """The job of a file, or how many errors it has."""
    try:
        return load(file, environ=NOWHERE, cwd=folder, site_files=[], overrides={"scheduler": scheduler}).spec
    except ConfigError as error:
        return len(error.problems)


@given(settings=jobs(), scheduler=st.sampled_from(["local", "yarn"]))
def test_the_job_file_is_equivalent_to_the_xml(folder: Path, settings: dict[str, str], scheduler: str) -> None:
    """Whatever the settings: the same JobSpec, or as many errors."""
    draft = drafted(folder, settings)
    if draft.problems:
        return
    (folder / "job.toml").write_text(job_file(draft), encoding="utf-8")
    assert answer(folder, "tony.xml", scheduler) == answer(folder, "job.toml", scheduler)


@given(
    words=st.lists(
        st.sampled_from(["--shell_env", "--container_env", "--task_params", "--executes", "--conf", "--debug"])
        | _texts
        | st.sampled_from(["A=1", "tony.worker.instances=1", "tony.execution.envs=B=2"])
    )
)
def test_any_words_are_flags_or_errors(folder: Path, words: list[str]) -> None:
    """Settings from flags are in the job file, too."""
    try:
        flags = parse(words)
    except ConfigError:
        return
    draft = drafted(folder, {"tony.worker.instances": "1"}, *words)
    if draft.problems:
        return
    (folder / "job.toml").write_text(job_file(draft), encoding="utf-8")
    try:
        expected: JobSpec | int = load(flags=flags, environ=NOWHERE, cwd=folder, site_files=[]).spec
    except ConfigError as error:
        expected = len(error.problems)
    assert expected == answer(folder, "job.toml", "local")


def written(name: str) -> str:
    """What `tony convert` makes of an example, with the flags that stand beside it."""
    from tony.config.legacy.translate import translate

    flags = (GOLDEN / f"{name}.flags").read_text(encoding="utf-8").split("\n")[:-1]
    draft, complete = translate(parse([f"--conf_file={name}.xml", *flags]), NOWHERE, GOLDEN)
    assert complete
    assert draft.problems == []
    return job_file(draft)


NAMES = sorted(path.stem for path in GOLDEN.glob("*.xml"))


@pytest.mark.parametrize("name", NAMES)
def test_examples_read_well(name: str) -> None:
    """Letter by letter; `python tests/config/legacy/test_job_file_writer.py` writes them anew."""
    assert written(name) == (GOLDEN / f"{name}.toml").read_text(encoding="utf-8")


def test_there_are_examples() -> None:
    assert len(NAMES) >= 3


if __name__ == "__main__":
    for each in NAMES:
        (GOLDEN / f"{each}.toml").write_text(written(each), encoding="utf-8")
    sys.exit(0)
