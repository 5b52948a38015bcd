"""Errors of requests to a Kubernetes API server.

KubeError
├── UnreachableError     no connection: nothing was sent
├── AnswerLostError      the connection broke or timed out; the request may have been carried out
├── CredentialsError     no credentials: a missing file, a program that failed
└── KubeApiError         the server answered with a failure; `reason` says which
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tony.control_characters import MAX_CHARACTERS, escape_line
from tony.errors import SchedulerError

#: Messages of admission plug-ins whose caches are empty yet, and of authorizers: pkg/admission/errors.go and
#: pkg/endpoints/handlers/responsewriters/errors.go of k8s.io/apiserver.
_NOT_READY = "not yet ready to handle request"
_DENIAL = re.compile(r'User "[^"]*" cannot \w+ (?:resource|path)')
#: Of the admission plug-in ResourceQuota (pkg/quota/v1/.../resourcequota/controller.go).
_QUOTA = re.compile("exceeded quota|status unknown for quota")


class KubeError(SchedulerError):
    """The base class."""


class UnreachableError(KubeError):
    """No connection could be made.

    Attributes:
        is_permanent: another try would fail, too.
    """

    def __init__(self, message: str, *, is_permanent: bool = False) -> None:
        self.is_permanent = is_permanent
        super().__init__(message)


class AnswerLostError(KubeError):
    """No answer arrived; the request may have been carried out."""


class CredentialsError(KubeError):
    """Nothing proves to the API server who the client is."""


class KubeApiError(KubeError):
    """The API server refused a request, or could not carry it out.

    Attributes:
        status: the HTTP status.
        reason: the word for it, such as `NotFound`, `AlreadyExists`, `Forbidden`, `Expired`; empty if the answer has
            none.
        text: the message of the server, without the prefix of this error.
        retry_after: seconds after which the server wants to be asked again; None if it does not say.

    Source: `metav1.Status`, `StatusReason` in k8s.io/apimachinery/pkg/apis/meta/v1/types.go.
    """

    def __init__(self, message: str, *, status: int, reason: str, text: str, retry_after: float | None = None) -> None:
        self.status, self.reason, self.text, self.retry_after = status, reason, text, retry_after
        super().__init__(message)

    @property
    def is_missing(self) -> bool:
        """Return True if the object does not exist."""
        return self.status == 404

    @property
    def is_existing(self) -> bool:
        """Return True if an object of that name exists already."""
        return self.reason == "AlreadyExists"

    @property
    def is_conflict(self) -> bool:
        """Return True if another request was faster, such as one for the same quota: nothing was done."""
        return self.reason == "Conflict"

    @property
    def is_expired(self) -> bool:
        """Return True if the requested version of a list is no longer kept: list again."""
        return self.status == 410 or self.reason in ("Expired", "Gone")

    @property
    def is_unauthorized(self) -> bool:
        """Return True if the server did not accept the credentials, such as a token that has just expired."""
        return self.status == 401

    @property
    def is_transient(self) -> bool:
        """Return True if the same request may succeed later: the server is busy, or is starting."""
        return (
            self.status in (429, 500, 502, 503, 504)
            or self.reason in ("Timeout", "ServerTimeout", "Conflict")
            or (self.status == 403 and _NOT_READY in self.text)
        )

    @property
    def is_denied(self) -> bool:
        """Return True if the user has no right to the request; an API server that has just started may be wrong."""
        return self.status == 403 and _DENIAL.search(self.text) is not None

    @property
    def is_quota(self) -> bool:
        """Return True if a quota has no room now, or is not known yet."""
        return self.status == 403 and _QUOTA.search(self.text) is not None


def build_api_error(what: str, status: int, answer: object, retry_after: float | None = None) -> KubeApiError:
    """Return the error of an answer.

    Args:
        what: the request, such as `create pods/train-0`.
        answer: the decoded body: a `Status` object, or anything else.
    """
    body: Mapping[str, Any] = answer if isinstance(answer, dict) else {}
    reason, text = body.get("reason"), body.get("message")
    reason = reason if isinstance(reason, str) else ""
    text = escape_line(text, MAX_CHARACTERS) if isinstance(text, str) else f"HTTP status {status}"
    return KubeApiError(f"{what}: {text}", status=status, reason=reason, text=text, retry_after=retry_after)
