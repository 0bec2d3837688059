"""The steps of a run as plain data, and their curve as an SVG."""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape


@dataclass(frozen=True)
class StepRecord:
    """One global step, counted from 1; it made version `step` of the parameters."""

    step: int
    loss: float  # the mean over the global batch
    est_losses: tuple[float, ...]  # the mean of every EST, by rank
    params_digest: str  # hexadecimal
    samples_per_s: float | None  # the speed when the step was first seen, else the mean
    evaluation: dict[str, Any] | None  # of the parameters after this step
    loss_name: str | None = None  # which of several losses the step is of


def records(ledger: Sequence[dict[str, Any]], evaluations: Sequence[dict[str, Any]],
            speeds: Sequence[tuple[int, float]], names: Sequence[str] = ()) -> list[StepRecord]:
    """The steps of a ledger; `speeds` has (step, samples per second) in the order of the steps, and `names`
    the names of their losses, if a job has several."""
    by_version = {entry["version"]: entry for entry in evaluations}
    found, position = [], 0
    for line in ledger:
        while position < len(speeds) and speeds[position][0] < line["step"]:
            position += 1
        losses = tuple(math.nan if loss is None else loss for loss in line["losses"])
        speed = speeds[position][1] if position < len(speeds) else None
        found.append(StepRecord(line["step"], sum(losses) / max(1, len(losses)), losses,
                                line["params_digest"], speed, by_version.get(line["step"]),
                                names[line["step"] - 1] if names else None))
    return found


def with_values(evaluations: Sequence[dict[str, Any]],
                values: Mapping[int, Mapping[str, float]]) -> list[dict[str, Any]]:
    """The evaluations with further values, by the step after which they were computed."""
    found = {entry["version"]: entry for entry in evaluations}
    for step, more in values.items():
        found[step] = {**found.get(step, {"version": step}), **more}
    return [found[step] for step in sorted(found)]


WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 32, 40  # the margins around the axes, in pixels
TICKS = 5
POINTS_MAX = 2000  # a longer curve is thinned
COLOURS = ("#1f77b4", "#2ca02c", "#ff7f0e", "#9467bd")  # of the losses


@dataclass(frozen=True)
class _Axes:
    """Maps steps and losses to pixels."""

    steps: tuple[float, float]
    losses: tuple[float, float]

    def x(self, step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * _share(step, self.steps)

    def y(self, loss: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * _share(loss, self.losses)


def _share(value: float, limits: tuple[float, float]) -> float:
    low, high = limits
    return (value - low) / (high - low) if high > low else 0.5


def loss_curve(history: Sequence[StepRecord], title: str) -> str:
    """An SVG with each loss as a line, and the evaluations as points."""
    names = list(dict.fromkeys(r.loss_name for r in history))
    lines = {name: _thinned([r for r in history if r.loss_name == name]) for name in names}
    train = [point for line in lines.values() for point in line]
    tested = [(r.step, r.evaluation["mean_loss"]) for r in history
              if r.evaluation and r.evaluation.get("mean_loss") is not None]
    points = train + tested or [(0, 0.0)]
    axes = _Axes(_limits([p[0] for p in points]), _limits([p[1] for p in points]))
    parts = [_frame(axes, title)]
    colours = {name or "loss": COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    for line, colour in zip(lines.values(), colours.values()):
        if line:
            places = " ".join(f"{axes.x(step):.1f},{axes.y(loss):.1f}" for step, loss in line)
            parts.append(f'<polyline points="{places}" fill="none" stroke="{colour}"/>')
    parts += [f'<circle cx="{axes.x(step):.1f}" cy="{axes.y(loss):.1f}" r="3" fill="#d62728"/>'
              for step, loss in tested]
    parts.append(_legend(colours or {"loss": COLOURS[0]}, bool(tested)))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
            f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">\n'
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n'
            + "\n".join(parts) + "\n</svg>\n")


def _thinned(history: Sequence[StepRecord]) -> list[tuple[int, float]]:
    shown = history[::max(1, math.ceil(len(history) / POINTS_MAX))]
    return [(r.step, r.loss) for r in shown if math.isfinite(r.loss)]


def _limits(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def _frame(axes: _Axes, title: str) -> str:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = [f'<text x="{LEFT}" y="18" font-size="13">{escape(title)}</text>',
             f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#888"/>',
             f'<text x="{right}" y="{HEIGHT - 6}" text-anchor="end">step</text>']
    for i in range(TICKS):
        share = i / (TICKS - 1)
        loss = axes.losses[0] + share * (axes.losses[1] - axes.losses[0])
        step = axes.steps[0] + share * (axes.steps[1] - axes.steps[0])
        parts.append(f'<text x="{LEFT - 6}" y="{axes.y(loss) + 4:.1f}" text-anchor="end">'
                     f'{loss:.4g}</text>')
        parts.append(f'<text x="{axes.x(step):.1f}" y="{bottom + 16}" text-anchor="middle">'
                     f'{step:.0f}</text>')
    return "\n".join(parts)


def _legend(colours: Mapping[str, str], has_evaluations: bool) -> str:
    text = f'<text x="{WIDTH - RIGHT}" y="18" text-anchor="end">' + " ".join(
        f'<tspan fill="{colour}">{escape(name)}</tspan>' for name, colour in colours.items())
    if has_evaluations:
        text += ' <tspan fill="#d62728">evaluation loss</tspan>'
    return text + "</text>"
