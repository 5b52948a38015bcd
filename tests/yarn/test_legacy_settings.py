"""What only a cluster can show of LinkedIn TonY's settings: the application in YARN, a settings file in HDFS."""

from __future__ import annotations

import re

import pytest

from tests.change_detection import CLUSTER
from tests.config.legacy.jobs import xml
from tests.yarn.lab import YarnLab
from tony.hadoop.configuration import Configuration
from tony.schedulers.yarn.cluster_clients import ClusterClients

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.on_change(*CLUSTER, "config", "cli")]


def test_settings_of_the_application(lab: YarnLab) -> None:
    """From a file in HDFS: name, type, tags, queue, the first run's result, containers' variables, a type's files."""
    settings = {
        "tony.application.name": "by the original",
        "tony.application.type": "OLD",
        "tony.application.tags": "team-ads,nightly",
        "tony.application.enable-preprocess": "true",
        "tony.application.hdfs-conf-path": str(lab.cluster.conf / "hdfs-site.xml"),
        "tony.yarn.queue": "default",
        "tony.am.memory": "256",
        "tony.am.command": "echo Model parameters: from $PREPROCESSING_JOB",
        "tony.my_worker.instances": "2",
        "tony.my_worker.memory": "256",
        "tony.my_worker.command": f'echo "$MODEL_PARAMS $A $B" $(cat notes) > {lab.out}/$TASK_INDEX',
        "tony.my_worker.resources": f"{lab.root}/notes.txt::notes",
        "tony.containers.envs": "SKIP_HADOOP_PATH=true,A=contained",
    }
    (lab.root / "notes.txt").write_text("noted", encoding="utf-8")
    place = f"/tmp/{lab.root.name}/tony.xml"
    with ClusterClients.from_configuration(Configuration.load(lab.cluster.conf, {}), {}).web_files() as files:
        files.create(place, xml(settings).encode())
        done = lab.tony("cluster-submit", "--conf_file", f"hdfs://{place}", "-shell_env", "B=own", timeout=300)
        files.delete(place.rpartition("/")[0], recursive=True)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    for index in (0, 1):
        assert lab.wrote(str(index)) == "from true contained own noted\n"
    found = re.search(r"application_\d+_\d+", said)
    assert found
    seen = lab.application(found[0])
    assert (seen["name"], seen["applicationType"]) == ("by the original", "OLD")
    assert {"team-ads", "nightly"} <= set(seen["applicationTags"].split(","))
    assert f"hdfs://{place}" not in said
