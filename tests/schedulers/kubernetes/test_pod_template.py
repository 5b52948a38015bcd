"""The overlay of a job's settings is merged into pods, but for what tony itself sets."""

from __future__ import annotations

from typing import Any

import pytest

from tony.kube.api_client import Object
from tony.schedulers.kubernetes.pod_template import find_template_errors, merge_template


def own(**fields: Any) -> Object:
    return {"spec": {"containers": [{"name": "tony", **fields}]}}


def test_lists_with_names_are_merged_and_others_replaced() -> None:
    pod = own(
        env=[{"name": "A", "value": "1"}],
        envFrom=[{"secretRef": {"name": "e"}}],
        volumeMounts=[{"name": "work", "mountPath": "/w"}],
    )
    pod["spec"] |= {"volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}], "tolerations": [{"key": "a"}]}
    pod["spec"]["hostAliases"] = [{"ip": "10.0.0.1"}]
    template = own(
        env=[{"name": "B", "value": "2"}, {"name": "A", "value": "3"}],
        envFrom=[{"configMapRef": {"name": "f"}}],
        volumeMounts=[{"name": "work", "mountPath": "/x", "subPath": "x"}],
        securityContext={"capabilities": {"add": ["IPC_LOCK"]}},
    )
    template["spec"] |= {
        "volumes": [{"name": "shm", "ephemeral": {}}],
        "tolerations": [{"key": "b"}],
        "hostAliases": [{"ip": "10.0.0.2"}],
        "initContainers": [{"name": "fetch"}],
    }
    merge_template(pod, template)
    assert pod["spec"] == {
        "containers": [
            {
                "name": "tony",
                "env": [{"name": "A", "value": "3"}, {"name": "B", "value": "2"}],
                "envFrom": [{"secretRef": {"name": "e"}}, {"configMapRef": {"name": "f"}}],
                "volumeMounts": [
                    {"name": "work", "mountPath": "/w"},
                    {"name": "work", "mountPath": "/x", "subPath": "x"},
                ],
                "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
            }
        ],
        "volumes": [{"name": "shm", "ephemeral": {}}],
        "tolerations": [{"key": "a"}, {"key": "b"}],
        "hostAliases": [{"ip": "10.0.0.2"}],
        "initContainers": [{"name": "fetch"}],
    }


def test_a_template_is_not_changed_by_a_pod_that_it_was_merged_into() -> None:
    template = {"metadata": {"labels": {"team": "a"}}, **own(env=[{"name": "A"}])}
    pod: Object = {}
    merge_template(pod, template)
    pod["metadata"]["labels"]["x"] = "y"
    pod["spec"]["containers"][0]["env"].append({"name": "B"})
    assert template == {"metadata": {"labels": {"team": "a"}}, **own(env=[{"name": "A"}])}


@pytest.mark.parametrize(
    ("template", "path", "instead"),
    [
        ({"tolerations": []}, "tolerations", "only `metadata` and `spec`"),
        ({"metadata": {"name": "x"}}, "metadata.name", "`labels` and `annotations`"),
        ({"metadata": {"labels": {"tony.dev/job": "x"}}}, "metadata.labels.tony.dev/job", "tony itself"),
        ({"spec": {"restartPolicy": "Always"}}, "spec.restartPolicy", "max_restarts"),
        ({"spec": {"terminationGracePeriodSeconds": 1}}, "spec.terminationGracePeriodSeconds", "stop_grace"),
        (own(command=["x"]), "spec.containers[tony].command", "command"),
        (own(image="x"), "spec.containers[tony].image", "`image`"),
        (own(resources={"limits": {"memory": 1}}), "spec.containers[tony].resources.limits.memory", "`memory`"),
        (own(env=[{"name": "TONY_AM_ADDRESS"}]), "spec.containers[tony].env[TONY_AM_ADDRESS]", "tony itself"),
        (own(volumeMounts=[{"mountPath": "/tony/x"}]), "spec.containers[tony].volumeMounts[/tony/x]", "another path"),
        (own(volumeMounts=[{"mountPath": "/a/../tony"}]), "spec.containers[tony].volumeMounts[/tony]", "another path"),
        (own(volumeMounts=[{"mountPath": "/"}]), "spec.containers[tony].volumeMounts[/]", "another path"),
        ({"spec": {"volumes": [{"name": "secret"}]}}, "spec.volumes[secret]", "another name"),
        ({"spec": {"containers": [{"name": "log"}]}}, "spec.containers[log]", "initContainers"),
    ],
)
def test_what_tony_sets_is_refused(template: Object, path: str, instead: str) -> None:
    (error,) = find_template_errors(template, is_for_am=False)
    assert error.startswith(f"{path} cannot be set here")
    assert instead in error


def test_the_service_account_of_the_am_is_a_setting() -> None:
    template = {"spec": {"serviceAccountName": "x"}}
    assert [*find_template_errors(template, is_for_am=False)] == []
    (error,) = find_template_errors(template, is_for_am=True)
    assert "`service_account`" in error


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ({"spec": []}, "spec must be a table."),
        ({"metadata": {"labels": "x"}}, "metadata.labels must be a table."),
        ({"spec": {"containers": {"name": "tony"}}}, "spec.containers must be a list of tables, each with its `name`."),
        (
            own(volumeMounts=[{"name": "x"}]),
            "spec.containers[tony].volumeMounts must be a list of tables, each with its `mountPath`.",
        ),
    ],
)
def test_what_cannot_be_merged_is_refused(template: Object, expected: str) -> None:
    assert [*find_template_errors(template, is_for_am=False)] == [expected]
