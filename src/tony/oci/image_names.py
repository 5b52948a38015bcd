"""Names of registries, repositories and images.

Source: github.com/distribution/reference, reference.go and regexp.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_FORM = re.compile(rf"(?P<registry>[A-Za-z0-9.-]+(?::[0-9]+)?)/(?P<path>{_PART}(?:/{_PART})*)")
#: The registry with this name has another one for its API, and a third one in Docker's configuration.
DOCKER_HUB = "docker.io"
_MAX_CHARACTERS = 255


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository in a registry.

    Attributes:
        registry: `host` or `host:port`.
        path: its name there.
    """

    registry: str
    path: str

    @classmethod
    def from_text(cls, text: str) -> Repository:
        """Parse `REGISTRY/REPOSITORY`.

        Raises:
            ValueError: it is not valid.
        """
        match = _FORM.fullmatch(text)
        if match is None or len(text) > _MAX_CHARACTERS:
            raise ValueError("a repository is REGISTRY/NAME, in lower case and without a tag.")
        return cls(match["registry"], match["path"])

    def __str__(self) -> str:
        return f"{self.registry}/{self.path}"

    @property
    def host(self) -> str:
        """Host and port of the registry's API."""
        return "registry-1.docker.io" if self.registry == DOCKER_HUB else self.registry
