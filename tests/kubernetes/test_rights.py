"""With the rights of the documents jobs run; without any one of them the error names it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.lab import until
from tests.kubernetes.lab import KubernetesLab
from tony.kube.api_client import ApiClient
from tony.kube.cluster_access import ClusterAccess
from tony.kube.credentials import FixedCredentials, LoginCredentials, build_bearer
from tony.kube.kubeconfig import load_cluster_access
from tony.kube.resources import ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from tony.schedulers.kubernetes.access_rules import AM_RULES, CLIENT_RULES, NeededRule, find_missing_rules

pytestmark = [pytest.mark.on_change("kube", "mini", "schedulers"), pytest.mark.slow, pytest.mark.e2e]

OK = "print('done')"


def create_account(lab: KubernetesLab, name: str, rules: Sequence[NeededRule], without: str = "") -> None:
    """Create a service account with these rights but one, such as `create pods`."""
    granted = [
        {
            "apiGroups": [rule.group],
            "resources": [rule.resource],
            "verbs": [verb for verb in rule.verbs if f"{verb} {rule.resource}" != without],
        }
        for rule in rules
    ]
    metadata = {"name": name}
    role = {"apiGroup": ROLES.group, "kind": ROLES.kind, "name": name}
    subject = {"kind": SERVICE_ACCOUNTS.kind, "name": name}
    lab.client.create(SERVICE_ACCOUNTS, {"metadata": metadata})
    lab.client.create(ROLES, {"metadata": metadata, "rules": [rule for rule in granted if rule["verbs"]]})
    lab.client.create(ROLE_BINDINGS, {"metadata": metadata, "roleRef": role, "subjects": [subject]})


def create_token(lab: KubernetesLab, name: str) -> str:
    """Return a token of a service account."""
    path = SERVICE_ACCOUNTS.build_path(lab.namespace, name, "token")
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(lab.send("POST", path, body)["status"]["token"])


@contextlib.contextmanager
def open_client(lab: KubernetesLab, token: str) -> Iterator[ApiClient]:
    access = load_cluster_access([lab.kubeconfig])
    credentials = FixedCredentials(build_bearer(token, LoginCredentials()))
    other = ClusterAccess(
        server=access.server,
        namespace=access.namespace,
        authority=access.authority,
        tls_name=access.tls_name,
        credentials=credentials,
    )
    with contextlib.closing(ApiClient(other)) as client:
        yield client


def list_rights(rules: Sequence[NeededRule]) -> Sequence[str]:
    return [f"{verb} {rule.resource}" for rule in rules for verb in rule.verbs]


def test_rights_of_a_user(lab: KubernetesLab) -> None:
    """With those of the documents a job runs, and is followed and removed; each one that is missing is named."""
    create_account(lab, "user", CLIENT_RULES)
    lab.kubeconfig.write_text(lab.build_kubeconfig({"token": create_token(lab, "user")}))
    done = lab.submit(lab.roles(OK, "[roles.worker]\n"))
    assert (done.returncode, "done" in done.stdout) == (0, True), done.stdout + done.stderr
    for number, right in enumerate(list_rights(CLIENT_RULES)):
        create_account(lab, f"user-{number}", CLIENT_RULES, without=right)
        with open_client(lab, create_token(lab, f"user-{number}")) as client:
            until(
                lambda each=client, only=right: [*find_missing_rules(each, CLIENT_RULES)] == [only],
                f"only {right} is missing",
            )
    lab.kubeconfig.write_text(lab.build_kubeconfig({"token": create_token(lab, "user-0")}))
    refused = lab.tony("validate", lab.roles(OK, "[roles.worker]\n"), *lab.options)
    assert refused.returncode == 2
    assert f"you may not create jobs in namespace {lab.namespace}" in refused.stdout + refused.stderr


def test_rights_of_an_application_master(lab: KubernetesLab) -> None:
    """Each one that is missing fails the job at once, and is named with the commands that give it."""
    rights = list_rights(AM_RULES)
    for number, right in enumerate(rights):
        create_account(lab, f"am-{number}", AM_RULES, without=right)

    def run(number: int) -> str:
        job = lab.roles(OK, "[roles.worker]\n")
        done = lab.submit(job, "--set", f"scheduler.kubernetes.service_account=am-{number}")
        return f"{done.returncode}: {done.stdout}{done.stderr}"

    with ThreadPoolExecutor(4) as pool:
        for right, text in zip(rights, pool.map(run, range(len(rights))), strict=True):
            assert text.startswith("3: "), text
            assert f"may not {right} in namespace {lab.namespace}: it needs its Role: kubectl" in text, (right, text)
