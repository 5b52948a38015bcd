"""The credentials that `docker login` has stored for a registry, or that a program prints (*credential helper*).

Sources: github.com/docker/cli, cli/config/configfile/file.go and cli/config/credentials; and
github.com/docker/docker-credential-helpers, client/client.go and credentials/error.go.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tony.errors import StorageError
from tony.oci.image_names import DOCKER_HUB, Repository

#: The name of Docker Hub in these files.
_DOCKER_HUB_KEY = "https://index.docker.io/v1/"
_HELPER_TIMEOUT_SECONDS = 60.0
_NOT_FOUND = "credentials not found"
#: The user name of a helper's answer that is a token.
_TOKEN_USER = "<token>"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryLogin:
    """What a client shows to a registry; all are empty for an anonymous one.

    Attributes:
        identity_token: exchanged for access tokens, instead of user and password.
        origin: where it was found, for messages.
    """

    user: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    origin: str = ""

    @property
    def basic(self) -> str:
        """The header `Authorization` for user and password; empty if there are none."""
        return f"Basic {base64.b64encode(f'{self.user}:{self.password}'.encode()).decode()}" if self.user else ""


def load_docker_login(repository: Repository, environment: Mapping[str, str]) -> RegistryLogin:
    """Return the user's credentials for a repository: of an entry for it, or for its registry; empty if there are none.

    Args:
        environment: `DOCKER_CONFIG`, `HOME` and what helpers need.

    Raises:
        StorageError: the file is not valid, or a helper failed.
    """
    folder = environment.get("DOCKER_CONFIG") or f"{environment.get('HOME', '')}/.docker"
    path = Path(folder, "config.json")
    try:
        config = json.loads(path.read_bytes())
        if not isinstance(config, dict):
            raise ValueError("it is no JSON object")
        key = _DOCKER_HUB_KEY if repository.registry == DOCKER_HUB else repository.registry
        helper = (config.get("credHelpers") or {}).get(key) or config.get("credsStore")
        if helper and (login := _ask_helper(str(helper), key, environment)):
            return login
        return _find_stored(config.get("auths") or {}, repository, str(path))
    except FileNotFoundError:
        return RegistryLogin(origin=f"there is no {path}")
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise StorageError(f"{path} cannot be used: {error}") from error


def _find_stored(entries: Mapping[str, Any], repository: Repository, path: str) -> RegistryLogin:
    registry = repository.registry
    names = {registry, "index.docker.io", "registry-1.docker.io"} if registry == DOCKER_HUB else {registry}
    # An entry may be for a part of the registry: the longest goes first, then the one that Docker itself writes.
    split = [(*_split_key(key), key == _DOCKER_HUB_KEY, entry) for key, entry in entries.items()]
    for host, part, _, entry in sorted(split, key=lambda each: (len(each[1]), each[2]), reverse=True):
        if host in names and f"{repository.path}/".startswith(part) and entry:
            user, _, password = base64.b64decode(entry.get("auth") or "").decode().partition(":")
            return RegistryLogin(
                user=entry.get("username") or user,
                password=entry.get("password") or password.strip("\0"),
                identity_token=entry.get("identitytoken") or "",
                origin=path,
            )
    return RegistryLogin(origin=f"{path} has no entry for {registry}")


def _split_key(key: str) -> tuple[str, str]:
    """Return the host of an entry, and the part of the registry that it is for, with a slash at its end."""
    host, _, part = key.removeprefix("https://").removeprefix("http://").partition("/")
    part = part.strip("/")
    return host, "" if part in ("", "v1", "v2") else f"{part}/"


def _ask_helper(name: str, key: str, environment: Mapping[str, str]) -> RegistryLogin | None:
    program = f"docker-credential-{name}"
    if os.sep in name:
        raise ValueError(f"{name} is no name of a credential helper")
    try:
        done = subprocess.run(
            [program, "get"],
            input=key.encode(),
            capture_output=True,
            env=dict(environment),
            timeout=_HELPER_TIMEOUT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise StorageError(f"the registry {key} needs the program {program}, which is not on PATH") from None
    except subprocess.TimeoutExpired:
        raise StorageError(f"{program} did not end within {_HELPER_TIMEOUT_SECONDS:.0f} s") from None
    if done.returncode != 0:
        text = (done.stdout.strip() or done.stderr.strip()).decode(errors="replace")
        if _NOT_FOUND in text:
            return None
        raise StorageError(f"{program} failed for {key}: {text[:500]}")
    answer = json.loads(done.stdout)
    user, secret = str(answer.get("Username") or ""), str(answer.get("Secret") or "")
    if user == _TOKEN_USER:
        return RegistryLogin(identity_token=secret, origin=program)
    return RegistryLogin(user=user, password=secret, origin=program)
