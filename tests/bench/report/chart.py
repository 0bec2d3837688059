"""Charts as SVG text: grouped bars and lines. It uses no library, so a report needs no further
packages."""

import math
from html import escape

COLOURS = ("#3566a8", "#d9822b", "#3d9163", "#9a4f96", "#777777", "#b23b3b")
LEFT, TOP, BOTTOM = 170, 56, 36


def _text(x, y, text, anchor="start", size=12, weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
            f'font-weight="{weight}">{escape(text)}</text>')


def _page(width, height, title, body):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="sans-serif">',
        '<rect width="100%" height="100%" fill="white"/>',
        _text(12, 22, title, size=15, weight="bold"), *body, "</svg>", ""])


def _legend(names, y):
    body, x = [], 12
    for i, name in enumerate(names):
        body.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{COLOURS[i]}"/>')
        body.append(_text(x + 15, y, name))
        x += 30 + 7 * len(name)
    return body


def bars(title, labels, series, mark=None, form="{:.2f}"):
    """Horizontal bars. series = {name: [value or None per label]}; mark = a value at which a line
    is drawn."""
    row = 16 * len(series) + 10
    width, height = 760, TOP + row * len(labels) + BOTTOM
    values = [v for vs in series.values() for v in vs if v is not None]
    top = max(values + [mark or 0]) or 1
    scale = (width - LEFT - 70) / top
    body = _legend(series, 42)
    for i, label in enumerate(labels):
        y = TOP + i * row
        body.append(_text(LEFT - 8, y + row / 2, label, "end"))
        for j, vs in enumerate(series.values()):
            if vs[i] is None:
                continue
            body.append(f'<rect x="{LEFT}" y="{y + 16 * j}" width="{vs[i] * scale:.1f}" '
                        f'height="13" fill="{COLOURS[j]}"/>')
            body.append(_text(LEFT + vs[i] * scale + 4, y + 16 * j + 11, form.format(vs[i]),
                              size=11))
    if mark is not None:
        x = LEFT + mark * scale
        body.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 4}" y2="{height - BOTTOM}" '
                    'stroke="black" stroke-dasharray="4 3"/>')
        body.append(_text(x, height - BOTTOM + 16, form.format(mark), "middle"))
    return _page(width, height, title, body)


def lines(title, x_label, y_label, xs, series):
    """Lines over a few equally spaced x positions. series = {name: [value per x]}."""
    width, height, left = 760, 380, 70
    top = max(v for vs in series.values() for v in vs) * 1.1 or 1
    step = (width - left - 40) / max(1, len(xs) - 1)
    at = lambda i, v: (left + i * step, height - 60 - v / top * (height - 130))
    body = _legend(series, 42)
    for k in range(6):
        value = top * k / 5
        y = at(0, value)[1]
        body.append(f'<line x1="{left}" x2="{width - 40}" y1="{y:.1f}" y2="{y:.1f}" '
                    'stroke="#dddddd"/>')
        body.append(_text(left - 6, y + 4, f"{value:.2f}", "end", 11))
    for i, x in enumerate(xs):
        body.append(_text(at(i, 0)[0], height - 42, str(x), "middle", 11))
    for j, vs in enumerate(series.values()):
        points = " ".join("%.1f,%.1f" % at(i, v) for i, v in enumerate(vs))
        body.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[j % 5]}" '
                    'stroke-width="2"/>')
    body.append(_text((left + width) / 2, height - 18, x_label, "middle"))
    body.append(_text(12, 60, y_label, size=11))
    return _page(width, height, title, body)


def _ticks(low, high):
    """Returns about five round values within the range."""
    raw = (high - low) / 5 or 1
    unit = 10 ** math.floor(math.log10(raw))
    step = unit * next(m for m in (1, 2, 5, 10) if m * unit >= raw)
    return [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _range(values, from_zero):
    low, high = (0 if from_zero else min(values)), max(values)
    margin = 0.06 * (high - low) or 0.01 * abs(high) or 1
    return (low if from_zero else low - margin), high + margin


def curves(title, x_label, y_label, series, steps=False, from_zero=True):
    """Lines through points. series = {name: [(x, y) or (x, y, text beside the point)]}. With
    `steps`, y stays until the next point. With `from_zero`, both axes begin at 0."""
    width, height, left, bottom = 900, 440, 76, 60
    xs = _range([p[0] for ps in series.values() for p in ps], from_zero)
    ys = _range([p[1] for ps in series.values() for p in ps], from_zero)
    at_x = lambda v: left + (v - xs[0]) / (xs[1] - xs[0]) * (width - left - 40)
    at_y = lambda v: height - bottom - (v - ys[0]) / (ys[1] - ys[0]) * (height - bottom - 70)
    body = _legend(series, 42)
    for y in _ticks(*ys):
        body.append(f'<line x1="{left}" x2="{width - 40}" y1="{at_y(y):.1f}" y2="{at_y(y):.1f}" '
                    'stroke="#dddddd"/>')
        body.append(_text(left - 6, at_y(y) + 4, f"{y:g}", "end", 11))
    for x in _ticks(*xs):
        body.append(_text(at_x(x), height - bottom + 18, f"{x:g}", "middle", 11))
    for i, points in enumerate(series.values()):
        colour, path, texts = COLOURS[i % len(COLOURS)], "", []
        for x, y, *text in points:
            px, py = at_x(x), at_y(y)
            path += f"M{px:.1f} {py:.1f}" if not path else (
                f"H{px:.1f}V{py:.1f}" if steps else f"L{px:.1f} {py:.1f}")
            if text:
                body.append(f'<circle r="4" cx="{px:.1f}" cy="{py:.1f}" fill="{colour}"/>')
                if texts and math.dist(texts[-1][:2], (px, py)) < 14:  # These labels would overlap.
                    texts[-1][2] += ", " + text[0]
                else:
                    texts.append([px, py, text[0]])
        body += [_text(px + 6, py - 6, text, size=11) for px, py, text in texts]
        body.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    body.append(_text((left + width) / 2, height - 14, x_label, "middle"))
    body.append(_text(12, 62, y_label, size=11))
    return _page(width, height, title, body)


def scatter(title, x_label, y_label, series, mark, slope):
    """Points with logarithmic axes. series = {name: [(x, y)]}; a value of 0 lies on the edge. Lines
    show y = mark and y = slope * x."""
    width, height, left, bottom = 760, 560, 76, 60
    low, high = -9, 1  # powers of ten
    share = lambda v: (min(max(math.log10(max(v, 10 ** low)), low), high) - low) / (high - low)
    at_x = lambda v: left + share(v) * (width - left - 40)
    at_y = lambda v: height - bottom - share(v) * (height - bottom - 70)
    body = _legend(series, 42)
    for power in range(low, high + 1):
        x, y = at_x(10.0 ** power), at_y(10.0 ** power)
        body.append(f'<path d="M{left} {y:.1f}H{width - 40}M{x:.1f} 70V{height - bottom}" '
                    'stroke="#dddddd"/>')
        body.append(_text(left - 6, y + 4, f"1e{power}", "end", 11))
        body.append(_text(x, height - bottom + 18, f"1e{power}", "middle", 11))
    ends = 10.0 ** low, 10.0 ** high / slope
    body.append(f'<path d="M{left} {at_y(mark):.1f}H{width - 40}M{at_x(ends[0]):.1f} '
                f'{at_y(slope * ends[0]):.1f}L{at_x(ends[1]):.1f} {at_y(slope * ends[1]):.1f}" '
                'stroke="black" stroke-dasharray="4 3"/>')
    body.append(_text(width - 44, at_y(mark) - 4, f"y = {mark:g}", "end", 11))
    body.append(_text(at_x(ends[1]) - 8, at_y(slope * ends[1]) + 12, f"y = {slope:g} x", "end", 11))
    for colour, points in zip(COLOURS, series.values()):
        body += [f'<circle r="3" cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" fill="{colour}" '
                 'fill-opacity="0.7"/>' for x, y in points]
    body.append(_text((left + width) / 2, height - 14, x_label, "middle"))
    body.append(_text(12, 62, y_label, size=11))
    return _page(width, height, title, body)
