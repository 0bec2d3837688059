"""Lowers the chart for the Kubernetes 1.20 of the tests, which is older than what it is written for.

The chart is for the servers of today. This one does not know CEL rules in a custom resource definition,
and helm refuses a field that the server does not know; and its PodDisruptionBudget is policy/v1beta1.
Nothing else is changed: lower() returns every line that it removed or replaced.
"""
import shutil
from pathlib import Path

RULES = "x-kubernetes-validations:"


def _indent(line):
    return len(line) - len(line.lstrip())


def _without_rules(text, changed):
    kept, skipping = [], None
    for line in text.splitlines(keepends=True):
        if skipping is not None and (not line.strip() or _indent(line) > skipping):
            changed.append(line.strip())
            continue
        skipping = None
        if line.strip() == RULES:
            skipping = _indent(line)
            changed.append(line.strip())
        else:
            kept.append(line)
    return "".join(kept)


def lower(chart, target):
    """Copies the chart. Returns {name of the file: lines that were removed or replaced}."""
    shutil.copytree(chart, target)
    changed = {}
    for path in sorted(Path(target).rglob("*.yaml")):
        lines, text = [], path.read_text()
        lowered = _without_rules(text, lines)
        if "apiVersion: policy/v1\n" in lowered:
            lowered = lowered.replace("apiVersion: policy/v1\n", "apiVersion: policy/v1beta1\n")
            lines.append("apiVersion: policy/v1")
        if lines:
            path.write_text(lowered)
            changed[path.name] = lines
    return changed
