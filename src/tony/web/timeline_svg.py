"""A job's timeline as a picture: a lane for each task, or for several together where there are many.

The picture is SVG without styles of its own: colours are the style sheet's, by class. Where a lane stands for several
tasks, what matters most of what they do is shown, so that one death among ten thousand is seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from tony.dataclass import dataclass, replace
from tony.history.timeline import Mark, MarkerKind, SessionSpan, Span, TaskPhase, Timeline
from tony.units import format_duration
from tony.web.page_text import plain

#: Lanes at most, and how many may be there with room for a label each.
LANES, LABELLED = 240, 48
#: Units of the picture's width: all of the time.
WIDTH = 1000
_LANE, _THIN, _TOP, _BOTTOM = 20, 2, 26, 22
#: What of several tasks is shown: the later it stands, the more it matters.
_RANK = (
    TaskPhase.IDLE,
    TaskPhase.RUNNING,
    TaskPhase.STOPPING,
    TaskPhase.RENDEZVOUS,
    TaskPhase.SET_UP,
    TaskPhase.WAITING,
)
_DIED = len(_RANK) + 1
_CLASSES = ("", *(f"t-{what.value}" for what in _RANK), "t-died")
_RUN = re.compile(rb"(.)\1*", re.DOTALL)
#: What the colours mean, in the order of a task's life.
LEGEND = (
    (TaskPhase.WAITING, "waiting for a container"),
    (TaskPhase.SET_UP, "set-up"),
    (TaskPhase.RENDEZVOUS, "waiting for the others"),
    (TaskPhase.RUNNING, "running"),
    (TaskPhase.STOPPING, "stopping"),
    (TaskPhase.IDLE, "over, container still held"),
)
_SIGNS = {
    MarkerKind.FAILURE: ("failure", "✕"),
    MarkerKind.DEATH: ("died", "✕"),
    MarkerKind.RESTART: ("restart", "↻"),
    MarkerKind.ATTEMPT: ("attempt", "⇄"),
    MarkerKind.COMMAND: ("command", "!"),
    MarkerKind.CHECKPOINT: ("checkpoint", "◆"),
}
#: Signs of one kind that a row has at most, and those of one kind in all rows; each stands for a stretch of time.
_MOST_SIGNS = 100
_ALL_SIGNS = 2_400
#: Bars of a picture; of more spans it has paths of pixels.
_MOST_BARS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineLane:
    """A row of the picture.

    Attributes:
        label: `worker:0`, or `worker:0 – 24`.
        task: whose it is; empty for several.
        y, height: in pixels.
    """

    label: str
    task: str
    role: str
    first: int
    last: int
    y: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """The picture.

    Attributes:
        picture: the lanes, sessions, marks and the axis; as wide as there is room.
        labels: names beside the lanes: of each, or of each role where they are too thin.
        per_lane: tasks that a lane stands for.
        shown: which of `LEGEND` there is anything of, and of which signs.
        said: the picture in a sentence or two.
    """

    picture: Markup
    labels: tuple[TimelineLane, ...]
    height: int
    per_lane: int
    shown: frozenset[str]
    said: str


def draw(line: Timeline, since: float = 0.0, until: float | None = None) -> Drawing:
    """Draws it.

    Args:
        since, until: the part that is shown, seconds since the job was accepted; all of it if nothing is said.
    """
    until = max(line.until if until is None else until, since + 0.001)
    scale = _Scale(since, until)
    tasks = list(line.by_task())
    per_lane = -(-len(tasks) // LANES) if tasks else 1
    height = _LANE if len(tasks) <= LABELLED else max(_THIN, min(8, 480 / max(1, -(-len(tasks) // per_lane))))
    lanes = _lanes([name for name, _ in tasks], per_lane, height)
    died = _deaths(line)
    single = per_lane == 1 and len(tasks) <= LABELLED
    spans = dict(tasks)
    barred = single and len(line.spans) <= _MOST_BARS
    if barred:
        bars = [_bars(lane, spans[lane.task], died.get(lane.task, ()), scale) for lane in lanes]
        inner = Markup("").join(bars)
    else:
        names = [name for name, _ in tasks]
        groups = [[(name, spans[name]) for name in names[lane.first : lane.last + 1]] for lane in lanes]
        inner = _paths(groups, died, scale)
    bottom = _TOP + sum(lane.height for lane in lanes)
    whole = round(bottom + _BOTTOM)
    shown = {span.what.value for _, each in tasks for span in each}
    signs = Markup("").join(_signs(line, lanes, scale, bottom, single=single, shown=shown))
    return Drawing(
        picture=Markup("{}{}{}{}").format(
            _sessions(line, scale, bottom), _framed(inner, lanes, bottom, barred=barred), signs, _axis(scale, bottom)
        ),
        labels=_labels(lanes, single=single),
        height=whole,
        per_lane=per_lane,
        shown=frozenset(shown),
        said=_said(line),
    )


class _Scale:
    def __init__(self, since: float, until: float) -> None:
        self.since, self.until = since, until

    def at(self, seconds: float) -> float:
        """0 to 1."""
        return min(1.0, max(0.0, (seconds - self.since) / (self.until - self.since)))

    def percent(self, seconds: float) -> str:
        return f"{100 * self.at(seconds):.3f}".rstrip("0").rstrip(".") + "%"

    def cuts(self, span: Span) -> bool:
        return span.until > self.since and span.since < self.until

    def holds(self, mark: Mark) -> bool:
        return self.since <= mark.at <= self.until


def _lanes(tasks: Sequence[str], per_lane: int, height: float) -> list[TimelineLane]:
    """Never tasks of two roles in one of them."""
    made: list[TimelineLane] = []
    at = 0
    while at < len(tasks):
        role = tasks[at].rpartition(":")[0]
        last = at
        while last + 1 < len(tasks) and last + 1 < at + per_lane and tasks[last + 1].rpartition(":")[0] == role:
            last += 1
        alone = last == at
        numbers = tasks[last].rpartition(":")[2]
        label = tasks[at] if alone else f"{tasks[at]} – {numbers}"
        y = _TOP + len(made) * height
        task = tasks[at] if alone else ""
        made.append(TimelineLane(label=label, task=task, role=role, first=at, last=last, y=y, height=height))
        at = last + 1
    return made


def _labels(lanes: Sequence[TimelineLane], *, single: bool) -> tuple[TimelineLane, ...]:
    if single:
        return tuple(lanes)
    made: list[TimelineLane] = []
    for lane in lanes:
        if made and made[-1].role == lane.role:
            known = made[-1]
            made[-1] = replace(known, last=lane.last, height=known.height + lane.height)
        else:
            made.append(replace(lane, label=lane.role, task=""))
    return tuple(made)


def _deaths(line: Timeline) -> dict[str, list[float]]:
    """Task -> when it failed or its container went away."""
    found: dict[str, list[float]] = {}
    for mark in line.marks:
        if mark.what in (MarkerKind.FAILURE, MarkerKind.DEATH) and mark.task:
            found.setdefault(mark.task, []).append(mark.at)
    return found


# --- few tasks: a bar for each span -----------------------------------------------------------------------------------


def _bars(lane: TimelineLane, spans: Iterable[Span], died: Iterable[float], scale: _Scale) -> Markup:
    made = [
        Markup('<rect class="t-{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>').format(
            span.what.value,
            scale.percent(span.since),
            lane.y + 4,
            f"{max(0.15, 100 * (scale.at(span.until) - scale.at(span.since))):.3f}%",
            lane.height - 8,
            _title(span),
        )
        for span in spans
        if span.what is not TaskPhase.GONE and scale.cuts(span)
    ]
    made += [
        Markup('<line class="t-died" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
            scale.percent(at), scale.percent(at), lane.y + 1, lane.y + lane.height - 1
        )
        for at in {int(scale.at(at) * WIDTH): at for at in died if scale.since <= at <= scale.until}.values()
    ]
    return Markup("").join(made)


def _title(span: Span) -> str:
    words = f"{span.task}: {dict(LEGEND).get(span.what, span.what.value)}, {format_duration(span.seconds)}"
    session = f", session {span.session}" if span.session else ""
    note = f" ({plain(span.note)})" if span.note else ""
    return f"{words}{session}, from {format_duration(span.since)} to {format_duration(span.until)}{note}"


# --- many: a path for each state --------------------------------------------------------------------------------------


def _paths(
    groups: Iterable[Sequence[tuple[str, Sequence[Span]]]], died: dict[str, list[float]], scale: _Scale
) -> Markup:
    ranks = {what: number for number, what in enumerate(_RANK, start=1)}
    paths: dict[int, list[str]] = {}
    factor = WIDTH / (scale.until - scale.since)
    for number, group in enumerate(groups):
        pieces = sorted(
            (ranks[span.what], int((span.since - scale.since) * factor), int((span.until - scale.since) * factor) + 1)
            for _, spans in group
            for span in spans
            if span.what in ranks and scale.cuts(span)
        )
        row = bytearray(WIDTH)
        for rank, left, right in pieces:
            left, right = max(0, left), min(WIDTH, right)
            row[left:right] = bytes((rank,)) * (right - left)
        for task, _ in group:
            for at in died.get(task, ()):
                left = min(WIDTH - 4, max(0, int((at - scale.since) * factor)))
                row[left : left + 4] = bytes((_DIED,)) * 4
        for match in _RUN.finditer(row):
            left, right = match.span()
            if row[left]:
                paths.setdefault(row[left], []).append(f"M{left} {number}.5h{right - left}")
    return Markup("").join(
        Markup('<path class="{}" d="{}"/>').format(_CLASSES[rank], Markup("".join(found)))
        for rank, found in sorted(paths.items())
    )


def _framed(inner: Markup, lanes: Sequence[TimelineLane], bottom: float, *, barred: bool) -> Markup:
    if barred or not lanes:
        return inner
    frame = '<svg class="lanes" x="0" y="{}" width="100%" height="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">'
    return Markup(frame + "{}</svg>").format(_TOP, bottom - _TOP, WIDTH, len(lanes), inner)


# --- around them ------------------------------------------------------------------------------------------------------


def _sessions(line: Timeline, scale: _Scale, bottom: float) -> Markup:
    """A band for each session, its number above."""
    made: list[Markup] = []
    told = -1.0
    bands: dict[int, SessionSpan] = {}
    for session in line.sessions:
        if session.until >= scale.since and session.since <= scale.until:
            bands[int(scale.at(session.since) * WIDTH)] = session
    for session in bands.values():
        left, right = scale.at(session.since), scale.at(session.until)
        odd = "odd" if session.number % 2 else "even"
        made.append(
            Markup('<rect class="session {}" x="{}" y="16" width="{}" height="{}"/>').format(
                odd, scale.percent(session.since), f"{100 * (right - left):.3f}%", bottom - 16
            )
        )
        if left - told > 0.04 and (right - left > 0.03 or session.number > 1):
            told = left
            word = "session " if right - left > 0.12 else ""
            made.append(
                Markup('<text class="session" x="{}" y="11" dx="2">{}{}</text>').format(
                    f"{100 * min(left, 0.97):.3f}%", word, session.number
                )
            )
    return Markup("").join(made)


def _signs(
    line: Timeline, lanes: Sequence[TimelineLane], scale: _Scale, bottom: float, *, single: bool, shown: set[str]
) -> Iterable[Markup]:
    """A sign for what happened in each stretch of time, at the newest of it: however much that is."""
    places = {lane.task: lane for lane in lanes if lane.task} if single else {}
    stretches = min(_MOST_SIGNS, _ALL_SIGNS // max(1, len(places)))
    bins: dict[tuple[MarkerKind, str, int], list[Mark]] = {}
    for mark in line.marks:
        if scale.holds(mark):
            shown.add(_SIGNS[mark.what][0])
            task = mark.task if mark.task in places else ""
            most = stretches if task else _MOST_SIGNS
            bins.setdefault((mark.what, task, int(scale.at(mark.at) * most)), []).append(mark)
    for (what, task, _), marks in bins.items():
        mark = max(marks, key=lambda each: each.at)
        name, sign = _SIGNS[what]
        x = scale.percent(mark.at)
        note = plain(mark.note)
        said = f"{what.value} at {format_duration(mark.at)}{': ' if note else ''}{note}"
        if len(marks) > 1:
            said += f" (the last of {len(marks)} since {format_duration(min(each.at for each in marks))})"
        if what in (MarkerKind.RESTART, MarkerKind.ATTEMPT) and not mark.task:
            yield Markup('<line class="m-{}" x1="{}" x2="{}" y1="14" y2="{}"><title>{}</title></line>').format(
                name, x, x, bottom, said
            )
        elif task:
            y = places[task].y + places[task].height / 2 + 4
            yield Markup('<text class="m-{}" x="{}" y="{}"><title>{}</title>{}</text>').format(name, x, y, said, sign)
        elif what is not MarkerKind.CHECKPOINT:
            yield Markup('<text class="m-{}" x="{}" y="{}"><title>{}</title>{}</text>').format(
                name, x, bottom + 4, said, sign
            )


def _axis(scale: _Scale, bottom: float) -> Markup:
    """Four to eight round numbers; where there is little room, every other one."""
    length = scale.until - scale.since
    step = next((step for step in _STEPS if length / step <= 8), length / 6)
    first = int(scale.since / step) * step
    made = [Markup('<line class="axis" x1="0" x2="100%" y1="{}" y2="{}"/>').format(bottom, bottom)]
    at = first if first >= scale.since else first + step
    while at <= scale.until:
        share = scale.at(at)
        place = "start" if share < 0.04 else "end" if share > 0.96 else "middle"
        place += " other" if len(made) % 2 == 0 else ""
        made.append(
            Markup(
                '<line class="grid" x1="{}" x2="{}" y1="16" y2="{}"/><text class="axis {}" x="{}" y="{}">{}</text>'
            ).format(scale.percent(at), scale.percent(at), bottom, place, scale.percent(at), bottom + 15, _moment(at))
        )
        at += step
    return Markup("").join(made)


_STEPS = (
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600,
    43200, 86400, 172800, 604800,
)  # fmt: skip


def _moment(seconds: float) -> str:
    """`12 s`, `1 m 15 s`, `1 h 30 m`: what is not 0 of it."""
    if seconds < 60:
        return f"{round(seconds, 2):g} s"
    whole = round(seconds)
    parts = ((whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "m"), (whole % 60, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number)


def _said(line: Timeline) -> str:
    tasks = sum(1 for _ in line.by_task())
    sessions = len(line.sessions)
    counts = {what: sum(mark.what is what for mark in line.marks) for what in MarkerKind}
    words = [
        f"{number} {word}{'' if number == 1 else 's'}"
        for number, word in (
            (counts[MarkerKind.FAILURE], "failure"),
            (counts[MarkerKind.DEATH], "death"),
            (counts[MarkerKind.RESTART], "restart"),
            (counts[MarkerKind.CHECKPOINT], "checkpoint"),
        )
        if number
    ]
    began = (
        f" The first program started after {format_duration(line.began)}."
        if line.began is not None
        else " No program has started."
    )
    told = f"; {', '.join(words)}" if words else ""
    many = f"{tasks} task{'' if tasks == 1 else 's'} over {format_duration(line.until)}"
    return f"{many}, {sessions} session{'' if sessions == 1 else 's'}{told}.{began}"
