"""Groups of bars as SVG."""

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 260, 60, 130, 30, 40
COLOURS = ("#c8553d", "#8d5a97", "#d9a441", "#588b50", "#1b6ca8")


def svg(title, y_label, groups):
    """`groups`: name to a dictionary of series to value (None: there is none)."""
    series = list(dict.fromkeys(name for bars in groups.values() for name in bars))
    highest = max(value for bars in groups.values() for value in bars.values() if value) * 1.1
    plot_width, plot_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    group_width = plot_width / len(groups)
    bar_width = 0.8 * group_width / len(series)

    def y_at(value):
        return HEIGHT - BOTTOM - plot_height * value / highest

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
           'font-family="sans-serif" font-size="11">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="18" font-size="13">{title}</text>',
           f'<text x="14" y="{TOP + plot_height / 2}" text-anchor="middle" '
           f'transform="rotate(-90 14 {TOP + plot_height / 2})">{y_label}</text>']
    for i in range(5):
        value = highest * i / 4.4
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y_at(value):.1f}" y2="{y_at(value):.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y_at(value) + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    for g, (name, bars) in enumerate(groups.items()):
        left = LEFT + g * group_width + 0.1 * group_width
        out.append(f'<text x="{left + 0.4 * group_width:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{name}</text>')
        for i, one in enumerate(series):
            value, x = bars.get(one), left + i * bar_width
            if value is None:
                out.append(f'<text x="{x + bar_width / 2:.1f}" y="{HEIGHT - BOTTOM - 4}" text-anchor="middle">x</text>')
                continue
            out.append(f'<rect x="{x:.1f}" y="{y_at(value):.1f}" width="{bar_width * 0.92:.1f}" '
                       f'height="{HEIGHT - BOTTOM - y_at(value):.1f}" fill="{COLOURS[i % len(COLOURS)]}"/>')
    for i, one in enumerate(series):
        y = TOP + 10 + 16 * i
        out.append(f'<rect x="{WIDTH - RIGHT + 10}" y="{y - 9}" width="10" height="10" fill="{COLOURS[i % len(COLOURS)]}"/>')
        out.append(f'<text x="{WIDTH - RIGHT + 25}" y="{y}">{one}</text>')
    return "\n".join([*out, "</svg>", ""])
