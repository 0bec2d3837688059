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


def records(ledger: Sequence[dict[str, Any]], evaluations: Sequence[dict[str, Any]],
            speeds: Sequence[tuple[int, float]]) -> list[StepRecord]:
    """The steps of a ledger; `speeds` has (step, samples per second) in the order of the steps."""
    by_version = {entry["version"]: entry for entry in evaluations}
    found, position = [], 0
    for line in ledger:
        while position < len(speeds) and speeds[position][0] < line["step"]:
            position += 1
        losses = tuple(math.nan if loss is None else loss for loss in line["losses"])
        speed = speeds[position][1] if position < len(speeds) else None
        found.append(StepRecord(line["step"], sum(losses) / max(1, len(losses)), losses,
                                line["params_digest"], speed, by_version.get(line["step"])))
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
    """An SVG with the loss of every step as a line, and the evaluations as points."""
    shown = history[::max(1, math.ceil(len(history) / POINTS_MAX))]
    train = [(r.step, r.loss) for r in shown if math.isfinite(r.loss)]
    tested = [(r.step, r.evaluation["mean_loss"]) for r in history
              if r.evaluation and r.evaluation.get("mean_loss") is not None]
    points = train + tested or [(0, 0.0)]
    axes = _Axes(_limits([p[0] for p in points]), _limits([p[1] for p in points]))
    parts = [_frame(axes, title)]
    if train:
        line = " ".join(f"{axes.x(step):.1f},{axes.y(loss):.1f}" for step, loss in train)
        parts.append(f'<polyline points="{line}" fill="none" stroke="#1f77b4"/>')
    parts += [f'<circle cx="{axes.x(step):.1f}" cy="{axes.y(loss):.1f}" r="3" fill="#d62728"/>'
              for step, loss in tested]
    parts.append(_legend(bool(tested)))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
            f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">\n'
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n'
            + "\n".join(parts) + "\n</svg>\n")


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


def _legend(has_evaluations: bool) -> str:
    text = f'<text x="{WIDTH - RIGHT}" y="18" text-anchor="end"><tspan fill="#1f77b4">loss</tspan>'
    if has_evaluations:
        text += ' <tspan fill="#d62728">evaluation loss</tspan>'
    return text + "</text>"
