"""Mask text that looks like a secret with asterisks, byte for byte, so that offsets stay valid.

The executor masks the secret values that it knows (`model/masking.py`). This module masks what can be recognized by its
form: tokens of well-known services, private keys, passwords in URLs, and values that follow a name (`HF_TOKEN=...`,
`--password=...`, `"api_key": "..."`). Secrets printed in any other form are not recognized.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tony.model.masking import with_stars

#: Bytes before and after a chunk that are searched with it: a secret may cross the chunk's boundary.
MARGIN = 4096
_WORDS = rb"TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY"
#: Forms of secrets: literals of which one is in every match, to skip other text quickly, and the pattern. If a pattern
#: has a group, only the group is masked. No pattern matches beyond the end of a string in JSON or HTML. Each pattern
#: starts with a literal, which makes the search fast.
_FORMS = tuple(
    (literals, re.compile(form))
    for literals, form in (
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


#: Endings of names in lower case: `aws_secret_access_key`.
_NAME_ENDS = (b"token", b"secret", b"password", b"passwd", b"passphrase", b"credential", b"credentials", b"key")
#: Other kinds of tokens and keys are not secret: `"eos_token": "unknown"`, `key = sort1`.
_BEFORE_NAME_END = re.compile(
    rb"(?<!bos_)(?<!cls_)(?<!eos_)(?<!mask_)(?<!pad_)(?<!sep_)(?<!unk_)(?!key)|(?:(?<=api)|(?<=access)|(?<=private)|"
    rb"(?<=secret)|(?<=auth)|(?<=api[_-])|(?<=access[_-])|(?<=private[_-])|(?<=secret[_-])|(?<=auth[_-]))key"
)
#: Bytes that can follow a name that has a value: most occurrences of these words are followed by others (`tokens`).
_AFTER_NAME = frozenset(bytes([each]) for each in b" \t:=\"'\\&")
#: Text before a name that is a command-line option or a URL parameter, for which every value is masked.
_OPTION = re.compile(rb"(?:--|[?&;])[a-z0-9_-]*$")
_MAX_OPTION_BYTES = 60


class FormMask:
    """Masks text that has the form of a secret.

    Args:
        quote: regular expression for a quote in the user program's text as encoded in the data. It does not match the
            quotes of the surrounding JSON or HTML, whose field names are not secrets.
    """

    def __init__(self, quote: bytes) -> None:
        # After a name: a quoted value, or one with a letter and a digit that does not look like code.
        self._assigned = re.compile(
            rb"(?:%(quote)s)?[ \t]{0,3}[:=][ \t]{0,3}(?:"
            rb"(?:%(quote)s)([^\s\"'\\<>&()\[\]{}$]{6,512})(?=%(quote)s)|"
            rb"(?=[^%(end)s\d]{0,512}\d)(?=[^%(end)sa-z]{0,512}[a-z])([^%(end)s]{6,512}={0,2})(?=[\s\"'\\<&,;]|$))"
            % {b"quote": quote, b"end": rb"\s\"'\\<>&()\[\]{}$,;.="}
        )
        self._option = re.compile(
            rb"(?:[= ]|(?:%(quote)s|[\"']),\s{0,20}(?:%(quote)s|[\"']))(?!-)([^\s\"'\\<>&]{1,512})" % {b"quote": quote}
        )

    def hide(self, data: bytes) -> bytes:
        """Return the data with an asterisk for each byte of a secret."""
        for literals, form in _FORMS:
            if any(literal in data for literal in literals):
                data = with_stars(data, [found.span(form.groups) for found in form.finditer(data)])
        return with_stars(data, list(self._find_named(data.lower())))

    def mask_text(self, text: str) -> str:
        """Return the text with asterisks for the UTF-8 bytes of secrets."""
        data = text.encode("utf-8", "surrogatepass")
        hidden = self.hide(data)
        return text if hidden == data else hidden.decode("utf-8", "surrogatepass")

    def _find_named(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield the spans of values that follow a name; `data` is in lower case."""
        for word in _NAME_ENDS:
            place = data.find(word)
            while place >= 0:
                span = self._find_value(data, place, place + len(word))
                if span is not None:
                    yield span
                place = data.find(word, place + len(word) if span is None else span[1])

    def _find_value(self, data: bytes, begin: int, end: int) -> tuple[int, int] | None:
        if data[end : end + 1] not in _AFTER_NAME or _BEFORE_NAME_END.match(data, begin) is None:
            return None
        found = self._assigned.match(data, end)
        if found is not None:
            return found.span(found.lastindex or 0)
        if _OPTION.search(data, max(0, begin - _MAX_OPTION_BYTES), begin) is None:
            return None
        found = self._option.match(data, end)
        return found.span(1) if found else None


#: For a program's output; quotes in it may be escaped, as in lines of JSON.
PRINTED = FormMask(rb"\\{0,3}[\"']")
#: For JSON that contains program output.
JSON = FormMask(rb"\\{1,7}\"|\\{0,7}'")
#: For HTML that contains program output.
HTML = FormMask(rb"\\{0,3}&#3[49];")
