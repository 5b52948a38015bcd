"""What `docker login` has stored."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest

from tony.errors import StorageError
from tony.oci.docker_credentials import RegistryLogin, load_docker_login
from tony.oci.image_names import Repository

AUTH = base64.b64encode(b"ann:se:cret").decode()


def load(folder: Path, config: object, registry: str = "ghcr.io") -> RegistryLogin:
    (folder / "config.json").write_text(json.dumps(config))
    return load_docker_login(
        Repository(registry, "ann/files"), {"DOCKER_CONFIG": str(folder), "PATH": f"{folder}:{os.environ['PATH']}"}
    )


def write_helper(folder: Path, name: str, script: str) -> None:
    program = folder / f"docker-credential-{name}"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("key", "registry"),
    [
        ("ghcr.io", "ghcr.io"),
        ("https://ghcr.io/v1/", "ghcr.io"),
        ("https://index.docker.io/v1/", "docker.io"),
        ("localhost:5000", "localhost:5000"),
    ],
)
def test_credentials_of_the_file(tmp_path: Path, key: str, registry: str) -> None:
    login = load(tmp_path, {"auths": {"other.io": {"auth": "x"}, key: {"auth": AUTH}}}, registry)
    assert (login.user, login.password) == ("ann", "se:cret")
    assert "cret" not in repr(login)


def test_an_identity_token(tmp_path: Path) -> None:
    login = load(tmp_path, {"auths": {"ghcr.io": {"auth": AUTH, "identitytoken": "t"}}})
    assert login.identity_token == "t"


def test_a_user_without_credentials(tmp_path: Path) -> None:
    assert load(tmp_path, {"auths": {"ghcr.io:443": {"auth": AUTH}}}).basic == ""
    login = load_docker_login(Repository("ghcr.io", "x"), {"HOME": str(tmp_path)})
    assert login.origin == f"there is no {tmp_path}/.docker/config.json"


def test_credentials_of_another_part_of_the_registry_are_not_used(tmp_path: Path) -> None:
    """`podman login quay.io/ann` writes such entries; the one that fits best is used."""
    other = {"quay.io/other": {"auth": AUTH}, "quay.io/an": {"auth": AUTH}, "quay.io/ann/files/x": {"auth": AUTH}}
    assert load(tmp_path, {"auths": other}, "quay.io").basic == ""
    bob, eve = (base64.b64encode(f"{name}:x".encode()).decode() for name in ("bob", "eve"))
    own = {"quay.io": {"auth": eve}, "quay.io/ann": {"auth": bob}}
    assert load(tmp_path, {"auths": {**other, **own}}, "quay.io").user == "bob"
    assert load(tmp_path, {"auths": {**other, "quay.io": {"auth": eve}}}, "quay.io").user == "eve"
    hub = {"https://index.docker.io/v1/": {"auth": eve}, "docker.io/ann": {"auth": bob}}
    assert load(tmp_path, {"auths": hub}, "docker.io").user == "bob"


@pytest.mark.parametrize("config", [{"credHelpers": {"ghcr.io": "own"}, "credsStore": "other"}, {"credsStore": "own"}])
def test_a_helper_prints_credentials(tmp_path: Path, config: object) -> None:
    write_helper(tmp_path, "own", 'read key; echo "{\\"Username\\": \\"$1 $key\\", \\"Secret\\": \\"s\\"}"')
    login = load(tmp_path, config)
    assert (login.user, login.password) == ("get ghcr.io", "s")


def test_a_helper_prints_a_token(tmp_path: Path) -> None:
    write_helper(tmp_path, "own", 'echo \'{"Username": "<token>", "Secret": "t"}\'')
    assert load(tmp_path, {"credsStore": "own"}).identity_token == "t"


def test_a_helper_without_the_registry(tmp_path: Path) -> None:
    """Older clients have left entries in the file."""
    write_helper(tmp_path, "own", "echo 'credentials not found in native keychain'; exit 1")
    assert load(tmp_path, {"credsStore": "own", "auths": {"ghcr.io": {"auth": AUTH}}}).user == "ann"


@pytest.mark.parametrize(
    ("script", "expected"),
    [("echo 'the keychain is locked' >&2; exit 1", "the keychain is locked"), ("echo nonsense", "cannot be used")],
)
def test_a_helper_fails(tmp_path: Path, script: str, expected: str) -> None:
    write_helper(tmp_path, "own", script)
    with pytest.raises(StorageError, match=expected):
        load(tmp_path, {"credsStore": "own"})


def test_a_helper_that_is_not_installed(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="needs the program docker-credential-none"):
        load(tmp_path, {"credsStore": "none"})


def test_a_damaged_file(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be used: it is no JSON object"):
        load(tmp_path, [])
