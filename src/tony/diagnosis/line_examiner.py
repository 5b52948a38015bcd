"""Finds the lines of one stream that rules match, and what a traceback says about its exception."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from posixpath import basename

from tony.diagnosis.library_files import is_library_file
from tony.diagnosis.line_rules import LineRules, find_rule, find_words_rule, get_rule, may_be_error
from tony.diagnosis.rule import Rule
from tony.diagnosis.rule_match import RuleMatch
from tony.diagnosis.rules.programs import LAST_LINE
from tony.model.diagnosis import FailureKind, LineMeaning

_TRACEBACK = b"Traceback (most recent call last)"
#: Between two tracebacks of one chain; what follows is the exception that the first one led to.
_RAISED_WHILE_HANDLING = b"During handling of the above exception"
_CHAINED = (_RAISED_WHILE_HANDLING, b"The above exception was the direct cause")
#: Exceptions by which a program finds out that something is missing, and continues.
_LOOKUP = re.compile(r"(KeyError|IndexError|AttributeError|StopIteration|ImportError|ModuleNotFoundError|Empty)\b")
#: In front of the lines of an exception group.
_GROUP = re.compile(rb"^ +(?:[|] ?|[+] (?=Exception Group))")
#: A warning of Python; its next line is the source line.
_WARNING = re.compile(rb"\w:\d+: \w*Warning: ")
#: A line in front of a traceback: the program caught and logged that exception, or it was raised in a finalizer.
_CAUGHT = re.compile(rb"\b(ERROR|CRITICAL|EXCEPTION|FATAL)\b|^Exception ignored ")
#: The last line of a traceback: a class in a module, or with the name of one; lines of other processes may be between.
_EXCEPTION = re.compile(
    rb"^(?:(?:[A-Za-z_]\w*\.)+\w+|[A-Z]\w*(?=:)|\w*(?:Error|Exception|Interrupt|Exit|Warning|Iteration|Empty|Full))"
    rb"(?:: .*|:)?$"
)
#: A panic of Rust; its message is on the next line.
_PANIC = re.compile(rb"thread '.*' panicked at .*:$")
#: An exception to which another one of Java led, or the beginning of the chain.
_JAVA_CAUSE = b"Caused by: "
_JAVA_RULE = "java-exception"
#: The text of a JSON record that is a traceback.
_JSON_TRACEBACK = re.compile(rb'Traceback \(most recent call last\)(?:[^"\\]|\\.)*')
#: A line that may be the message of a program that another one started.
_MESSAGE = re.compile(r"^[\w./-]+: \S")
#: Lines without an exception after which a traceback is taken for cut off.
_MAX_OTHER_LINES = 20
#: A frame of a traceback.
_FRAME = re.compile(rb'File "([^"]+)", line (\d{1,9})(?:, in (\S+))?')
#: Terminal sequences for colours and styles.
_COLOURS = re.compile(rb"\x1b\[[0-9;]*m")
#: In front of a line: what launchers add (tony, PyTorch, mpirun, Ray, srun), and vLLM to each line of a traceback.
_LABELS = re.compile(
    rb"^(?:\[(?:rank|default)?\d+\]:? ?|\[\d+,\d+\]<std(?:err|out)>:|\(\w+ pid=\d+(?:, ip=[\d.]+)?\) |\d{1,4}: |"
    rb"(?:ERROR|CRITICAL) \d\d-\d\d [\d:]{8} \[[\w.]+:\d+\] )*"
)
#: A line in a box.
_BOX = re.compile("^\N{BOX DRAWINGS LIGHT VERTICAL} +(.*?) *\N{BOX DRAWINGS LIGHT VERTICAL}$".encode())
#: Between an exception that only announces a message, such as `Graph execution error:`, and that message.
_NO_MESSAGE = re.compile(rb"$|File \"|[~^]+$|<stack traces unavailable>|.*\(most recent call last\):?$")
_MAX_LINES_TO_MESSAGE = 100
#: A line of the coordination service of JAX and TensorFlow, and those that follow it: a process by its number each.
_NAMES_FOLLOW = re.compile(r"(?:timed out task names|stopped sending heartbeats\)):\s*$")
_NAME = re.compile(rb"(?:/job:\w{1,60}/replica:\d{1,6}/task:)?\d{1,6}")
_MAX_NAMES = 20
#: Bytes of a line that are kept.
MAX_LINE_BYTES = 500
#: Lines kept from the beginning, and from the end.
_FIRST_LINES = 16
_LAST_LINES = 48


class LineExaminer:
    """Examines lines in order, and keeps the first and the last of those that rules match.

    Attributes:
        in_traceback: the next line belongs to a traceback, ends it, or may be the message of its exception.
        names_left: number of lines that may follow with names of processes.
    """

    def __init__(self, stream: str, rules: LineRules) -> None:
        self._in_frames = False
        self.names_left = 0
        self._rules = rules
        self._stream = stream
        self._is_chained = self._is_handling = self._is_logged = False
        self._before = self._source = b""
        self._before_traceback = b"", 0
        self._code_place = ""
        self._is_code = False
        self._other_lines = 0
        self._lines_to_message = 0
        self._first: list[RuleMatch] = []
        self._last: deque[RuleMatch] = deque(maxlen=_LAST_LINES)

    @property
    def in_traceback(self) -> bool:
        return self._in_frames or self._lines_to_message > 0

    @property
    def found(self) -> Sequence[RuleMatch]:
        """The found lines, oldest first."""
        return [*self._first, *self._last]

    def skip(self, line: bytes) -> None:
        """Note the line in front of the next one."""
        self._before = line
        if self.names_left > _MAX_NAMES:  # this line announces them
            self.names_left = _MAX_NAMES
        elif self.names_left:
            self._note_name(line[_LABELS.match(line).end() :])  # type: ignore[union-attr] # it matches anything

    def _note_name(self, name: bytes) -> None:
        """Add a line to the one that announces names of processes; the first other line ends these."""
        is_name = _NAME.fullmatch(name) is not None
        self.names_left = self.names_left - 1 if is_name else 0
        if is_name:
            kept = self._last or self._first
            kept[-1] = replace(kept[-1], text=f"{kept[-1].text} {name.decode()}")

    def examine(self, line: bytes, number: int, now: float) -> None:
        """Keep a line if a rule matches it.

        Args:
            number: its number in the stream, from 1.
            now: when it arrived.
        """
        line = _COLOURS.sub(b"", line)
        bare = line[_LABELS.match(line).end() :]  # type: ignore[union-attr] # it matches anything
        bare = _BOX.sub(rb"\1", _GROUP.sub(b"", bare))
        if _TRACEBACK in bare and not bare.startswith(b"{"):
            self._before_traceback = self._before, number - 1
            self._in_frames, self._other_lines, self._code_place = True, 0, ""
            self._lines_to_message = 0
            self._is_logged = not self._is_chained and _CAUGHT.search(self._before) is not None
        elif bare.startswith(_CHAINED):
            self._is_chained, self._is_handling = True, bare.startswith(_RAISED_WHILE_HANDLING)
        elif self._in_frames:
            if bare[:1] in (b" ", b"\t", b"|", b"+", b"") or bare[:1] == b"^":
                self._note_source(bare)
                return
            is_exception = _EXCEPTION.match(bare) is not None
            self._other_lines += 1
            self._in_frames = not is_exception and self._other_lines < _MAX_OTHER_LINES
            is_kept = self._keep(line, bare, number, now, is_exception=is_exception)
            announces = is_kept and is_exception and bare.rstrip().endswith(b":") and not self.names_left
            self._lines_to_message = _MAX_LINES_TO_MESSAGE if announces else 0
        elif not (bare.startswith(b"  ") and _WARNING.search(self._before)):  # the source line that warned
            if self._lines_to_message and self._add_message(bare.strip()):
                return
            if self._keep(line, bare, number, now, is_exception=False):
                self._lines_to_message = _MAX_LINES_TO_MESSAGE if _PANIC.match(bare) else 0

    def examine_record(self, line: bytes, number: int, now: float) -> None:
        """Examine a log record in JSON that has a traceback in one of its texts, as if that had lines."""
        text = _JSON_TRACEBACK.search(line)
        if text is None:
            return
        self.skip(b"ERROR")
        for piece in text[0].split(rb"\n"):
            self.examine(piece.replace(rb"\"", b'"')[:MAX_LINE_BYTES], number, now)
        self._in_frames, self._lines_to_message = False, 0

    def _add_message(self, text: bytes) -> bool:
        """Add a line to the exception in front of it, unless it belongs to a stack; return True if it was added."""
        self._lines_to_message -= 1
        if _NO_MESSAGE.match(text) or self._before.lstrip().startswith(b'File "'):
            return False
        self._lines_to_message = 0
        kept = self._last or self._first
        whole = f"{kept[-1].text.rstrip()} {text.decode(errors='replace')}"[:MAX_LINE_BYTES]
        kept[-1] = replace(kept[-1], text=whole, rule=self._rules.find(whole) or kept[-1].rule)
        return True

    def _note_source(self, bare: bytes) -> None:
        """Remember the source line of the innermost frame, and the innermost place in the user's code with its line."""
        text = bare.strip()
        frame = _FRAME.match(text)
        is_source = text and not text.startswith((b"File ", b"^", b"~", b"+", b"|"))
        if is_source and self._is_code:
            self._code_place += f": {text.decode(errors='replace')}"
        self._is_code = False
        if frame and not is_library_file(path := frame[1].decode(errors="replace")):
            function = f" in {frame[3].decode(errors='replace')}" if frame[3] and frame[3] != b"<module>" else ""
            self._code_place = f"{basename(path)}:{int(frame[2])}{function}"
            self._is_code = True
        if is_source:
            self._source = text

    def _keep(self, line: bytes, bare: bytes, number: int, now: float, *, is_exception: bool) -> bool:
        """Keep a line if a rule matches it; return True if one does."""
        text = line.decode(errors="replace").rstrip()
        rule = self._rules.find(bare.decode(errors="replace").rstrip())
        if rule is None and is_exception:
            rule = find_rule("Exception")  # a class with any name ends a traceback
        if rule is None:
            return False
        follows = is_exception and self._is_chained
        if follows and self._is_handling and not self._source.startswith(b"raise"):
            follows = not self._replace_lookup()
        elif follows and not self._is_handling and rule.meaning is LineMeaning.CAUSE:
            follows = not self._explains_last(rule, text)
        if is_exception:
            self._is_chained = self._is_handling = False
        if is_exception and rule.meaning is LineMeaning.SUMMARY:
            self._keep_line_before(now)
        if bare.startswith(_JAVA_CAUSE):
            self._forget_last(_JAVA_RULE)
        place = self._code_place if is_exception else ""
        logged = is_exception and self._is_logged
        self._add(rule, text, number, now, follows=follows, logged=logged, is_exception=is_exception, place=place)
        return True

    def _keep_line_before(self, now: float) -> None:
        """Keep the line in front of a traceback that only reports that another program failed, if it says why."""
        line, number = self._before_traceback
        text, rule = line.decode(errors="replace").strip(), get_rule(LAST_LINE)
        if rule and may_be_error(text) and find_rule(text) is None and (_MESSAGE.match(text) or find_words_rule(text)):
            self._add(rule, text, number, now)

    def _add(
        self,
        rule: Rule,
        text: str,
        number: int,
        now: float,
        *,
        follows: bool = False,
        logged: bool = False,
        is_exception: bool = False,
        place: str = "",
    ) -> None:
        found = RuleMatch(
            stream=self._stream,
            number=number,
            at=now,
            text=text,
            rule=rule,
            follows=follows,
            was_caught=logged,
            is_exception=is_exception,
            code_place=place,
        )
        if _NAMES_FOLLOW.search(text):
            self.names_left = _MAX_NAMES + 1
        if len(self._first) < _FIRST_LINES:
            self._first.append(found)
        else:
            self._last.append(found)

    def _forget_last(self, rule: str) -> None:
        kept = self._last or self._first
        if kept and kept[-1].rule.name == rule:
            kept.pop()

    def _explains_last(self, rule: Rule, text: str) -> bool:
        """Return True if an exception raised from the last one says more than that, which then follows from it.

        It does not if the last one says what it is of itself, or if no rule says what the explanation means.
        """
        kept = self._last or self._first
        if not kept or not kept[-1].is_exception or kept[-1].rule.meaning is not LineMeaning.CAUSE:
            return False
        if kept[-1].rule.kind is not FailureKind.USER_CODE or (rule.retry is None and find_words_rule(text) is None):
            return False
        kept[-1] = replace(kept[-1], follows=True)
        return True

    def _replace_lookup(self) -> bool:
        """Forget the last exception if it only said that something is not there; return True if it did.

        What the program did instead then failed, without raising anything itself.
        """
        kept = self._last or self._first
        if kept and _LOOKUP.match(kept[-1].text):
            kept.pop()
            return True
        return False
