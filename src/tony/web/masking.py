"""Takes secrets out of what programs print, byte for byte, so that offsets stay as they are.

What is known to be one (values of variables whose names say so, while the job runs) is masked wherever it stands; so is
what has the form of one: tokens of well-known services, keys, passwords in addresses, `HF_TOKEN=...`. A program can
always print a secret in a form that nobody knows: this is a net, and no wall.
"""

from __future__ import annotations

import re
from collections.abc import Collection

#: Bytes of a known secret that is looked for; shorter ones stand in everything.
SHORTEST, LONGEST = 6, 4096
#: Bytes before and behind a piece that are looked at with it: a secret may lie across its edge.
MARGIN = 4096
_WORDS = rb"TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY"
#: Forms of secrets: what stands in any text that has one, which is quickly found, and the form. Only the group is
#: hidden where there is one. None goes over the end of text inside of JSON or HTML. Each begins with what it is known
#: by: the search for that is quick.
_FORMS = tuple(
    (marks, re.compile(form))
    for marks, form in (
        ((b"AKIA", b"ASIA"), rb"A[KS]IA[0-9A-Z]{16}"),
        ((b"gho_", b"ghp_", b"ghr_", b"ghs_", b"ghu_"), rb"gh[oprsu]_[A-Za-z0-9]{30,255}"),
        ((b"github_pat_",), rb"github_pat_[A-Za-z0-9_]{20,255}"),
        ((b"glpat-",), rb"glpat-[A-Za-z0-9_-]{20,255}"),
        ((b"hf_",), rb"hf_[A-Za-z0-9]{30,255}"),
        ((b"xox",), rb"xox[abeprs]-[A-Za-z0-9-]{10,255}"),
        ((b"sk-",), rb"sk-[A-Za-z0-9_-]{20,255}"),
        ((b"AIza",), rb"AIza[A-Za-z0-9_-]{35}"),
        ((b"tony_",), rb"tony_[0-9a-f]{8}_[A-Za-z0-9_-]{43}"),
        ((b"eyJ",), rb"eyJ[A-Za-z0-9_-]{6,200}\.eyJ[A-Za-z0-9_-]{6,2000}\.[A-Za-z0-9_-]{10,1000}"),
        ((b"PRIVATE KEY-----",), rb"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:[A-Za-z0-9+/=\s]|\\[nr]){0,4000}"),
        ((b"@",), rb"://[^/\s:@\"'\\<>&]{0,200}:([^/\s@\"'\\<>&]{1,200})@"),
        ((b"uthorization: ",), rb"uthorization: (?:[Bb]earer|[Bb]asic) ([^\s\"'\\<>&]{8,2000})"),
        (
            (b"TOKEN", b"SECRET", b"PASS", b"CREDENTIAL", b"KEY"),
            rb"(?:" + _WORDS + rb")[A-Z0-9_]{0,60}=([^\s\"'\\<>&]{1,2000})",
        ),
    )
)


class Mask:
    """Hides secrets.

    Args:
        known: secrets of the job.
    """

    def __init__(self, known: Collection[str] = ()) -> None:
        texts = sorted(
            {text.encode("utf-8", "surrogateescape") for text in known if SHORTEST <= len(text) <= LONGEST},
            key=len,
            reverse=True,
        )
        self._known = re.compile(b"|".join(map(re.escape, texts))) if texts else None

    def hide(self, data: bytes) -> bytes:
        """The same with a star for each byte of a secret."""
        if self._known is not None:
            data = self._known.sub(_stars, data)
        for marks, form in _FORMS:
            if any(mark in data for mark in marks):
                data = form.sub(_masked, data)
        return data

    def text(self, text: str) -> str:
        """The same for text."""
        data = text.encode("utf-8", "surrogatepass")
        hidden = self.hide(data)
        return text if hidden == data else hidden.decode("utf-8", "surrogatepass")


def _stars(found: re.Match[bytes]) -> bytes:
    return b"*" * len(found[0])


def _masked(found: re.Match[bytes]) -> bytes:
    if not found.re.groups:
        return _stars(found)
    start, end = found.span(1)
    whole, offset = found[0], found.start()
    return whole[: start - offset] + b"*" * (end - start) + whole[end - offset :]
