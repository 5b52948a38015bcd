"""Secrets of a job: detects them by variable names, and masks their values in text, tables and the job directory.

Standard library only. Output of the job's programs is masked once, by the executor, where it enters the log.
"""

from __future__ import annotations

import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from json import dumps
from typing import Any
from urllib.parse import quote

from tony.model.job_spec import Command, JobSpec, Notify, SettingValue

#: Shown instead of a secret.
MASK = "***"
#: A secret's value, or a line of it, is masked from this many bytes on: shorter ones occur in ordinary text.
MIN_SECRET_BYTES = 6
#: Longer texts are searched for in parts of this size.
_MAX_TEXT_BYTES = 4096

_SECRET_NAME = re.compile(
    r"SECRET|PASSW|PASSPHRASE|CREDENTIAL|CONN(?:ECTION)?_?STR"
    r"|(?<=.)(?<!^OLD)PWD(?![A-Z])"  # PWD and OLDPWD are the shell's working directories
    r"|(?:(?<![A-Z])|DB|SSH|USER)PASS[0-9]*$"  # not COMPASS, BYPASS, NUM_PASSES
    r"|(?<![A-Z])(?:AUTH|AUTHORIZATION|COOKIES?|DSN|SAS|SAS_UR[IL])[0-9]*$",
    re.IGNORECASE | re.ASCII,
)
#: Names of generated values, but also of ordinary words: `METRIC_KEY=val_loss`. Not tokenizers, key points...
_KEY_NAME = re.compile(r"TOKEN(?!IZ)|KEY(?!BOARD|FRAME|POINT|WORD)", re.IGNORECASE | re.ASCII)
_WORD = re.compile(r"[A-Za-z_]*", re.ASCII)
#: Such a variable says where a secret is stored: `SSL_KEY_FILE`, `HADOOP_TOKEN_FILE_LOCATION`.
_PLACE_NAME = re.compile(r"_(?:DIR|FILE|FOLDER|LOCATION|PATH)$", re.IGNORECASE | re.ASCII)
#: The password in a URL: `https://user:PASSWORD@host`.
PASSWORD_IN_URL = re.compile(r"(?<=://)([^/\s:@]*):([^/\s@]+)(?=@)")
#: Keys in tables of scheduler settings whose values are names or paths: `secretName`, `key` of a Secret, a mount path.
_REFERENCE = re.compile(r"/.*|key|topologyKey|.*(?:[Nn]ame|Namespace|Class|Ref|File|Path)", re.DOTALL)
#: An argument: `--token=TEXT`, or `--token` before its text.
_OPTION = re.compile(r"(?P<option>--?(?P<name>[A-Za-z][\w.-]*))(?:=(?P<text>.*))?", re.DOTALL | re.ASCII)
_LINE_END = re.compile(rb"[\r\n]+")
_HOST = re.compile(r"https?://[A-Za-z0-9.-]{1,255}(:\d{1,5})?(?=/|\?|$)")


def is_secret(name: str, named: Collection[str] = ()) -> bool:
    """Return True if the value of a variable or parameter of this name is secret: `HF_TOKEN`, `DB_PASSWORD`, `API_KEY`.

    Args:
        named: names that the job itself declares as secret (`secret = [...]`).
    """
    return name in named or (
        _PLACE_NAME.search(name) is None
        and (_SECRET_NAME.search(name) is not None or _KEY_NAME.search(name) is not None)
    )


def find_secrets(variables: Mapping[str, str], named: Collection[str] = ()) -> set[str]:
    """Return the secret values of variables or parameters, and the passwords in their URLs.

    Values that occur in ordinary output are left out unless the job names their variable: `MAX_TOKENS=131072` would
    mask every such number, `METRIC_KEY=val_loss` every such word.
    """
    found = set()
    for name, value in variables.items():
        if name in named or (is_secret(name) and not _is_ordinary(name, value)):
            found.add(value)
        if "://" in value:
            found.update(match[2] for match in PASSWORD_IN_URL.finditer(value))
    return found


def _is_ordinary(name: str, value: str) -> bool:
    if _SECRET_NAME.search(name) is not None:
        return False
    if _WORD.fullmatch(value):
        return True
    try:
        float(value)
    except ValueError:
        return False
    return True


class SecretMask:
    """Replaces secrets with stars, one for each byte, so that offsets and line ends stay.

    Masked are the values, each line of a multi-line value, and their JSON, URL and base64 encodings. False if there is
    nothing to mask.

    Args:
        secrets: the values.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        found = {text for secret in secrets for text in _spellings(secret.encode("utf-8", "surrogateescape"))}
        self._texts = sorted(found, key=lambda text: (-len(text), text))
        self._pattern = re.compile(b"|".join(map(re.escape, self._texts)))

    def __bool__(self) -> bool:
        return bool(self._texts)

    def hide_text(self, text: str) -> str:
        """Return the text with stars in place of secrets."""
        if not self._texts:
            return text
        data = text.encode("utf-8", "surrogatepass")
        spans = self._find(data)
        return with_stars(data, spans).decode("utf-8", "surrogatepass") if spans else text

    def hide_complete(self, data: bytes) -> tuple[bytes, int]:
        """Return the masked data, and the offset from which its end may be the beginning of a secret."""
        spans = self._find(data)
        return with_stars(data, spans), self._find_beginning(data, spans)

    def _find(self, data: bytes) -> list[tuple[int, int]]:
        # A search for each text is several times faster than one for all of them at once.
        if not any(text in data for text in self._texts):
            return []
        return [found.span() for found in self._pattern.finditer(data)]

    def _find_beginning(self, data: bytes, spans: list[tuple[int, int]]) -> int:
        size = len(data)
        # No searched text contains a line end.
        start = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        first = size
        if start == size or not self._texts:
            return first
        spans = [span for span in spans if span[1] > size - len(self._texts[0])]
        for text in self._texts:
            place = data.find(text[:1], max(start, size - len(text) + 1), first)
            while place >= 0:
                rest = data[place:]
                if text.startswith(rest) and not any(begin < place < end for begin, end in spans):
                    first = place
                    break
                place = data.find(text[:1], place + 1, first)
        return first


class MaskedStream:
    """Masks one stream of output that arrives in pieces, including secrets across their borders.

    Only an end that may be the beginning of a secret is held back.
    """

    def __init__(self, mask: SecretMask) -> None:
        self._mask = mask
        self._held = b""
        self._passed = 0  # bytes of the held ones that were released

    @property
    def is_holding(self) -> bool:
        """Return True if data is held back."""
        return len(self._held) > self._passed

    def feed(self, data: bytes) -> bytes:
        """Mask the next piece; return what can be passed on."""
        data = self._held + data
        hidden, end = self._mask.hide_complete(data)
        passed = hidden[self._passed : end]
        self._held, self._passed = data[end:], max(0, self._passed - end)
        return passed

    def release(self) -> bytes:
        """Return the data held back: stars if it is long enough to be masked, else the text.

        It still counts as the beginning of a secret if the rest follows.
        """
        hidden = b"*" * len(self._held) if len(self._held) >= MIN_SECRET_BYTES else self._held
        released, self._passed = hidden[self._passed :], len(self._held)
        return released


def with_stars(data: bytes, spans: list[tuple[int, int]]) -> bytes:
    """Return the data with asterisks for the bytes of some spans."""
    if not spans:
        return data
    hidden = bytearray(data)
    for begin, end in spans:
        hidden[begin:end] = b"*" * (end - begin)
    return bytes(hidden)


def _spellings(secret: bytes) -> Iterator[bytes]:
    """Yield the texts under which a secret may appear in output."""
    for line in _LINE_END.split(secret):
        for begin in range(0, len(line), _MAX_TEXT_BYTES):
            part = line[begin : begin + _MAX_TEXT_BYTES]
            if len(part) >= MIN_SECRET_BYTES:
                yield part
    if MIN_SECRET_BYTES <= len(secret) <= _MAX_TEXT_BYTES:
        yield from _encodings(secret)


def _encodings(secret: bytes) -> Iterator[bytes]:
    text = secret.decode("utf-8", "surrogateescape")
    yield dumps(text)[1:-1].encode()
    yield dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogateescape")
    yield repr(text)[1:-1].encode("utf-8", "surrogateescape")
    yield quote(secret, safe="").encode()
    yield quote(secret).encode()
    # In the base64 of a longer text a secret looks different at each of three offsets, and its ends depend on what is
    # next to it: those characters are left out.
    for before in range(3):
        padded = b"\0" * before + secret
        begin, end = (0, 2, 3)[before], len(padded) * 4 // 3
        for encode in (b64encode, urlsafe_b64encode):
            core = encode(padded)[begin:end]
            if len(core) >= MIN_SECRET_BYTES:
                yield core


# --- settings of a job ------------------------------------------------------------------------------------------------


def mask_secret(name: str, value: str, named: Collection[str] = ()) -> str:
    """Return the value for display: a secret is masked, and so is a password in an address.

    Args:
        named: names that the job itself declares as secret.
    """
    return MASK if is_secret(name, named) else PASSWORD_IN_URL.sub(rf"\1:{MASK}", value)


def is_reference(value: str) -> bool:
    """Return True if a setting only refers to its secret: `env:NAME`, `file:PATH`."""
    return value.startswith(("env:", "file:"))


def mask_value(value: str) -> str:
    """Return a secret setting for display: a reference unchanged, the host of an address, else only the mask."""
    if is_reference(value):
        return value
    host = _HOST.match(value)
    return f"{host[0]}/{MASK}" if host else MASK


def redact(spec: JobSpec) -> JobSpec:
    """Return the job without secrets in variables, parameters, scheduler settings and commands."""
    mask = build_mask(spec)
    roles = {
        name: replace(
            role,
            env=_mask_values(role.env, spec, mask),
            command=_mask_command(role.command, mask),
            scheduler_settings={name: _mask_settings(each, spec) for name, each in role.scheduler_settings.items()},
        )
        for name, role in spec.roles.items()
    }
    return replace(
        spec,
        command=_mask_command(spec.command, mask),
        env=_mask_values(spec.env, spec, mask),
        container_env=_mask_values(spec.container_env, spec, mask),
        params=_mask_values(spec.params, spec, mask),
        roles=roles,
        scheduler_settings=_mask_settings(spec.scheduler_settings, spec),
        notify=_mask_notify(spec.notify),
    )


def build_mask(spec: JobSpec) -> SecretMask:
    """Build the mask of all secrets that the job itself holds."""
    tables = [spec.env, spec.container_env, spec.params, *(role.env for role in spec.roles.values())]
    roles = [settings for role in spec.roles.values() for settings in role.scheduler_settings.values()]
    for settings in (spec.scheduler_settings, *roles):
        tables.append({name: value for name, value in settings.items() if isinstance(value, str)})
        others = [value for value in settings.values() if not isinstance(value, str)]
        tables += [{name: value} for name, value in _find_variables(others)]
    return SecretMask(set().union(*(find_secrets(table, spec.secret) for table in tables)))


def _mask_notify(notify: Notify) -> Notify:
    if notify.webhook is None and notify.secret is None:
        return notify
    webhook, secret = (value if value is None else mask_value(value) for value in (notify.webhook, notify.secret))
    return replace(notify, webhook=webhook, secret=secret)


def _mask_settings(settings: Mapping[str, SettingValue], spec: JobSpec) -> dict[str, SettingValue]:
    return {
        name: mask_secret(name, value) if isinstance(value, str) else mask_variables(value, spec.secret)
        for name, value in settings.items()
    }


def mask_variables(value: Any, named: Collection[str] = ()) -> Any:
    """Return a value of a scheduler's setting for display, with its secrets masked.

    Args:
        named: names that the job itself declares as secret.
    """
    return _change_texts(value, lambda name, text: mask_secret(name, text, named))


def _find_variables(value: Any) -> Sequence[tuple[str, str]]:
    """Return each text in a value of a scheduler's setting, with its name."""
    found: list[tuple[str, str]] = []

    def add(name: str, text: str) -> str:
        found.append((name, text))
        return text

    _change_texts(value, add)
    return found


def _change_texts(value: Any, change: Callable[[str, str], str], name: str = "") -> Any:
    """Return a value of a scheduler's setting with each of its texts changed.

    Args:
        change: gets the name of a text, and the text. The name is that of the variable in a table with `name` and
            `value`, of the option in a list of arguments, else the key; empty for references such as `secretName`.
    """
    if isinstance(value, str):
        return change(name, value)
    if isinstance(value, Mapping):
        return {key: _change_texts(item, change, _get_text_name(value, key)) for key, item in value.items()}
    if not isinstance(value, list | tuple):
        return value
    changed, option = [], ""
    for item in value:
        if isinstance(item, str) and (match := _OPTION.fullmatch(item)):
            option = match["name"].replace("-", "_")
            if match["text"] is None:
                changed.append(item)
            else:
                changed.append(f"{match['option']}={change(option, match['text'])}")
                option = ""
        else:
            changed.append(_change_texts(item, change, option))
            option = ""
    return type(value)(changed)


def _get_text_name(table: Mapping[str, Any], key: str) -> str:
    if key == "value" and isinstance(table.get("name"), str):
        return str(table["name"])
    return "" if _REFERENCE.fullmatch(key) else key


def _mask_values(values: Mapping[str, str], spec: JobSpec, mask: SecretMask) -> dict[str, str]:
    return {name: mask.hide_text(mask_secret(name, value, spec.secret)) for name, value in values.items()}


def _mask_command(command: Command | None, mask: SecretMask) -> Command | None:
    if command is None or isinstance(command, str):
        return command and mask.hide_text(command)
    return tuple(map(mask.hide_text, command))
