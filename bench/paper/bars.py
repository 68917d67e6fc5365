"""Groups of bars as SVG."""

HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 260, 70, 110, 34, 40
COLOURS = ("#c8553d", "#8d5a97", "#d9a441", "#588b50", "#1b6ca8")

Groups = dict[str, dict[str, float | None]]


def svg(title: str, y_label: str, groups: Groups, width: int = 570) -> str:
    """`groups`: name to a dictionary of series to value (None: there is none)."""
    series = list(dict.fromkeys(name for bars in groups.values() for name in bars))
    ticks = tick_values(max(value for bars in groups.values() for value in bars.values() if value))
    group_width = (width - LEFT - RIGHT) / len(groups)

    def y_at(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / ticks[-1]

    middle = (TOP + HEIGHT - BOTTOM) / 2
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{HEIGHT}" '
           'font-family="sans-serif" font-size="11">', f'<rect width="{width}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="18" font-size="13">{title}</text>',
           f'<text x="13" y="{middle}" text-anchor="middle" transform="rotate(-90 13 {middle})">{y_label}</text>']
    for value in ticks:
        y = y_at(value)
        out.append(f'<line x1="{LEFT}" x2="{width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:,.6g}</text>')
    for g, (name, bars) in enumerate(groups.items()):
        out += group(name, [(bars.get(one), colour) for one, colour in zip(series, colours(series))],
                     LEFT + g * group_width, group_width, y_at)
    any_missing = any(None in bars.values() for bars in groups.values())
    return "\n".join([*out, *legend(series, width, any_missing), "</svg>", ""])


def tick_values(highest: float) -> list[float]:
    """Round numbers, from 0 to just above the highest."""
    scale = 10.0 ** next(e for e in range(-9, 12) if 10.0 ** (e + 1) > highest)
    step = next(s * scale for s in (0.1, 0.2, 0.25, 0.5, 1, 2) if highest / (s * scale) <= 6)
    return [round(i * step, 10) for i in range(int(highest / step) + 2)]


def colours(series: list[str]) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(len(series))]


def group(name: str, bars: list[tuple[float | None, str]], left: float, width: float, y_at) -> list[str]:
    bar_width = 0.8 * width / len(bars)
    bottom = HEIGHT - BOTTOM
    out = [f'<text x="{left + width / 2:.1f}" y="{bottom + 16}" text-anchor="middle">{name}</text>']
    for i, (value, colour) in enumerate(bars):
        x = left + 0.1 * width + i * bar_width
        if value is None:
            middle = x + bar_width / 2
            out.append(f'<text x="{middle:.1f}" y="{bottom - 4}" text-anchor="middle" fill="{colour}">x</text>')
            continue
        out.append(f'<rect x="{x:.1f}" y="{y_at(value):.1f}" width="{bar_width * 0.92:.1f}" '
                   f'height="{bottom - y_at(value):.1f}" fill="{colour}"/>')
    return out


def legend(series: list[str], width: int, any_missing: bool) -> list[str]:
    out = []
    for i, (one, colour) in enumerate(zip(series, colours(series))):
        y = TOP + 10 + 16 * i
        out.append(f'<rect x="{width - RIGHT + 10}" y="{y - 9}" width="10" height="10" fill="{colour}"/>')
        out.append(f'<text x="{width - RIGHT + 25}" y="{y}">{one}</text>')
    if any_missing:
        out.append(f'<text x="{width - RIGHT + 12}" y="{TOP + 10 + 16 * len(series)}">x</text>')
        out.append(f'<text x="{width - RIGHT + 25}" y="{TOP + 10 + 16 * len(series)}">no plan</text>')
    return out
