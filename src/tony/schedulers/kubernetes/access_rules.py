"""What a user and an AM may do in a namespace, compared with what tony needs. Pure, but for a few requests.

Source: `SelfSubjectRulesReview` in k8s.io/api/authorization/v1/types.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tony.errors import Problem
from tony.kube.api_client import ApiClient, Object
from tony.kube.errors import KubeApiError
from tony.kube.resources import NAMESPACES, ROLE_BINDINGS, ROLES, RULES_REVIEWS, SERVICE_ACCOUNTS, ApiResource


@dataclass(frozen=True, slots=True)
class NeededRule:
    """Verbs on one kind of object.

    Attributes:
        resource: plural name, with a subresource: `pods/log`.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]


#: Who submits, follows and stops jobs.
CLIENT_RULES: Sequence[NeededRule] = (
    NeededRule("batch", "jobs", ("create", "get", "list", "patch", "delete")),
    NeededRule("", "pods", ("create", "list", "delete", "deletecollection")),
    NeededRule("", "pods/portforward", ("get", "create")),  # a WebSocket begins with a GET
    NeededRule("", "secrets", ("create", "get", "list", "patch", "delete")),
    NeededRule("", "configmaps", ("create", "get", "list", "patch", "delete")),
)
#: The service account of AMs.
AM_RULES: Sequence[NeededRule] = (
    NeededRule("batch", "jobs", ("get", "patch")),
    NeededRule("", "pods", ("create", "list", "watch", "delete")),
    NeededRule("", "secrets", ("create", "get", "list", "patch", "delete")),
    NeededRule("", "configmaps", ("create", "get", "list", "patch", "delete")),
)
#: What AMs need besides, where the scheduler starts gangs together, and where Kueue does.
POD_GROUP_RULES: Sequence[NeededRule] = (NeededRule("scheduling.k8s.io", "podgroups", ("create", "delete")),)
KUEUE_RULES: Sequence[NeededRule] = (NeededRule("kueue.x-k8s.io", "workloads", ("get",)),)


def find_missing_rules(client: ApiClient, rules: Sequence[NeededRule]) -> Sequence[str]:
    """Return what of these rules the client may not do, such as `create pods`; nothing if the server cannot tell."""
    body = {
        "apiVersion": RULES_REVIEWS.api_version,
        "kind": RULES_REVIEWS.kind,
        "metadata": {},
        "spec": {"namespace": client.namespace},
    }
    status = client.create(RULES_REVIEWS, body).get("status") or {}
    if status.get("incomplete"):  # an authorizer that cannot list its rules
        return ()
    granted: Iterable[Object] = status.get("resourceRules") or ()
    return [
        f"{verb} {rule.resource}"
        for rule in rules
        for verb in rule.verbs
        if not any(_grants(each, rule, verb) for each in granted)
    ]


def _grants(granted: Mapping[str, list[str]], rule: NeededRule, verb: str) -> bool:
    if granted.get("resourceNames"):
        return False
    needed = {"verbs": verb, "apiGroups": rule.group, "resources": rule.resource}
    return all({"*", value} & set(granted.get(key) or ()) for key, value in needed.items())


def find_rights_problem(client: ApiClient) -> Problem | None:
    """Return which rights of `CLIENT_RULES` the user lacks; None if there are all."""
    if not (missing := find_missing_rules(client, CLIENT_RULES)):
        return None
    text = f"you may not {', '.join(missing)} in namespace {client.namespace}; ask its administrator"
    return Problem(key="scheduler.kubernetes.namespace", value=client.namespace, message=text)


def find_account_problem(client: ApiClient, account: str, further: Sequence[NeededRule]) -> Problem | None:
    """Return that the service account of AMs does not exist, or its namespace does not; None without the right to look.

    Args:
        further: rules besides `AM_RULES`.
    """
    if not is_missing(client, SERVICE_ACCOUNTS, account):
        return None
    if is_missing(client, NAMESPACES, client.namespace):
        text = "the cluster has no such namespace: correct `namespace`, or that of the context in the kubeconfig file"
        return Problem(key="scheduler.kubernetes.namespace", value=client.namespace, message=text)
    create = f"kubectl -n {client.namespace} create serviceaccount {account}"
    command = f"{create}; {format_role_command(account, client.namespace, (*AM_RULES, *further))}"
    text = f"namespace {client.namespace} has no such service account. Its administrator runs once: {command}"
    return Problem(key="scheduler.kubernetes.service_account", value=account, message=text)


def is_missing(client: ApiClient, resource: ApiResource, name: str) -> bool:
    """Return True if an object does not exist; without the right to look it may well be there."""
    try:
        client.get(resource, name)
    except KubeApiError as error:
        if error.status != 403 and not error.is_missing:
            raise
        return error.is_missing
    return False


def build_account_objects(account: str, rules: Sequence[NeededRule] = AM_RULES) -> Sequence[tuple[ApiResource, Object]]:
    """Return a service account, its Role, and what ties them, in the order in which they are created."""
    metadata = {"name": account}
    granted = [{"apiGroups": [rule.group], "resources": [rule.resource], "verbs": list(rule.verbs)} for rule in rules]
    role = {"apiGroup": ROLES.group, "kind": ROLES.kind, "name": account}
    subject = {"kind": SERVICE_ACCOUNTS.kind, "name": account}
    contents: Sequence[tuple[ApiResource, Object]] = (
        (SERVICE_ACCOUNTS, {}),
        (ROLES, {"rules": granted}),
        (ROLE_BINDINGS, {"roleRef": role, "subjects": [subject]}),
    )
    return [
        (resource, {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content})
        for resource, content in contents
    ]


def format_role_command(account: str, namespace: str, rules: Sequence[NeededRule] = AM_RULES) -> str:
    """Return the commands that give a service account its Role in a namespace, on one line."""
    verbs = dict.fromkeys(verb for rule in rules for verb in rule.verbs)
    kinds = [f"{rule.resource}.{rule.group}" if rule.group else rule.resource for rule in rules]
    return (
        f"kubectl -n {namespace} create role {account} --verb={','.join(verbs)} --resource={','.join(kinds)}; "
        f"kubectl -n {namespace} create rolebinding {account} --role={account} --serviceaccount={namespace}:{account}"
    )
