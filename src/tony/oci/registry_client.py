"""Requests to an OCI registry: look for an image, and push one. Blocking.

Sources: the OCI distribution specification v1.1; for access tokens distribution.github.io/distribution/spec/auth, token
and oauth.
"""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from email.message import Message
from itertools import count
from typing import TypeVar
from urllib.parse import urlencode, urljoin, urlsplit

from tony.address import is_loopback
from tony.control_characters import escape
from tony.errors import ConnectionFailedError, StorageError
from tony.http_requests import PASSING_STATUS, HttpClient, read_answer
from tony.oci.docker_credentials import RegistryLogin
from tony.oci.file_image import INDEX_TYPE, MANIFEST_TYPE, ImageDocument
from tony.oci.image_names import Repository

#: Seconds without a byte from the registry, which may store a layer elsewhere before it answers.
_TIMEOUT_SECONDS = 120.0
_MAX_TRIES = 4
_MAX_ANSWER_BYTES = 1 << 20
#: Characters of a text of the registry in a message.
_MAX_WORDS = 300
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_CHALLENGE = re.compile(r'(?:^|,)\s*(?P<scheme>Bearer|Basic)\s+(?P<values>(?:\w+="[^"]*",?\s*)+)', re.IGNORECASE)
_VALUE = re.compile(r'(\w+)="([^"]*)"')
_CLIENT_ID = "tony"

T = TypeVar("T")


class RegistryError(StorageError):
    """The registry refused, or its answer makes no sense."""


class RegistryUnavailableError(RegistryError):
    """The registry cannot be reached, or is overloaded: it may be tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAnswer:
    """An answer of a registry.

    Attributes:
        body: the beginning of it.
    """

    status: int
    headers: Message
    body: bytes

    def describe(self) -> str:
        """Return the registry's own words."""
        try:
            errors = json.loads(self.body)["errors"]
            texts = [f"{each.get('code')}: {each.get('message')}" for each in errors]
        except (ValueError, LookupError, TypeError, AttributeError):
            texts = [self.body[:300].decode(errors="replace").strip()]
        texts = [escape(text)[:_MAX_WORDS] for text in texts]
        return f"{'; '.join(filter(None, texts)) or http.client.responses.get(self.status, '')} (HTTP {self.status})"


class RegistryClient:
    """A repository of a registry. Not thread-safe.

    Args:
        on_wait: called before another try; may raise.
    """

    def __init__(self, repository: Repository, login: RegistryLogin, on_wait: Callable[[], None]) -> None:
        self._repository, self._login = repository, login
        scheme = "http" if is_loopback(urlsplit(f"//{repository.host}").hostname or "") else "https"
        self._base = f"{scheme}://{repository.host}/v2/{repository.path}"
        self._client = HttpClient(_TIMEOUT_SECONDS, _MAX_TRIES, on_wait, uses_proxies=scheme == "https")
        self._authorization = ""

    def find_image(self, tag: str) -> str:
        """Return the digest of the image with a tag; empty if there is none.

        Raises:
            RegistryError: the registry refuses, or cannot be reached.
        """
        accepted = {"Accept": f"{INDEX_TYPE}, {MANIFEST_TYPE}"}
        answer = self._retry(lambda: self._request("HEAD", f"{self._base}/manifests/{tag}", headers=accepted))
        if answer.status == 404:
            return ""
        self._check(answer, "find an image")
        found = answer.headers.get("Docker-Content-Digest", "")
        return found if _DIGEST.fullmatch(found) else ""

    def has_blob(self, digest: str) -> bool:
        """Return True if the repository has a blob.

        Raises:
            RegistryError: the registry refuses, or cannot be reached.
        """
        return self._retry(lambda: self._has_blob(digest))

    def _has_blob(self, digest: str) -> bool:
        answer = self._request("HEAD", f"{self._base}/blobs/{digest}")
        if answer.status == 404:
            return False
        if answer.status // 100 != 3:  # a redirect to where it is stored
            self._check(answer, "find a blob")
        return True

    def push_blob(self, digest: str, size: int, read: Callable[[], Iterable[bytes]]) -> None:
        """Store a blob.

        Raises:
            RegistryError: the registry refuses, or cannot be reached.
            OSError: from reading it.
        """
        tries = count()

        def store() -> None:
            if next(tries) == 0 or not self._has_blob(digest):  # an answer may have been lost
                self._upload(digest, size, read)

        self._retry(store)

    def push_config(self, config: ImageDocument) -> None:
        """Store a document that is a blob: the configuration of an image.

        Raises:
            RegistryError: the registry refuses, or cannot be reached.
        """
        self.push_blob(config.digest, len(config.content), lambda: [config.content])

    def push_document(self, reference: str, document: ImageDocument) -> None:
        """Store a manifest or an index under its digest or a tag.

        Raises:
            RegistryError: the registry refuses, or cannot be reached.
        """
        headers = {"Content-Type": document.media_type}
        url = f"{self._base}/manifests/{reference}"
        answer = self._retry(lambda: self._request("PUT", url, document.content, headers))
        self._check(answer, "store an image")

    def _upload(self, digest: str, size: int, read: Callable[[], Iterable[bytes]]) -> None:
        url = f"{self._base}/blobs/uploads/"
        answer = self._request("POST", url, b"")
        self._check(answer, "store a blob")
        location = urljoin(url, answer.headers.get("Location", ""))
        self._check_transport(location)
        target = f"{location}{'&' if urlsplit(location).query else '?'}{urlencode({'digest': digest})}"
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        self._check(self._request("PUT", target, read, headers), "store a blob")

    def _retry(self, action: Callable[[], T]) -> T:
        return self._client.retry(action, RegistryUnavailableError)

    def _check(self, answer: RegistryAnswer, what: str) -> None:
        if answer.status // 100 == 2:
            return
        text = f"the registry {self._repository.registry} refuses to {what} in {self._repository.path}: "
        text += answer.describe()
        if answer.status in (401, 403):
            who = f"as {self._login.user}, from {self._login.origin}" if self._login.user else self._login.origin
            text += f". Log in with `docker login {self._repository.registry}` as a user who may push there ({who})."
        raise RegistryError(text)

    def _request(
        self,
        method: str,
        url: str,
        body: bytes | Callable[[], Iterable[bytes]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> RegistryAnswer:
        """Send a request, again with credentials if the registry wants these; return its answer."""
        is_own = urlsplit(url).netloc == urlsplit(self._base).netloc
        for is_first in (True, False):
            sent = dict(headers or {})
            if self._authorization and is_own:
                sent["Authorization"] = self._authorization
            answer = self._send(method, url, body() if callable(body) else body, sent)
            if answer.status != 401 or not is_own or not is_first or not self._authenticate(answer):
                break
        if answer.status in PASSING_STATUS:
            raise RegistryUnavailableError(f"the registry {self._repository.registry}: {answer.describe()}")
        return answer

    def _send(
        self, method: str, url: str, body: bytes | Iterable[bytes] | None, headers: Mapping[str, str]
    ) -> RegistryAnswer:
        try:
            with self._client.open(method, url, {"User-Agent": "tony", **headers}, body) as found:
                body = read_answer(found, _MAX_ANSWER_BYTES)
                return RegistryAnswer(status=found.status, headers=found.headers, body=body)
        except ConnectionFailedError as error:
            raise RegistryUnavailableError(f"the registry {error}") from None

    # --- credentials ----------------------------------------------------------------------------------------------

    def _authenticate(self, answer: RegistryAnswer) -> bool:
        """Get what the registry asks for; return False if there are no credentials of that kind."""
        match = _CHALLENGE.search(answer.headers.get("WWW-Authenticate", ""))
        if match is None or match["scheme"].lower() == "basic":
            self._authorization = self._login.basic
            return bool(self._authorization)
        values = dict(_VALUE.findall(match["values"]))
        self._authorization = f"Bearer {self._fetch_token(values.get('realm', ''), values.get('service', ''))}"
        return True

    def _fetch_token(self, realm: str, service: str) -> str:
        self._check_transport(realm)
        scope = f"repository:{self._repository.path}:pull,push"
        fields = {"service": service, "scope": scope, "client_id": _CLIENT_ID}
        if self._login.identity_token:
            fields |= {"grant_type": "refresh_token", "refresh_token": self._login.identity_token}
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            answer = self._send("POST", realm, urlencode(fields).encode(), kind)
        else:
            own = {"Authorization": self._login.basic} if self._login.basic else {}
            separator = "&" if urlsplit(realm).query else "?"
            answer = self._send("GET", f"{realm}{separator}{urlencode(fields)}", None, own)
        if answer.status in PASSING_STATUS:
            raise RegistryUnavailableError(f"{urlsplit(realm).netloc} issues no token: {answer.describe()}")
        self._check(answer, "give access")
        try:
            found = json.loads(answer.body)
            return str(found.get("token") or found["access_token"])
        except (ValueError, LookupError, TypeError, AttributeError):
            raise RegistryError(f"{urlsplit(realm).netloc} issues no token: {answer.describe()}") from None

    def _check_transport(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
            text = f"the registry {self._repository.registry} sends its clients to {url[:200] or 'nowhere'}"
            raise RegistryError(f"{text}: only https:// is used, or http:// on this machine")
