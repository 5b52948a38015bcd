"""The setting `volumes`, and that what it names exists."""

from __future__ import annotations

import pytest

from tests.kube.fake_api import FakeApi, refuse
from tests.kube.scripted_server import Answer, Request, ScriptedServer
from tony.kube.api_client import ApiClient
from tony.kube.cluster_access import ClusterAccess
from tony.model.job_spec import MIB
from tony.schedulers.kubernetes.pod_volumes import build_volumes, find_missing_volumes, parse_volumes


def test_volumes_have_names_and_mount_paths() -> None:
    volumes, mounts = build_volumes(
        parse_volumes(
            {
                "/data": "pvc:data",
                "/data/own": "pvc:data/me/x",
                "/old": "pvc:old:ro",
                "/etc/conf/lr": "configMap:conf/lr",
                "/a": "emptyDir",
                "/b": "emptyDir:1m",
                "/keys": "secret:keys",
            }
        )
    )
    assert volumes == [
        {"name": "volume-0", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "volume-1", "persistentVolumeClaim": {"claimName": "old", "readOnly": True}},
        {"name": "volume-2", "configMap": {"name": "conf"}},
        {"name": "volume-3", "emptyDir": {}},
        {"name": "volume-4", "emptyDir": {"sizeLimit": str(MIB)}},
        {"name": "volume-5", "secret": {"secretName": "keys", "defaultMode": 0o440}},
    ]
    assert mounts == [
        {"name": "volume-0", "mountPath": "/data"},
        {"name": "volume-0", "mountPath": "/data/own", "subPath": "me/x"},
        {"name": "volume-1", "mountPath": "/old", "readOnly": True},
        {"name": "volume-2", "mountPath": "/etc/conf/lr", "subPath": "lr"},
        {"name": "volume-3", "mountPath": "/a"},
        {"name": "volume-4", "mountPath": "/b"},
        {"name": "volume-5", "mountPath": "/keys"},
    ]


@pytest.mark.parametrize("texts", [("pvc:data:ro", "pvc:data/me"), ("pvc:data/me", "pvc:data:ro")])
def test_a_claim_is_one_volume_if_only_one_of_its_mounts_is_read_only(texts: tuple[str, str]) -> None:
    volumes, mounts = build_volumes(parse_volumes(dict(zip(("/a", "/b"), texts, strict=True))))
    assert volumes == [{"name": "volume-0", "persistentVolumeClaim": {"claimName": "data"}}]
    assert [(mount["name"], mount.get("readOnly", False)) for mount in mounts] == [
        ("volume-0", text.endswith(":ro")) for text in texts
    ]


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("data", "pvc:a", "an absolute path"),
        ("/", "pvc:a", "an absolute path"),
        ("/tony/work", "pvc:a", "outside of /tony"),
        ("/./tony/work", "pvc:a", "outside of /tony"),
        ("/a/../tony", "pvc:a", "outside of /tony"),
        ("//", "pvc:a", "outside of /tony"),
        ("/dev/shm/", "pvc:a", "set `shm`"),
        ("/x", "hostPath:/mnt", '"/x" = "hostPath:/mnt": expected '),
        ("/x", "pvc:", '"/x" = "pvc:": expected '),
        ("/x", "pvc:a:rw", '"/x" = "pvc:a:rw": expected '),
        ("/x", "emptyDir:big", "/x: not a size"),
        ("/x", 3, '"/x" = "3": expected '),
    ],
)
def test_a_volume_that_is_wrong_is_named(path: str, text: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_volumes({path: text})


def test_missing_keys_are_found_before_pods_see_empty_folders() -> None:
    api = FakeApi()
    content = {"metadata": {"name": "c"}, "data": {"lr": "0.1"}, "binaryData": {"x": ""}}
    api.objects["/api/v1/namespaces/ml/configmaps", "c"] = content
    with ScriptedServer().serve() as server:
        server.answer = api.answer
        client = ApiClient(ClusterAccess(server=server.url, namespace="ml"))
        found = find_missing_volumes(
            client, {"k": {"/a": "configMap:c/lr", "/b": "configMap:c", "/d": "configMap:c/l"}}
        )
        client.close()
    assert [(each.key, each.value) for each in found] == [("k", "configMap:c/l")]
    assert found[0].message.startswith("it has no key l; did you mean")


def test_missing_objects_are_found_before_pods_wait_for_them() -> None:
    api = FakeApi()
    api.objects["/api/v1/namespaces/ml/persistentvolumeclaims", "data"] = {"metadata": {"name": "data"}}

    def answer(request: Request) -> Answer:
        return refuse(403, "Forbidden") if "/secrets/" in request.target else api.answer(request)

    with ScriptedServer().serve() as server:
        server.answer = answer
        client = ApiClient(ClusterAccess(server=server.url, namespace="ml"))
        volumes = {"/a": "pvc:data", "/b": "pvc:none", "/c": "secret:unknown", "/d": "emptyDir"}
        found = find_missing_volumes(client, {"k": volumes, "r": {"/b": "pvc:none/x", "/e": "configMap:c"}})
        client.close()
    assert [(each.key, each.value) for each in found] == [("k", "pvc:none"), ("r", "configMap:c"), ("r", "pvc:none")]
    assert found[0].message == "namespace ml has no PersistentVolumeClaim none; known: data."
    assert found[1].message == "namespace ml has no ConfigMap c; create it"
    assert len(server.requests) == 5
