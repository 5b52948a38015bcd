"""The timeline of a job as text: a row per task, or a lane for several. Pure: size and alphabet are arguments.

Each column is an interval of time and shows the phase that a task, or the tasks of a lane, spent most of it in. Markers
(failures, restarts) are drawn over the phases, so that one failure among ten thousand tasks is visible.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from tony.cli.terminal.terminal_text import count_columns, cut
from tony.control_characters import escape
from tony.history.timeline import Mark, MarkerKind, Span, TaskPhase, Timeline
from tony.history.timeline_drawing import PHASE_TEXTS, TimeScale, divide_into_lanes
from tony.model.states import JobState
from tony.units import format_count, format_duration

#: Most tasks that get a row each; with more, several share a lane.
MAX_TASK_ROWS = 50
#: Lanes of a job with more tasks.
_LANE_COUNT = 40
#: Least width of the picture, and greatest width of the names.
_MIN_PICTURE_COLUMNS = 20
_MAX_LABEL_COLUMNS = 28
#: Columns between two times of the axis.
_TICK_COLUMNS = 12
#: Markers that are listed, the last ones, and lines of each.
_MAX_MARKERS = 12
_MAX_MARKER_LINES = 6


@dataclass(frozen=True, slots=True)
class _Sign:
    """How a phase or marker is drawn.

    Attributes:
        character, ascii: with and without Unicode.
        word: its name in the legend.
    """

    character: str
    ascii: str
    colour: str
    word: str


#: What a character of the picture stands for.
_Cell = TaskPhase | MarkerKind
#: In the order of the legend; in a column with several markers the first of these is drawn.
_SIGNS: Mapping[_Cell, _Sign] = {
    **{
        phase: _Sign(*signs, PHASE_TEXTS[phase])
        for phase, signs in {
            TaskPhase.WAITING: ("·", ".", "yellow"),
            TaskPhase.SET_UP: ("▂", ":", "blue"),
            TaskPhase.RENDEZVOUS: ("▄", "-", "cyan"),
            TaskPhase.RUNNING: ("█", "#", "green"),
            TaskPhase.STOPPING: ("▓", "%", "magenta"),
            TaskPhase.IDLE: ("▁", "_", "bright_black"),
        }.items()
    },
    MarkerKind.DEATH: _Sign("✗", "X", "bright_red", "death"),
    MarkerKind.FAILURE: _Sign("!", "!", "bright_red", "failure"),
    MarkerKind.RESTART: _Sign("↻", "R", "bright_yellow", "restart"),
    MarkerKind.ATTEMPT: _Sign("⇄", "A", "bright_yellow", "new AM attempt"),
    MarkerKind.STALL: _Sign("‖", "S", "bright_yellow", "stall"),
    MarkerKind.COMMAND: _Sign("?", "?", "bright_white", "user action"),
    MarkerKind.CHECKPOINT: _Sign("◆", "C", "bright_blue", "checkpoint"),
}
#: Colours text: text, colour -> coloured text.
Paint = Callable[[str, str], str]
#: Draws a phase or marker over a number of columns.
Draw = Callable[[_Cell, int], str]


def format_timeline(
    line: Timeline,
    columns: int,
    *,
    unicode: bool = True,
    paint: Paint = lambda text, colour: text,
    tasks: frozenset[str] | None = None,
    max_task_rows: int | None = MAX_TASK_ROWS,
) -> list[str]:
    """Return the picture, the legend and the list of markers.

    Args:
        columns: width of the terminal.
        unicode: False to draw with ASCII characters only.
        paint: colours text, for terminals with colours.
        tasks: the tasks to show; None for all.
        max_task_rows: with more tasks several share a lane; None: each task has a row.
    """
    shown = {name: spans for name, spans in line.group_by_task() if tasks is None or name in tasks}
    is_single = max_task_rows is None or len(shown) <= max_task_rows
    lanes = divide_into_lanes(list(shown), 1 if is_single else -(-len(shown) // _LANE_COUNT))
    label = min(
        _MAX_LABEL_COLUMNS, max((count_columns(lane.label("-")) for lane in lanes), default=0), max(8, columns // 3)
    )
    label = max(label, len("sessions"))
    picture_columns = max(_MIN_PICTURE_COLUMNS, columns - label - 2)
    scale = _ColumnScale(0.0, line.until, picture_columns)
    marks = [mark for mark in line.marks if not mark.task or mark.task in shown]
    used: set[_Cell] = set()

    def draw(cell: _Cell, count: int) -> str:
        sign = _SIGNS.get(cell)
        return paint((sign.character if unicode else sign.ascii) * count, sign.colour) if sign else " " * count

    def format_drawn(name: str, cells: Sequence[_Cell]) -> str:
        used.update(cells)
        return f"{_pad(name, label)}  {_paint(cells, draw)}".rstrip()

    rows = [f"{' ' * label}  {text}".rstrip() for text in _draw_axis(scale, unicode=unicode)]
    if len(line.sessions) > 1:
        rows.append(f"{_pad('sessions', label)}  {_draw_sessions(line, scale)}".rstrip())
    general = [mark for mark in marks if not mark.task]
    if general:
        rows.append(format_drawn("job", _with_marks([TaskPhase.NO_CONTAINER] * picture_columns, general, scale)))
    for lane in lanes:
        lane_tasks = set(lane.tasks)
        cells = _fill_cells([span for task in lane.tasks for span in shown[task]], scale)
        rows.append(
            format_drawn(
                lane.label("-"), _with_marks(cells, [mark for mark in marks if mark.task in lane_tasks], scale)
            )
        )
    return [*rows, "", *_draw_legend(used, draw, columns), *_list_markers(marks, columns)]


def format_headline(line: Timeline, state: str, name: str) -> str:
    """Return the job on one line."""
    took = f"{'took' if line.ended is not None else 'for'} {format_duration(max(0.0, line.until))}"
    sessions = f"  {len(line.sessions)} sessions" if len(line.sessions) > 1 else ""
    return escape(f"{line.job}  {name}  {state}  {took}{sessions}")


def describe_missing_events(job: str, state: JobState) -> str:
    """Return that a job has no events: those of an ended job may have been removed, or it never started."""
    missing = f"no events of job {job} are kept" if state.ended else f"job {job} has no events yet"
    return escape(f"{missing}; its state is {state.value}")


# --- time and columns -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ColumnScale(TimeScale):
    """A scale with a number of columns."""

    columns: int

    @property
    def step(self) -> float:
        """Seconds per column."""
        return self.seconds / self.columns

    def find_column(self, at: float) -> int:
        """Return the column of a time."""
        return min(self.columns - 1, max(0, int(at / self.step)))


def _draw_axis(scale: _ColumnScale, *, unicode: bool) -> list[str]:
    """Return the times, and below them a line with ticks."""
    times, line = [" "] * scale.columns, ["─" if unicode else "-"] * scale.columns
    for at in scale.ticks(max(1, scale.columns // _TICK_COLUMNS)):
        place, text = scale.find_column(at), "0" if at == 0 else format_duration(at)
        if place + len(text) <= scale.columns:
            times[place : place + len(text)] = text
            line[place] = "┬" if unicode else "+"
    return ["".join(times), "".join(line)]


def _draw_sessions(line: Timeline, scale: _ColumnScale) -> str:
    """Return the number of each session where it begins; of sessions too close together, the first ones."""
    cells = [" "] * scale.columns
    free = 0
    for session in line.sessions:
        place, text = scale.find_column(session.since), f"|{session.number}"
        if place >= free and place + len(text) <= scale.columns:
            cells[place : place + len(text)] = text
            free = place + len(text) + 1
    return "".join(cells)


def _fill_cells(spans: Iterable[Span], scale: _ColumnScale) -> list[_Cell]:
    """Return the phase with the most time in each column."""
    if scale.columns <= 0:
        return []
    # Per phase: where it begins and ends in whole columns (summed up below), and the fractions at its edges.
    sums: dict[TaskPhase, list[float]] = {what: [0.0] * (scale.columns + 1) for what in TaskPhase}
    edges: dict[TaskPhase, list[float]] = {what: [0.0] * (scale.columns + 1) for what in TaskPhase}
    for span in spans:
        first, last = span.since / scale.step, min(span.until / scale.step, float(scale.columns))
        left, right = scale.find_column(span.since), scale.find_column(max(span.since, span.until - 1e-9))
        if left == right:
            edges[span.what][left] += last - first
            continue
        edges[span.what][left] += left + 1 - first
        edges[span.what][right] += last - right
        sums[span.what][left + 1] += 1.0
        sums[span.what][right] -= 1.0
    cells: list[_Cell] = [TaskPhase.NO_CONTAINER] * scale.columns
    running = dict.fromkeys(TaskPhase, 0.0)
    for place in range(scale.columns):
        best = 1e-9
        for what in TaskPhase:
            running[what] += sums[what][place]
            amount = running[what] + edges[what][place]
            if what is TaskPhase.NO_CONTAINER:
                amount *= 0.5  # a phase of half of the lane's tasks is drawn
            if amount > best:
                best, cells[place] = amount, what
    return cells


def _with_marks(cells: Sequence[_Cell], marks: Iterable[Mark], scale: _ColumnScale) -> list[_Cell]:
    found = list(cells)
    rank = {kind: number for number, kind in enumerate(_SIGNS)}
    for mark in marks:
        place = scale.find_column(mark.at)
        existing = found[place]
        if not isinstance(existing, MarkerKind) or rank[mark.what] < rank[existing]:
            found[place] = mark.what
    return found


# --- rows -------------------------------------------------------------------------------------------------------------


def _pad(text: str, columns: int) -> str:
    """Return a name padded to its column; of a long one the end is kept, where names differ."""
    text = escape(text)
    if count_columns(text) > columns:
        text = ".." + text[2 - columns :]
    return text + " " * (columns - count_columns(text))


def _paint(cells: Sequence[_Cell], draw: Draw) -> str:
    return "".join(draw(cell, len(list(run))) for cell, run in groupby(cells)).rstrip(" ")


def _draw_legend(used: set[_Cell], draw: Draw, columns: int) -> list[str]:
    """Return the legend of the characters that occur in the picture."""
    lines: list[str] = []
    taken = 0
    for cell, sign in _SIGNS.items():
        if cell not in used:
            continue
        if not lines or taken + len(sign.word) + 4 > columns:
            lines.append("")
            taken = 0
        else:
            lines[-1] += "  "
            taken += 2
        lines[-1] += f"{draw(cell, 1)} {sign.word}"
        taken += len(sign.word) + 2
    return lines


def _list_markers(marks: Sequence[Mark], columns: int) -> list[str]:
    """Return the markers as text; checkpoints are only counted."""
    listed = [mark for mark in marks if mark.what is not MarkerKind.CHECKPOINT]
    checkpoints = len(marks) - len(listed)
    lines = [""] if marks else []
    if len(listed) > _MAX_MARKERS:
        lines.append(f"{'':>10}  {len(listed) - _MAX_MARKERS} earlier ones: tony events")
    for mark in listed[-_MAX_MARKERS:]:
        names_task = mark.note.startswith((f"{mark.task} ", f"{mark.task}: "))
        task = f"{mark.task} " if mark.task and not names_task else ""
        note = f": {mark.note}" if mark.note else ""
        words = escape(f"{task}{_SIGNS[mark.what].word}{note}")
        first, *others = textwrap.wrap(words, max(_MIN_PICTURE_COLUMNS, columns - 12), break_on_hyphens=False)[
            :_MAX_MARKER_LINES
        ] or [""]
        lines.append(cut(f"{format_duration(max(0.0, mark.at)):>10}  {first}", columns))
        lines += [cut(f"{'':>10}  {other}", columns) for other in others]
    if checkpoints:
        lines.append(f"{'':>10}  {format_count(checkpoints, 'checkpoint')}")
    return lines
