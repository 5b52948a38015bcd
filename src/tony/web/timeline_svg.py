"""Draw a job's timeline as SVG, and cache the drawings: one lane per task, or per group of tasks if there are many.

The SVG has no styles; the style sheet sets colours by class. A lane of several tasks shows the most important phase of
any of them, so that one failure among ten thousand tasks is visible.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from tony import control_characters
from tony.history.timeline import Mark, MarkerKind, SessionSpan, Span, TaskPhase, Timeline
from tony.history.timeline_drawing import PHASE_TEXTS, TimeScale, divide_into_lanes
from tony.jobs.directory.view import DirectoryJobView
from tony.linux.thread_pools import to_thread
from tony.units import format_count, format_duration

#: Maximum number of lanes.
MAX_LANES = 240
#: Maximum number of lanes with a label each.
MAX_LABELLED_LANES = 48
#: Width of the picture, in units.
WIDTH = 1000
_LANE_HEIGHT = 20
_MIN_LANE_HEIGHT = 2
_TOP_MARGIN = 26
_BOTTOM_MARGIN = 22
#: Phases in ascending importance: of several tasks in a lane, the most important phase is shown.
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
_SIGNS = {
    MarkerKind.FAILURE: ("failure", "✕"),
    MarkerKind.DEATH: ("died", "✕"),
    MarkerKind.RESTART: ("restart", "↻"),
    MarkerKind.ATTEMPT: ("attempt", "⇄"),
    MarkerKind.STALL: ("stall", "‖"),
    MarkerKind.COMMAND: ("command", "!"),
    MarkerKind.CHECKPOINT: ("checkpoint", "◆"),
}
#: Maximum number of signs of one kind per lane and in all lanes; each stands for a time interval.
_MAX_SIGNS_PER_LANE = 100
_MAX_SIGNS = 2_400
#: Maximum number of round times on the axis.
_MAX_TICKS = 8
#: Maximum number of spans drawn as bars; more are drawn as one path per phase.
_MAX_BARS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineLane:
    """A row of the picture.

    Attributes:
        label: `worker:0`, or `worker:0 – 24`.
        task: the task; empty for a lane of several.
        first: index of its first task.
        last: index of its last task.
        y: in pixels.
        height: in pixels.
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
    """A timeline as SVG, with its labels and a summary.

    Attributes:
        picture: lanes, sessions, markers and the axis, at the full width of their container.
        labels: names next to the lanes: one per lane, or one per role if lanes are too thin.
        per_lane: number of tasks per lane.
        shown: phases and kinds of signs that occur in the picture.
        summary: the picture in one or two sentences.
    """

    picture: Markup
    labels: tuple[TimelineLane, ...]
    height: int
    per_lane: int
    shown: frozenset[str]
    summary: str


def draw(line: Timeline, since: float = 0.0, until: float | None = None) -> Drawing:
    """Draw a timeline.

    Args:
        since: start of the time range, in seconds since the job was accepted.
        until: end of the time range; None: the end of the timeline.
    """
    until = max(line.until if until is None else until, since + 0.001)
    scale = _PixelScale(since, until)
    tasks = list(line.group_by_task())
    per_lane = -(-len(tasks) // MAX_LANES) if tasks else 1
    thin_height = max(_MIN_LANE_HEIGHT, min(8, 480 / max(1, -(-len(tasks) // per_lane))))
    height = _LANE_HEIGHT if len(tasks) <= MAX_LABELLED_LANES else thin_height
    lanes = [
        TimelineLane(
            label=lane.label(" – "),
            task=lane.tasks[0] if len(lane.tasks) == 1 else "",
            role=lane.role,
            first=lane.first,
            last=lane.last,
            y=_TOP_MARGIN + number * height,
            height=height,
        )
        for number, lane in enumerate(divide_into_lanes([name for name, _ in tasks], per_lane))
    ]
    died = _find_deaths(line)
    single = per_lane == 1 and len(tasks) <= MAX_LABELLED_LANES
    spans = dict(tasks)
    has_bars = single and len(line.spans) <= _MAX_BARS
    if has_bars:
        bars = [_draw_bars(lane, spans[lane.task], died.get(lane.task, ()), scale) for lane in lanes]
        inner = Markup("").join(bars)
    else:
        names = [name for name, _ in tasks]
        groups = [[(name, spans[name]) for name in names[lane.first : lane.last + 1]] for lane in lanes]
        inner = _draw_paths(groups, died, scale)
    bottom = _TOP_MARGIN + sum(lane.height for lane in lanes)
    whole = round(bottom + _BOTTOM_MARGIN)
    shown = {span.what.value for _, each in tasks for span in each}
    signs = Markup("").join(_draw_signs(line, lanes, scale, bottom, single=single, shown=shown))
    return Drawing(
        picture=Markup("{}{}{}{}").format(
            _draw_sessions(line, scale, bottom),
            _draw_frame(inner, lanes, bottom, has_bars=has_bars),
            signs,
            _draw_axis(scale, bottom),
        ),
        labels=_build_labels(lanes, single=single),
        height=whole,
        per_lane=per_lane,
        shown=frozenset(shown),
        summary=_summarize(line),
    )


class _PixelScale(TimeScale):
    def format_percent(self, seconds: float) -> str:
        return f"{100 * self.find_position(seconds):.3f}".rstrip("0").rstrip(".") + "%"

    def overlaps(self, span: Span) -> bool:
        return span.until > self.since and span.since < self.until

    def contains(self, mark: Mark) -> bool:
        return self.since <= mark.at <= self.until


def _build_labels(lanes: Sequence[TimelineLane], *, single: bool) -> tuple[TimelineLane, ...]:
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


def _find_deaths(line: Timeline) -> dict[str, list[float]]:
    """Return for each task the times at which it failed or lost its container."""
    found: dict[str, list[float]] = {}
    for mark in line.marks:
        if mark.what in (MarkerKind.FAILURE, MarkerKind.DEATH) and mark.task:
            found.setdefault(mark.task, []).append(mark.at)
    return found


# --- few tasks: one bar per span --------------------------------------------------------------------------------------


def _draw_bars(lane: TimelineLane, spans: Iterable[Span], died: Iterable[float], scale: _PixelScale) -> Markup:
    made = [
        Markup('<rect class="t-{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>').format(
            span.what.value,
            scale.format_percent(span.since),
            lane.y + 4,
            f"{max(0.15, 100 * (scale.find_position(span.until) - scale.find_position(span.since))):.3f}%",
            lane.height - 8,
            _format_title(span),
        )
        for span in spans
        if span.what is not TaskPhase.NO_CONTAINER and scale.overlaps(span)
    ]
    made += [
        Markup('<line class="t-died" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
            scale.format_percent(at), scale.format_percent(at), lane.y + 1, lane.y + lane.height - 1
        )
        for at in {int(scale.find_position(at) * WIDTH): at for at in died if scale.since <= at <= scale.until}.values()
    ]
    return Markup("").join(made)


def _format_title(span: Span) -> str:
    words = f"{span.task}: {PHASE_TEXTS.get(span.what, span.what.value)}, {format_duration(span.seconds)}"
    session = f", session {span.session}" if span.session else ""
    note = f" ({control_characters.escape(span.note)})" if span.note else ""
    return f"{words}{session}, from {format_duration(span.since)} to {format_duration(span.until)}{note}"


# --- many tasks: one path per phase -----------------------------------------------------------------------------------


def _draw_paths(
    groups: Iterable[Sequence[tuple[str, Sequence[Span]]]], died: dict[str, list[float]], scale: _PixelScale
) -> Markup:
    ranks = {what: number for number, what in enumerate(_RANK, start=1)}
    paths: dict[int, list[str]] = {}
    factor = WIDTH / (scale.until - scale.since)
    for number, group in enumerate(groups):
        pieces = sorted(
            (ranks[span.what], int((span.since - scale.since) * factor), int((span.until - scale.since) * factor) + 1)
            for _, spans in group
            for span in spans
            if span.what in ranks and scale.overlaps(span)
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


def _draw_frame(inner: Markup, lanes: Sequence[TimelineLane], bottom: float, *, has_bars: bool) -> Markup:
    if has_bars or not lanes:
        return inner
    frame = '<svg class="lanes" x="0" y="{}" width="100%" height="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">'
    return Markup(frame + "{}</svg>").format(_TOP_MARGIN, bottom - _TOP_MARGIN, WIDTH, len(lanes), inner)


# --- sessions, signs and axis -----------------------------------------------------------------------------------------


def _draw_sessions(line: Timeline, scale: _PixelScale, bottom: float) -> Markup:
    """Draw a band for each session, with its number above."""
    made: list[Markup] = []
    last_label_at = -1.0
    bands: dict[int, SessionSpan] = {}
    for session in line.sessions:
        if session.until >= scale.since and session.since <= scale.until:
            bands[int(scale.find_position(session.since) * WIDTH)] = session
    for session in bands.values():
        left, right = scale.find_position(session.since), scale.find_position(session.until)
        odd = "odd" if session.number % 2 else "even"
        made.append(
            Markup('<rect class="session {}" x="{}" y="16" width="{}" height="{}"/>').format(
                odd, scale.format_percent(session.since), f"{100 * (right - left):.3f}%", bottom - 16
            )
        )
        if left - last_label_at > 0.04 and (right - left > 0.03 or session.number > 1):
            last_label_at = left
            word = "session " if right - left > 0.12 else ""
            made.append(
                Markup('<text class="session" x="{}" y="11" dx="2">{}{}</text>').format(
                    f"{100 * min(left, 0.97):.3f}%", word, session.number
                )
            )
    return Markup("").join(made)


def _draw_signs(
    line: Timeline, lanes: Sequence[TimelineLane], scale: _PixelScale, bottom: float, *, single: bool, shown: set[str]
) -> Iterable[Markup]:
    """Draw one sign per kind, lane and time interval, at the newest marker of the interval."""
    places = {lane.task: lane for lane in lanes if lane.task} if single else {}
    intervals = min(_MAX_SIGNS_PER_LANE, _MAX_SIGNS // max(1, len(places)))
    bins: dict[tuple[MarkerKind, str, int], list[Mark]] = {}
    for mark in line.marks:
        if scale.contains(mark):
            shown.add(_SIGNS[mark.what][0])
            task = mark.task if mark.task in places else ""
            most = intervals if task else _MAX_SIGNS_PER_LANE
            bins.setdefault((mark.what, task, int(scale.find_position(mark.at) * most)), []).append(mark)
    for (what, task, _), marks in bins.items():
        mark = max(marks, key=lambda each: each.at)
        name, sign = _SIGNS[what]
        x = scale.format_percent(mark.at)
        note = control_characters.escape(mark.note)
        title = f"{what.value} at {format_duration(mark.at)}{': ' if note else ''}{note}"
        if len(marks) > 1:
            title += f" (latest of {len(marks)} since {format_duration(min(each.at for each in marks))})"
        if what in (MarkerKind.RESTART, MarkerKind.ATTEMPT) and not mark.task:
            yield Markup('<line class="m-{}" x1="{}" x2="{}" y1="14" y2="{}"><title>{}</title></line>').format(
                name, x, x, bottom, title
            )
        elif task:
            y = places[task].y + places[task].height / 2 + 4
            yield Markup('<text class="m-{}" x="{}" y="{}"><title>{}</title>{}</text>').format(name, x, y, title, sign)
        elif what is not MarkerKind.CHECKPOINT:
            yield Markup('<text class="m-{}" x="{}" y="{}"><title>{}</title>{}</text>').format(
                name, x, bottom + 4, title, sign
            )


def _draw_axis(scale: _PixelScale, bottom: float) -> Markup:
    """Draw the time axis with four to eight round numbers; CSS hides every other one on small screens."""
    made = [Markup('<line class="axis" x1="0" x2="100%" y1="{}" y2="{}"/>').format(bottom, bottom)]
    for at in scale.ticks(_MAX_TICKS):
        share = scale.find_position(at)
        place = "start" if share < 0.04 else "end" if share > 0.96 else "middle"
        place += " other" if len(made) % 2 == 0 else ""
        made.append(
            Markup(
                '<line class="grid" x1="{}" x2="{}" y1="16" y2="{}"/><text class="axis {}" x="{}" y="{}">{}</text>'
            ).format(
                scale.format_percent(at),
                scale.format_percent(at),
                bottom,
                place,
                scale.format_percent(at),
                bottom + 15,
                _format_moment(at),
            )
        )
    return Markup("").join(made)


def _format_moment(seconds: float) -> str:
    """Format a time without zero parts: `12 s`, `1 m 15 s`, `1 h 30 m`."""
    if seconds < 60:
        return f"{round(seconds, 2):g} s"
    whole = round(seconds)
    parts = ((whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "m"), (whole % 60, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number)


def _summarize(line: Timeline) -> str:
    tasks = sum(1 for _ in line.group_by_task())
    sessions = len(line.sessions)
    counts = {what: sum(mark.what is what for mark in line.marks) for what in MarkerKind}
    words = [
        format_count(number, word)
        for number, word in (
            (counts[MarkerKind.FAILURE], "failure"),
            (counts[MarkerKind.DEATH], "death"),
            (counts[MarkerKind.RESTART], "restart"),
            (counts[MarkerKind.CHECKPOINT], "checkpoint"),
        )
        if number
    ]
    first_start = (
        f" The first task started after {format_duration(line.first_start)}."
        if line.first_start is not None
        else " No task has started."
    )
    counted = f"; {', '.join(words)}" if words else ""
    length = f"{format_count(tasks, 'task')} over {format_duration(line.until)}"
    return f"{length}, {format_count(sessions, 'session')}{counted}.{first_start}"


#: Cached pictures, and spans and markers of their timelines, each of which takes some 150 bytes.
_MAX_PICTURES = 32
_MAX_PARTS = 100_000
_Key = tuple[str, float, float | None]


class SvgCache:
    """The most recently used pictures, by job and time range."""

    def __init__(self) -> None:
        self._known: OrderedDict[_Key, tuple[Timeline, Drawing]] = OrderedDict()

    def has(self, job: str) -> bool:
        """Return True if a picture of the job is cached."""
        return any(key[0] == job for key in self._known)

    async def load_drawing(
        self, view: DirectoryJobView, since: float, until: float | None
    ) -> tuple[Timeline, Drawing] | None:
        """Return a job's timeline and its picture, drawn if needed; None if the job's events were not kept."""
        line = await view.timeline()
        if line is None:
            return None
        if not 0 <= since < (line.until if until is None else until):
            since, until = 0.0, None
        key = (view.id, since, until)
        known = self._known.get(key)
        if known is None or known[0] is not line:
            known = line, await to_thread(draw, line, since, until)
            self._known[key] = known
        self._known.move_to_end(key)
        spare = _MAX_PARTS - sum(_count_parts(line) for line, _ in self._known.values())
        while len(self._known) > 1 and (len(self._known) > _MAX_PICTURES or spare < 0):
            _, (oldest, _) = self._known.popitem(last=False)
            spare += _count_parts(oldest)
        return known


def _count_parts(line: Timeline) -> int:
    return len(line.spans) + len(line.marks)
