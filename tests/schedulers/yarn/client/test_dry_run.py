"""What would be sent to YARN, letter by letter, in tests/golden/schedulers/yarn/."""

import json
from pathlib import Path

import pytest

from tests.schedulers.yarn.samples import prepared, record
from tony.hadoop.tokens import TokenCredentials
from tony.hadoop.wire.yarn_records import Url
from tony.model.job_spec import JobSpec
from tony.model.staged_files import StagedJob
from tony.model.state_directory import Home
from tony.model.submission_record import JobRecord
from tony.schedulers import registry
from tony.schedulers.yarn.client.dry_run import render_dry_run
from tony.schedulers.yarn.launch_contexts import build_master_container
from tony.schedulers.yarn.launch_payload import Uploaded
from tony.schedulers.yarn.settings import YarnSettings

GOLDEN = Path(__file__).parents[3] / "golden" / "schedulers" / "yarn"
CASES: dict[str, JobRecord] = {
    "plain": record(),
    "everything": record(
        {
            "queue": "research",
            "priority": 7,
            "tags": "nightly,gpu",
            "application_type": "A-TYPE-LONGER-THAN-TWENTY",
            "node_label": "cpu",
            "am_node_label": "small",
            "am_memory": "300m",
            "am_vcores": 2,
            "python": "own",
            "lifetime": "1h",
            "placement": "os=linux",
            "log_include": ".*[.]out",
            "rolled_log_exclude": "gc.*",
            "view_acl": "ann,bob admins",
            "modify_acl": "ann",
            "docker_image": "python:3.12",
            "am_docker_image": "python:3.12-slim",
            "docker_mounts": "/data:/data:ro",
        },
        framework_module="my_package.leader:Leader",
        framework_path="/home/ann/lib",
    ),
    "one_task": record(
        spec=JobSpec(command="true", scheduler="yarn", scheduler_settings={"python": "/opt/py/bin/python"})
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_as_written_down(name: str) -> None:
    text = json.dumps(render_dry_run(CASES[name]), indent=2) + "\n"
    assert text == (GOLDEN / f"{name}.json").read_text(encoding="utf-8")


def test_names_of_services_keep_their_letters() -> None:
    """A pair of NameNodes is known by the very letters of `dfs.nameservices`, unlike a host."""
    archive = Uploaded(url="hdfs://HDPProd/user/ann/x.zip", size=1, timestamp=1)
    job = record(staged=StagedJob())
    (resource,) = build_master_container(job, YarnSettings(), {"tony": archive}, {}, TokenCredentials()).local_resources
    assert resource.value
    assert resource.value.resource == Url(scheme="hdfs", host="HDPProd", port=-1, file="/user/ann/x.zip")


def test_by_the_submitter(tmp_path: Path) -> None:
    """`--dry-run` asks for it without a cluster, and makes nothing."""
    submitter = registry.load("yarn").create_submitter(Home(tmp_path))
    assert submitter.render(prepared(CASES["plain"])) == render_dry_run(CASES["plain"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", CASES)
def test_no_secrets(name: str) -> None:
    """Of the user's variables only the names are told."""
    text = json.dumps(render_dry_run(CASES[name]))
    assert "hunter2" not in text
    assert ("SECRET" in text) is (name != "one_task")
