"""Quality of protection of traffic after the login, and the layer that provides it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Protocol

from tony.errors import InfraError


class Protection(Enum):
    """The words of `hadoop.rpc.protection`."""

    #: Only the login is protected; SASL calls it "auth".
    AUTHENTICATION = "authentication"
    #: Every message is signed; SASL calls it "auth-int".
    INTEGRITY = "integrity"
    #: Every message is signed and encrypted; SASL calls it "auth-conf".
    PRIVACY = "privacy"


#: What SASL calls them.
QOP = {Protection.AUTHENTICATION: "auth", Protection.INTEGRITY: "auth-int", Protection.PRIVACY: "auth-conf"}


class SaslFailure(InfraError):  # noqa: N818 - a noun reads better where it is raised
    """The other side's part of a SASL conversation makes no sense, or proves nothing."""


class SecurityLayer(Protocol):
    """Wraps the traffic of one connection after the login. Order matters in each direction.

    Attributes:
        limit: bytes that `wrap` takes at once, so that the other side's buffer holds what comes of them.
    """

    limit: int

    def wrap(self, data: bytes) -> bytes:
        """Return outgoing data, sealed."""

    def unwrap(self, data: bytes) -> bytes:
        """Return incoming data, unsealed.

        Raises:
            SaslFailure: damaged, out of order, or not theirs.
        """


def parse_protections(text: str) -> tuple[Protection, ...]:
    """Read `hadoop.rpc.protection`: one word, or several in order of preference.

    Raises:
        ValueError: another word.
    """
    found: list[Protection] = []
    for word in text.split(","):
        name = word.strip().lower()
        if not name:
            continue
        known = next((each for each in Protection if name in (each.value, QOP[each])), None)
        if known is None:
            raise ValueError(f"{name!r:.100} is no protection; write authentication, integrity or privacy")
        found.append(known)
    return tuple(dict.fromkeys(found))


def select_protection(wanted: tuple[Protection, ...], offered: Iterable[Protection]) -> Protection:
    """Return the first of ours that they offer; if we want nothing special, the first of theirs.

    Raises:
        SaslFailure: the two lists do not meet.
    """
    there = tuple(offered)
    for each in wanted or there:
        if each in there:
            return each
    ours = ", ".join(each.value for each in wanted) or "any"
    theirs = ", ".join(each.value for each in there) or "nothing that we know"
    raise SaslFailure(
        f"no protection that both sides take: ours are {ours}, the daemon offers {theirs}. "
        "Set hadoop.rpc.protection here to what the daemon has."
    )
