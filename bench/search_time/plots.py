"""A plot of seconds over sizes on two logarithmic axes, as SVG, with fitted exponents."""
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 480, 320, 60, 150, 30, 40
COLOURS = ("#1b6ca8", "#c8553d", "#588b50", "#8d5a97")


def fit(points):
    """The exponent of the power law through the points with the least squares of logarithms."""
    xs = [math.log(x) for x, _ in points]
    ys = [math.log(y) for _, y in points]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / spread


def decades(low, high):
    return [10.0**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]


def svg(title, x_label, series):
    """`series`: name to a list of (x, seconds)."""
    points = [p for line in series.values() for p in line]
    x_low, x_high = min(x for x, _ in points), max(x for x, _ in points)
    y_ticks = decades(min(y for _, y in points), max(y for _, y in points))
    y_low, y_high = y_ticks[0], y_ticks[-1]

    def x_at(x):
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(x / x_low) / math.log(x_high / x_low)

    def y_at(y):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * math.log(y / y_low) / math.log(y_high / y_low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
           'font-family="sans-serif" font-size="11">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="18" font-size="13">{title}</text>',
           f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">{x_label}</text>']
    for y in y_ticks:
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y_at(y):.1f}" y2="{y_at(y):.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y_at(y) + 4:.1f}" text-anchor="end">{y:g} s</text>')
    for x in sorted({x for x, _ in points}):
        out.append(f'<text x="{x_at(x):.1f}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle">{x:g}</text>')
    for i, (name, line) in enumerate(series.items()):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join(f"{x_at(x):.1f},{y_at(y):.1f}" for x, y in line)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        out += [f'<circle cx="{x_at(x):.1f}" cy="{y_at(y):.1f}" r="2.5" fill="{colour}"/>' for x, y in line]
        x, y = line[-1]
        label = f"{name}: n^{fit(line):.2f}"
        out.append(f'<text x="{x_at(x) + 8:.1f}" y="{y_at(y) + 4 + 2 * i:.1f}" fill="{colour}">{label}</text>')
    return "\n".join([*out, "</svg>", ""])
