"""Timelines of schedules as SVG, one below the other on one scale of time."""
from typing import NamedTuple

WIDTH, LEFT, RIGHT, ROW, GAP, TOP, TITLE, FOOT = 1000, 128, 24, 15, 3, 8, 38, 44
COLOURS = {"forward": ("#7fb3d9", "#5b97c4"), "backward": ("#e6b566", "#cf9840")}  # by parity
FIRST = {"forward": "#12507f", "backward": "#8a4b00"}  # the first micro-batch's


class Task(NamedTuple):
    row: int
    start_s: float
    end_s: float
    kind: str  # forward, backward
    micro_batch: int


class Panel(NamedTuple):
    title: str
    note: str
    rows: list[str]  # labels
    tasks: list[Task]
    iteration_s: float


def tasks_of(trace: list[dict]) -> list[Task]:
    """Of Chrome trace events; a row a rank."""
    return [Task(event["pid"], event["ts"] / 1e6, (event["ts"] + event["dur"]) / 1e6, event["cat"],
                 event["args"]["micro_batch"])
            for event in trace if event["ph"] == "X" and event["cat"] in COLOURS]


def svg(panels: list[Panel]) -> str:
    longest_s = max(panel.iteration_s for panel in panels)
    height = TOP + sum(TITLE + len(panel.rows) * (ROW + GAP) + GAP for panel in panels) + FOOT
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
           'font-family="sans-serif" font-size="11">', f'<rect width="{WIDTH}" height="{height}" fill="white"/>']
    y = TOP
    for panel in panels:
        out += draw_panel(panel, y, (WIDTH - LEFT - RIGHT) / longest_s)
        y += TITLE + len(panel.rows) * (ROW + GAP) + GAP
    out += axis(y, longest_s) + legend(height - 10)
    return "\n".join([*out, "</svg>", ""])


def draw_panel(panel: Panel, y: int, pixels_per_s: float) -> list[str]:
    bottom = y + TITLE + len(panel.rows) * (ROW + GAP)
    end = LEFT + panel.iteration_s * pixels_per_s
    out = [f'<text x="{LEFT}" y="{y + 13}" font-size="13">{panel.title}</text>',
           f'<text x="{LEFT}" y="{y + 28}" fill="#555">{panel.note}</text>']
    for row, label in enumerate(panel.rows):
        at = y + TITLE + row * (ROW + GAP)
        out.append(f'<text x="{LEFT - 8}" y="{at + ROW - 4}" text-anchor="end">{label}</text>')
        out.append(f'<rect x="{LEFT}" y="{at}" width="{end - LEFT:.1f}" height="{ROW}" fill="#f3f3f3"/>')
    for (kind, colour), tasks in coloured(panel.tasks).items():
        boxes = "".join(box(task, y, pixels_per_s) for task in tasks)
        out.append(f'<path fill="{colour}" d="{boxes}"><title>{kind}</title></path>')
    out.append(f'<line x1="{end:.1f}" x2="{end:.1f}" y1="{y + TITLE - 4}" y2="{bottom}" stroke="#b00"/>')
    return out


def coloured(tasks: list[Task]) -> dict[tuple[str, str], list[Task]]:
    """A path of boxes for each is a tenth of the size of a rectangle for each."""
    groups: dict[tuple[str, str], list[Task]] = {}
    for task in tasks:
        colour = COLOURS[task.kind][task.micro_batch % 2] if task.micro_batch else FIRST[task.kind]
        groups.setdefault((task.kind, colour), []).append(task)
    return groups


def box(task: Task, y: int, pixels_per_s: float) -> str:
    left = LEFT + task.start_s * pixels_per_s
    width = max(0.5, (task.end_s - task.start_s) * pixels_per_s - 0.3)
    return f"M{left:.1f} {y + TITLE + task.row * (ROW + GAP)}h{width:.1f}v{ROW}h-{width:.1f}z"


def axis(y: int, longest_s: float) -> list[str]:
    step_ms = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if 1e3 * longest_s / step <= 12)
    ticks = range(0, int(1e3 * longest_s) + 1, step_ms)
    pixels_per_ms = (WIDTH - LEFT - RIGHT) / (1e3 * longest_s)
    return [f'<text x="{LEFT + ms * pixels_per_ms:.1f}" y="{y + 12}" text-anchor="middle" fill="#555">'
            f'{ms}{" ms" if ms == 0 else ""}</text>' for ms in ticks]


def legend(y: int) -> list[str]:
    entries = [(COLOURS["forward"][0], "forward"), (COLOURS["backward"][0], "backward"),
               (FIRST["forward"], "forward of the first micro-batch"),
               (FIRST["backward"], "backward of the first micro-batch"), ("#f3f3f3", "idle")]
    out, x = [], LEFT
    for colour, text in entries:
        out.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{colour}" stroke="#999" '
                   'stroke-width="0.5"/>')
        out.append(f'<text x="{x + 15}" y="{y}">{text}</text>')
        x += 40 + 6 * len(text)
    return out
