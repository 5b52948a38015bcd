"""With the rights of the documents jobs run; without any one of them the error names it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from tests.change_detection import KUBERNETES
from tests.e2e.lab import until
from tests.kubernetes.lab import KubernetesLab
from tony.kube.api_client import ApiClient
from tony.kube.credentials import FixedCredentials, LoginCredentials, build_bearer
from tony.kube.kubeconfig import load_cluster_access
from tony.kube.resources import SERVICE_ACCOUNTS
from tony.schedulers.kubernetes.access_rules import (
    AM_RULES,
    CLIENT_RULES,
    NeededRule,
    build_account_objects,
    find_missing_rules,
)

pytestmark = [pytest.mark.on_change(*KUBERNETES), pytest.mark.slow, pytest.mark.e2e]

OK = "print('done')"


def create_account(lab: KubernetesLab, name: str, rules: Sequence[NeededRule], without: str = "") -> None:
    """Create a service account with these rights but one, such as `create pods`."""
    granted = [
        replace(rule, verbs=tuple(verb for verb in rule.verbs if f"{verb} {rule.resource}" != without))
        for rule in rules
    ]
    for resource, body in build_account_objects(name, [rule for rule in granted if rule.verbs]):
        lab.client.create(resource, body)


def create_token(lab: KubernetesLab, name: str) -> str:
    """Return a token of a service account."""
    path = SERVICE_ACCOUNTS.build_path(lab.namespace, name, "token")
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(lab.send("POST", path, body)["status"]["token"])


@contextlib.contextmanager
def open_client(lab: KubernetesLab, token: str) -> Iterator[ApiClient]:
    access = load_cluster_access([lab.kubeconfig])
    credentials = FixedCredentials(build_bearer(token, LoginCredentials()))
    with contextlib.closing(ApiClient(replace(access, credentials=credentials))) as client:
        yield client


def prove_named(lab: KubernetesLab, rules: Sequence[NeededRule], name: str) -> None:
    """Assert that each right that an account does not have is found to be missing, and no other one."""
    for number, right in enumerate(f"{verb} {rule.resource}" for rule in rules for verb in rule.verbs):
        create_account(lab, f"{name}-{number}", rules, without=right)
        with open_client(lab, create_token(lab, f"{name}-{number}")) as client:
            wait_missing(client, rules, right)


def wait_missing(client: ApiClient, rules: Sequence[NeededRule], right: str) -> None:
    """Wait until the API server has read all roles."""
    until(lambda: [*find_missing_rules(client, rules)] == [right], f"only {right} is missing")


def test_rights_of_a_user(lab: KubernetesLab) -> None:
    """With those of the documents a job runs, and is followed and removed; each one that is missing is named."""
    create_account(lab, "user", CLIENT_RULES)
    lab.kubeconfig.write_text(lab.build_kubeconfig({"token": create_token(lab, "user")}))
    done = lab.submit(lab.roles(OK))
    assert (done.returncode, "done" in done.stdout) == (0, True), done.stdout + done.stderr
    job = lab.detach(lab.roles("import time\ntime.sleep(1000)"))
    until(lambda: lab.tony("stacks", job, "worker:0").returncode == 0, "the application master is reached")
    lab.tony("kill", job)
    lab.wait(job, "killed")
    prove_named(lab, CLIENT_RULES, "user")
    lab.kubeconfig.write_text(lab.build_kubeconfig({"token": create_token(lab, "user-0")}))
    refused = lab.tony("validate", lab.roles(OK), *lab.options)
    assert refused.returncode == 2
    assert f"you may not create jobs in namespace {lab.namespace}" in refused.stdout + refused.stderr


def test_rights_of_an_application_master(lab: KubernetesLab) -> None:
    """Each one that is missing is named; the job fails, with the commands that give it."""
    prove_named(lab, AM_RULES, "am")
    done = lab.submit(lab.roles(OK), "--set", "scheduler.kubernetes.service_account=am-0")
    text = done.stdout + done.stderr
    assert done.returncode == 3, text
    assert f"cannot get jobs in namespace {lab.namespace}: it needs its Role: kubectl" in text, text
