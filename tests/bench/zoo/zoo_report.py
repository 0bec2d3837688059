"""The results of scripts/zoo as lines, as a page and as a chart."""
import collections
import importlib.metadata
import os
import re
import sys
import textwrap
import time
from pathlib import Path

import zoo_models
from zoo_case import BATCH, RANKS
from zoo_check import LOSS_GOAL, ROUNDING, STATUS, SUSPICIOUS, UPDATE_GOAL
from zoo_torch import FIRST_UPDATE, NOISE, STEPS

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "report"))
import chart as charts
import runner

TRAINED = ("same", "sensitive", "differs", "bits differ")
WIDTH = 120  # of the lines of a page
# What is known of results beyond their numbers.
REMARKS = {
    "cspdarknet53, darknet53 and vgg16": """the ratio of their gradients was computed alone on
        2026-11-26, by `zoo_check.worst_gradient` after one step. One element of a LeakyReLU explains
        all of the difference of cspdarknet53; nine others that were moved change no gradient, and the
        search leaves such elements out now. One element of vgg16 explains its difference with the
        coefficient 1.000 and a residual of 0.0004. All gradients of darknet53 agree without a
        crossing, so what its parameters differ by comes from the second and third step. With SiLU and
        means in place of ReLU, LeakyReLU and maxima, the gradients of cspdarknet53 and vgg16 agree as
        well (0.028).""",
    "spatial_transformer": """it begins with the identity, so all of its samples lie exactly on pixels,
        where the slope of the interpolation jumps. Its gradients agree (0.072).""",
    "more": """those without a row are models of torchvision for segments and clips. On 2026-11-25 they were
        captured only, with the comparison of a capture (loss, outputs and gradients beside the module) but
        without training; the two MViT took too long. Refused are matrices of all pairs of samples that
        are factorised (deep_kernel); reversible layers and other functions with a gradient
        of their own (Reformer, YOSO, SEW-D); models that branch on contents or choose by them (I-BERT,
        GPT-OSS, Jamba, LED, Switch, Autoformer); models that change their weights (RWKV) or their
        state (RecurrentGemma)."""}
LIBRARIES = ("torch", "torchvision", "timm", "transformers")


def line(row):
    """One line about a model, for the terminal."""
    text = f"{row['family']} {row['model']}: {row['status']}"
    if "loss_difference" in row:
        text += (f"; loss {row['loss_difference']:.1e}, update {row['update_difference']:.1e} "
                 f"(PyTorch itself: {row['loss_sensitivity']:.1e}, "
                 f"{row['update_sensitivity']:.1e})")
    return "; ".join(filter(None, [text, note(row), f"{_seconds(row):.0f} s"]))


def note(row):
    """What a model lacks, or its error without paths and times of day."""
    if row["missing"]:
        return "; ".join(row["missing"])
    text = (row.get("error") or "").splitlines()[-1:]
    text = re.sub(r"\S*/(model\.\w+: )", "", " ".join(text))
    return re.sub(r"\S*/((?:\w+/)?\w+\.(?:py|cc):\d+)", r"\1",
                  re.sub(r"^\S+T\S+Z error\s+", "", text))[:300]


def summary(rows):
    """The number of models by family and result."""
    totals = collections.Counter(entry.family for entry in zoo_models.entries(_families()))
    found = collections.Counter((row["family"], row["status"]) for row in rows)
    used = [status for status in STATUS if any(s == status for _, s in found)]
    lines = ["| family | models | " + " | ".join(used) + " | not run |",
             "|---" * (len(used) + 3) + "|"]
    for family, total in totals.items():
        counts = [found[family, status] for status in used]
        lines.append(f"| {family} | {total} | " + " | ".join(map(str, counts))
                     + f" | {total - sum(counts)} |")
    return "\n".join(lines)


def page(rows):
    """The page docs/measurements/zoo.md."""
    used = [status for status in STATUS if any(row["status"] == status for row in rows)]
    meanings = "\n".join(f"* **{status}**: {STATUS[status]}." for status in used)
    parts = [_head(rows), summary(rows) + "\n", meanings + "\n", _trained_text()]
    for family in _families():
        own = [row for row in rows if row["family"] == family and row["status"] in TRAINED]
        if own:
            parts.append(f"## {family}\n\n{_trained_table(own)}\n")
    parts.append(_missing_part(rows))
    others = [row for row in rows if row["status"] not in TRAINED and not row["missing"]]
    if others:
        parts += ["## Models that were not trained for another reason\n", _other_table(others)]
    if REMARKS:
        parts += ["\n## Remarks\n", *(_filled(f"{name}: {text}", initial_indent="* ",
                                             subsequent_indent="  ")
                                     for name, text in REMARKS.items())]
    return "\n".join(parts).rstrip() + "\n"


def chart(rows):
    """Every trained model by its difference and by PyTorch's own sensitivity."""
    series = {family: [(row["update_sensitivity"], row["update_difference"]) for row in rows
                       if row["family"] == family and "update_difference" in row]
              for family in _families()}
    return charts.scatter(
        f"Updates of {STEPS} steps: difference from PyTorch, by PyTorch's own sensitivity",
        f"change of PyTorch's update when its inputs and weights change by {NOISE:g}",
        "difference of the update of EasyScale from that of PyTorch", series,
        mark=UPDATE_GOAL, slope=SUSPICIOUS)


def _families():
    return list(zoo_models.LISTS)


def machine():
    """This machine, as a row names it."""
    return f"{runner.processor()}, {os.cpu_count()} cores"


def _seconds(row):
    return sum(row.get("seconds", {}).values())


def _head(rows):
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)
    placements = next((row["placements"] for row in rows if "placements" in row), [])
    runs = "; ".join(f"`{stages}`" for stages in placements)
    machines = collections.Counter(row.get("machine", "not recorded") for row in rows)
    places = "; ".join(f"{name} ({count} models)" for name, count in machines.most_common())
    hours = sum(map(_seconds, rows)) / 3600
    here = "docs/measurements/zoo"
    command = (f"scripts/zoo FOLDER --results tests/bench/results/zoo.jsonl --markdown {here}.md "
               f"--svg {here}.svg")
    return "\n\n".join(["# Captured models", _filled(
        f"""Date: {time.strftime("%Y-%m-%d")}. Command: `{command}`, which has written this page.
        Machines: {places}. Versions: {versions}. The times that are recorded add up to
        {hours:.1f} h; other work was running on the machine."""), _filled(
        f"""Each model is captured by the Python package and trained for {STEPS} steps of SGD with
        {RANKS} ESTs of {BATCH} samples, from the weights that PyTorch has given it. Its dropout is
        set to 0, and PyTorch draws other random numbers as the engine does. It is trained on these
        devices in turn, at level D2: {runs}. The parameters, the optimizer state and the contexts
        of all three runs are compared bit for bit. PyTorch trains the same weights on the same
        samples, with the gradients of the mini-batches averaged. The learning rate is chosen so
        that the first step changes no parameter by more than {FIRST_UPDATE:g}."""), _filled(
        f"""Most images have 64 x 64 pixels, and those of some large models 32 x 32, because that takes
        less time; `tests/bench/zoo/zoo_models.py` has the sizes. Models above 200 million parameters
        keep only the first blocks of each stage: {_cuts()}. Of torchvision, maxvit_t has windows of
        2 x 2 pixels and inception_v3 no second head, because both need images of more than 200
        pixels otherwise. The family *more* was chosen after the capture had been written, to find
        what it lacks."""),
        "![difference and sensitivity of all trained models](zoo.svg)\n"])


def _cuts():
    return ", ".join(f"{name} {blocks}" for name, blocks in zoo_models.CUT.items())


def _filled(text, **indents):
    return textwrap.fill(" ".join(text.split()), WIDTH, break_long_words=False,
                         break_on_hyphens=False, **indents)


def _trained_text():
    entries = [
        f"""*loss*: the largest relative difference of the loss of a step from that of PyTorch. The
        goal is {LOSS_GOAL:g}.""",
        f"""*update*: max |p - p of PyTorch| / max |p of PyTorch - p at the beginning|, over all
        parameters p after the last step. The goal is {UPDATE_GOAL:g}.""",
        f"""*PyTorch itself*: the same two measures between two runs of PyTorch, of which one has
        all inputs and parameters multiplied by 1 + {NOISE:g} n with normal numbers n. A network
        with a large value amplifies rounding, so its difference says nothing about the program.""",
        f"""*worst parameter*: the largest ratio, over all parameters, of the difference to what is
        explained: {UPDATE_GOAL:g} of the update of this parameter, {SUSPICIOUS} times PyTorch's own
        difference, four units in the last place, and {ROUNDING:g} of the largest update.
        Above 1 the gradients of the first step were compared with those of PyTorch in double
        precision; what PyTorch's fp32 differs from these is explained, and twice of what the noise
        changes in them. A model is only *sensitive* if they agree. Results since the second half of
        2026-11-25 have this ratio of the gradients in parentheses.""",
        """*crossed*: if the gradients do not agree, rounding may have decided on which side of a kink
        an activation is, or which element of a window is the largest. The gradient that each such
        element adds is known, so the elements are found that explain the difference once each, and
        the gradients are compared with those of PyTorch in double precision with these elements on
        the other side (`zoo_kinks.py`). Behind their number is the ratio without that."""]
    lines = [_filled(text, initial_indent="* ", subsequent_indent="  ") for text in entries]
    return "\n".join(["The columns of the tables:", "", *lines, ""])


def _trained_table(rows):
    lines = ["| model | M parameters | nodes | loss | PyTorch itself | update | PyTorch itself "
             "| worst parameter | result | bits |", "|---|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        numbers = [f"{row[key]:.1e}" for key in ("loss_difference", "loss_sensitivity",
                                                 "update_difference", "update_sensitivity")]
        worst = f"{row['worst_tensor']['excess']:.2g}"
        if "worst_gradient" in row:
            gradient = row["worst_gradient"]
            crossed = (f"; {gradient['crossed']} crossed, {gradient['uncrossed']:.2g}"
                       if "crossed" in gradient else "")
            worst += f" ({gradient['excess']:.2g}{crossed})"
        bits = "equal" if row["equal_bits"] else "DIFFER"
        lines.append(f"| {row['model']} | {row['parameters'] / 1e6:.3g} | {row['nodes']} | "
                     + " | ".join(numbers) + f" | {worst} | {row['status']} | {bits} |")
    return "\n".join(lines)


def _missing_part(rows):
    lacking = [row for row in rows if row["missing"]]
    if not lacking:
        return ""
    lines = ["## Unsupported operators", "", _filled(
        """The engine refuses a kind of node that it does not execute, and the capture an operator
        that has no kind."""), "", "| model | refused by | operators |", "|---|---|---|"]
    lines += [f"| {row['model']} | {row['refused_by']} | {'; '.join(row['missing'])} |"
              for row in lacking]
    counts = collections.Counter(text for row in lacking for text in row["missing"])
    lines += ["", "| operator | models that lack it |", "|---|---|"]
    lines += [f"| {text} | {count} |" for text, count in counts.most_common()]
    return "\n".join(lines) + "\n"


def _other_table(rows):
    lines = ["| model | result | message |", "|---|---|---|"]
    lines += [f"| {row['model']} | {row['status']} | {note(row).replace('|', '/')} |"
              for row in rows]
    return "\n".join(lines)
