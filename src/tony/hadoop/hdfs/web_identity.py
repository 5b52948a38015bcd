"""The identity of a WebHDFS client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class WebLogin:
    """The identity for requests.

    Attributes:
        user: the name, which a cluster without security believes; not sent with a token.
        token: a delegation token as URL-safe text, which identifies the user. Secret.
        act_for: another user to act for, if the cluster allows `user` to.
    """

    user: str = ""
    token: str = field(default="", repr=False)
    act_for: str = ""

    def build_query(self) -> dict[str, str]:
        """Return the parameters of every request."""
        who = {"delegation": self.token} if self.token else {"user.name": self.user} if self.user else {}
        return {**who, "doas": self.act_for} if self.act_for else who


#: Returns the login: called with None when it is first needed, and with the old login when its token was refused;
#: returns the same one if there is no other. May block.
LoginSource = Callable[[WebLogin | None], WebLogin]
