"""A fake API server that clients find, and jobs for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kube.fake_api import FakeApi, Object, refuse
from tests.kube.scripted_server import Answer, Request, ScriptedServer
from tests.support.code_archives import give_archives
from tests.support.hadoop.fake_webhdfs import FakeWebHdfs
from tony.client.credential_creation import make_credentials
from tony.history.json_files import write_json
from tony.mini.cluster_files import to_xml
from tony.model.codec import to_plain
from tony.model.job_spec import MIB
from tony.model.submission_record import JobRecord
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.kubernetes.access_rules import CLIENT_RULES
from tony.schedulers.kubernetes.launch_payload import AmPayload
from tony.schedulers.kubernetes.manifests import build_task_pod
from tony.schedulers.kubernetes.settings import read_settings
from tony.schedulers.kubernetes.submitter import KubernetesSubmitter
from tony.testing.sample_jobs import build_prepared_job, build_two_roles

JOBS = "/apis/batch/v1/namespaces/ml/jobs"
PODS = "/api/v1/namespaces/ml/pods"
RUNTIME = "0" * 64


def write_kubeconfig(folder: Path, server: str) -> Path:
    """Write a kubeconfig file with the context `c`, whose namespace is `ml`."""
    path = folder / "kubeconfig"
    config = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "namespace": "ml"}}],
    }
    path.write_text(json.dumps(config))
    return path


def build_hadoop_settings(hdfs: FakeWebHdfs) -> dict[str, str]:
    return {"fs.defaultFS": "hdfs://nn:8020", "dfs.namenode.http-address": hdfs.url.removeprefix("http://")}


def use_hadoop(folder: Path, settings: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Be the user `ann` with a Hadoop configuration, written below a folder."""
    (folder / "conf").mkdir()
    (folder / "conf" / "core-site.xml").write_text(to_xml(settings))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(folder / "conf"))
    monkeypatch.setenv("HADOOP_USER_NAME", "ann")


class Cluster:
    """A fake API server with a kubeconfig file for it.

    Attributes:
        refused: answers to requests by method and kind, instead of carrying them out.
        lost: requests that are carried out once, but not answered.
        cut_after: the number of requests after which all others are refused.
    """

    def __init__(self, server: ScriptedServer, folder: Path) -> None:
        self.api, self.server = FakeApi(), server
        self.refused: dict[tuple[str, str], Answer] = {}
        self.lost: list[tuple[str, str]] = []
        self.cut_after: int | None = None
        self.rules = [
            {"verbs": [*rule.verbs], "apiGroups": [rule.group], "resources": [rule.resource]} for rule in CLIENT_RULES
        ]
        server.answer = self._answer
        self.settings: dict[str, Any] = {
            "image": "python:3.12",
            "kubeconfig": str(write_kubeconfig(folder, server.url)),
        }
        account: Object = {"metadata": {"name": "tony"}}
        self.api.objects["/api/v1/namespaces/ml/serviceaccounts", "tony"] = account
        self.api.objects["/api/v1/namespaces", "ml"] = {"metadata": {"name": "ml"}}

    def _answer(self, request: Request) -> Answer:
        kind = request.target.partition("?")[0].split("/ml/")[-1].split("/")[0]
        if refusal := self.refused.get((request.method, kind)):
            return refusal
        if self.cut_after is not None:
            if not self.cut_after:
                return refuse(403, "Forbidden")
            self.cut_after -= 1
        if (request.method, kind) in self.lost:
            self.lost.remove((request.method, kind))
            self.api.answer(request)
            return Answer(is_lost=True)
        if request.target.endswith("/selfsubjectrulesreviews"):
            return Answer(status=201, body={"status": {"resourceRules": self.rules, "incomplete": False}})
        return self.api.answer(request)

    def list_left(self) -> list[str]:
        """Return the objects of jobs."""
        return [
            name
            for (_, name), each in self.api.objects.items()
            if each["metadata"].get("labels", {}).get("tony.dev/part") not in (None, "object")
        ]


def build_job(cluster: Cluster, folder: Path) -> PreparedJob:
    """Return a job of two roles, ready to be submitted."""
    variables = {"WANDB_MODE": "offline"}
    settings = cluster.settings
    spec = replace(build_two_roles(), scheduler="kubernetes", scheduler_settings=settings, container_env=variables)
    made = build_prepared_job(folder / "home", spec)
    write_json(made.folder.credentials, to_plain(make_credentials(tls=False)))
    write_json(made.folder.job, to_plain(made.record))
    give_archives(made.home)
    return made


def build_payload(record: JobRecord, owner: str = "uid-1") -> AmPayload:
    """Return the launch payload of an AM whose job has no files."""
    return AmPayload(
        record=record, credentials=make_credentials(tls=False), runtime=RUNTIME, objects={RUNTIME: 1}, owner=owner
    )


def build_pod(record: JobRecord, role: str = "worker", **more: Any) -> Object:
    """Return the pod of a task of a job.

    Args:
        more: further arguments of `build_task_pod`.
    """
    settings, _ = read_settings(record.spec.scheduler_settings)
    given = {"pieces": {}, "am_address": "tls:0.0.0.0:0", "owner": "uid", "memory": 16 * MIB, **more}
    return build_task_pod(record, role, "pod", settings, runtime=(RUNTIME, 1), **given)


def set_settings(record: JobRecord, **settings: Any) -> JobRecord:
    """Return the record of a job with further settings of its scheduler."""
    return replace(record, spec=replace(record.spec, scheduler_settings={**record.spec.scheduler_settings, **settings}))


def submit(job: PreparedJob) -> None:
    asyncio.run(KubernetesSubmitter(job.home).submit(job))


def submit_again(job: PreparedJob, number: int) -> str:
    """Submit the job under another id, and return that."""
    name = f"{job.record.job_id}-{number}"
    another = replace(job, record=replace(job.record, job_id=name))
    submit(another)
    return name


async def submit_interrupted(job: PreparedJob, install: Callable[[Callable[[], None]], None]) -> None:
    """Submit a job, and assert that this is cancelled when the function is called that `install` is given."""
    loop = asyncio.get_running_loop()
    submission = asyncio.ensure_future(KubernetesSubmitter(job.home).submit(job))

    def interrupt() -> None:
        loop.call_soon_threadsafe(submission.cancel)
        for _ in range(2):  # it has been cancelled
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()

    install(interrupt)
    with pytest.raises(asyncio.CancelledError):
        await submission
