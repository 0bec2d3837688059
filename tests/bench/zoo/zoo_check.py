"""Captures one model of scripts/zoo, trains it, and compares it with PyTorch and with itself.

The result is a row: a dict that JSON can hold. Its `status` is one of STATUS.
"""
import re
import time
import traceback

import easyscale as es
import torch
import zoo_kinks
import zoo_torch
from easyscale.tracing.errors import CaptureError, UnsupportedOperators
from zoo_case import BATCH, RANKS, without_dropout

STATUS = {
    "same": "trains like PyTorch",
    "sensitive": "misses a goal, but by less than noise explains, or has PyTorch's gradients",
    "differs": "has another gradient than PyTorch: a suspected error",
    "bits differ": "the placements have different bits: an error",
    "captured": "captured only, because it is too large for this machine",
    "unsupported": "uses operators that are not there",
    "refused": "the capture refuses it for another reason",
    "failed": "ended with an error",
    "too slow": "took longer than the limit",
}
LOSS_GOAL, UPDATE_GOAL = 1e-4, 1e-3
# If a difference is larger than PyTorch's answer to noise of 1e-6 times this, the gradients of the
# first step are compared too: they are not amplified by further steps. A correct program differs by
# rounding, which is 16 times smaller than that noise.
SUSPICIOUS = 10
NOISE_SEED = 7
# Where an activation function has a kink, rounding may move an element to its other side, which
# changes gradients by more than rounding. Noise does the same to such an element in about every
# second run, so this many runs show the change, and the gradients may differ by twice of it.
KINK_RUNS = 6
KINK_FACTOR = 2
ULP = 2.0 ** -23
ROUNDING = 1e-6  # of the largest update: an update that is smaller may be rounding of a zero
UNSUPPORTED = re.compile(r"([a-z_0-9]+): ([^;]+?) \(\d+ x, first ")
UNKNOWN = re.compile(r'kind = "([a-z_0-9]+)": (this version knows no such kind)')


def check(entry, placements, parameters_max, with_engine=True):
    """The row of a model. `placements`: what Placements has; the first one is compared."""
    row = {"family": entry.family, "model": entry.name, "status": "failed", "missing": [],
           "seconds": {}}
    clock = _Clock(row["seconds"])
    try:
        torch.manual_seed(0)
        case = entry.make()
        without_dropout(case.model)
        row["parameters"] = case.parameters
        row["samples"] = BATCH
        row["shapes"] = [list(x.shape[1:]) for x in case.arrays().values()]
        if not with_engine or case.parameters > parameters_max:
            _capture_only(row, case, clock)
        else:
            _Trained(row, case, clock).run(placements)
    except UnsupportedOperators as error:
        row["status"] = "unsupported"
        row["missing"] = sorted({f"{entry.operator}: {entry.reason}" for entry in error.missing})
        row["refused_by"] = "capture"
    except CaptureError as error:
        row.update(status="refused", error=f"{type(error).__name__}: {_first_line(error)}")
    except es.EasyScaleError as error:
        _engine_error(row, error)
    except Exception as error:  # the row reports whatever a model raises
        row.update(error=f"{type(error).__name__}: {_first_line(error)}")
        traceback.print_exc()
    return row


def _first_line(error):
    return (str(error).splitlines() or [""])[0]


def _engine_error(row, error):
    text = str(error)
    found = UNSUPPORTED.findall(text.partition("unsupported nodes:")[2]) + UNKNOWN.findall(text)
    row["error"] = text[:2000]
    if found:
        row.update(status="unsupported", refused_by="engine",
                   missing=sorted(f"{kind}: {reason}" for kind, reason in found))


class _Clock:
    """The seconds of the parts of a check."""

    def __init__(self, seconds):
        self.seconds, self.begin = seconds, time.monotonic()

    def lap(self, name):
        now = time.monotonic()
        self.seconds[name], self.begin = round(now - self.begin, 2), now


def _capture_only(row, case, clock):
    from easyscale.tracing import capture
    captured = capture(case.model, case.loss, case.inputs, case.targets,
                       allow_functions=case.allow_functions, check=False)
    row.update(status="captured", nodes=len(captured.program.nodes),
               kinds=sorted(captured.program.kinds()))
    clock.lap("capture")


class _Trained:
    """One model that is trained."""

    def __init__(self, row, case, clock):
        self.row, self.case, self.clock = row, case, clock

    def run(self, placements):
        peer = zoo_torch.train(self.case)
        self.clock.lap("pytorch")
        job = self._job(peer.learning_rate, zoo_torch.STEPS)
        self.clock.lap("capture")
        program = job.captured.program
        self.row.update(nodes=len(program.nodes), kinds=sorted(program.kinds()),
                        learning_rate=peer.learning_rate, torch_losses=peer.losses)
        first = job.run(stages=placements[0], progress=False)
        self.clock.lap("engine")
        self._compare_with_torch(first, peer)
        self.clock.lap("compare")
        self._compare_placements(job, first, placements)
        self.clock.lap("placements")
        if self._is_suspicious():
            self._compare_gradients(placements[0])
        self.row["status"] = self._status()

    def _job(self, learning_rate, steps):
        case = self.case
        arrays = case.arrays()
        named = isinstance(next(iter(arrays)), str)
        data = es.data.arrays(**arrays) if named else es.data.arrays(*arrays.values())
        return es.Job(case.model, loss=case.loss, data=data, batch_size=BATCH, max_p=RANKS,
                      steps=steps, seed=zoo_torch.SEED, level="D2",
                      optimizer=es.Optimizer("sgd", learning_rate=learning_rate),
                      allow_functions=case.allow_functions)

    def _compare_with_torch(self, run, peer):
        begin = _begin(self.case)
        own = _updates(run.state_dict(), begin, peer)
        losses = [record.loss for record in run.history]
        noisy = zoo_torch.train(self.case, peer.learning_rate, NOISE_SEED)
        self.clock.lap("sensitivity")
        self.row.update(
            losses=losses,
            loss_difference=_loss_difference(losses, peer.losses),
            loss_sensitivity=_loss_difference(noisy.losses, peer.losses),
            update_difference=_update_difference(own, peer.updates),
            update_sensitivity=_update_difference(noisy.updates, peer.updates),
            worst_tensor=_worst_tensor(own, peer.updates, begin,
                                       _answers([(SUSPICIOUS, noisy.updates)], peer.updates)))

    def _compare_gradients(self, stages):
        """Compares the gradients of the first step, which a step of the learning rate 1 shows."""
        run = self._job(1.0, 1).run(stages=stages, progress=False)
        self.row["worst_gradient"] = worst_gradient(self.case, run.state_dict())
        self.clock.lap("gradients")

    def _compare_placements(self, job, first, placements):
        bits = {placements[0]: first.params_digest + first.state_digest}
        for stages in placements[1:]:
            run = job.run(stages=stages, progress=False)
            bits[stages] = run.params_digest + run.state_digest
        self.row.update(placements=list(bits), equal_bits=len(set(bits.values())) == 1,
                        params_digest=first.params_digest, bits=bits)

    def _is_suspicious(self):
        row = self.row
        return (row["loss_difference"] > SUSPICIOUS * row["loss_sensitivity"] + LOSS_GOAL
                or row["update_difference"] > SUSPICIOUS * row["update_sensitivity"] + UPDATE_GOAL
                or row["worst_tensor"]["excess"] > 1)

    def _status(self):
        row = self.row
        if not row["equal_bits"]:
            return "bits differ"
        if row.get("worst_gradient", {"excess": 0})["excess"] > 1:
            return "differs"
        close = row["loss_difference"] <= LOSS_GOAL and row["update_difference"] <= UPDATE_GOAL
        return "same" if close else "sensitive"


def _begin(case):
    return {name: p.detach() for name, p in case.model.named_parameters()}


def _updates(weights, begin, peer):
    """The end minus the beginning of every parameter that PyTorch has trained."""
    return {name: torch.as_tensor(weights[name]) - begin[name] for name in peer.updates}


def worst_gradient(case, weights):
    """The parameter with the most suspicious gradient; `weights` are those after a step of rate 1.

    The measure is PyTorch in double precision. What PyTorch's fp32 differs from it is explained, and
    what noise changes in it. If this is not enough, the measure is PyTorch with those activations on
    the other side of a kink that fit best; their number is `crossed` then.
    """
    rate, begin = 1.0, _begin(case)
    peer = zoo_torch.train(case, rate, steps=1)
    double = case.in_double()
    exact = zoo_torch.train(double, rate, steps=1).updates
    noisy = [zoo_torch.train(double, rate, NOISE_SEED + i, steps=1).updates
             for i in range(KINK_RUNS)]
    rounding = _answers([(SUSPICIOUS, peer.updates)], exact)
    # A kink changes some elements only, so what it explains is counted for each element.
    answers = {name: torch.stack([KINK_FACTOR * (n[name] - exact[name]).abs() for n in noisy]
                                 ).amax(0).clamp(min=rounding[name]) for name in exact}
    own = _updates(weights, begin, peer)
    worst = _worst_tensor(own, exact, begin, answers)
    if worst["excess"] <= 1:
        return worst
    closest, crossed = zoo_kinks.closest(case, own)
    return _worst_tensor(own, closest, begin, answers) | {"crossed": crossed,
                                                          "uncrossed": worst["excess"]}


def _loss_difference(losses, peer):
    """The largest relative difference of a step."""
    return max(abs(a - b) / max(abs(b), 1e-12) for a, b in zip(losses, peer))


def _largest(tensors):
    return max((float(tensor.abs().max()) for tensor in tensors if tensor.numel()), default=0.0)


def _update_difference(updates, peer):
    """max |p - p_peer| / max |p_peer - p_initial| over all parameters."""
    scale = max(_largest(peer.values()), 1e-30)
    return _largest(updates[name] - peer[name] for name in peer) / scale


def _answers(others, peer):
    """The largest difference of `others`, (factor, updates), from `peer`, by parameter."""
    return {name: max(factor * _largest([updates[name] - update]) for factor, updates in others)
            for name, update in peer.items()}


def _worst_tensor(own, peer, begin, answers):
    """The parameter that differs most from what rounding explains; above 1 it is suspicious.

    A single parameter shows a wrong gradient that the measure of all parameters hides, because its
    update is small. `answers` is what noise or rounding explains of each, or of its elements.
    """
    worst = {"name": "", "excess": 0.0}
    rounding = ROUNDING * _largest(peer.values())
    for name, update in peer.items():
        if not update.numel():
            continue
        difference = (own[name] - update).abs().flatten()
        explained = (rounding + UPDATE_GOAL * float(update.abs().max())
                     + torch.as_tensor(answers[name]).flatten()
                     + 4 * ULP * float(begin[name].abs().max()))
        excess, place = (difference / explained.clamp(min=1e-30)).max(0)
        if float(excess) > worst["excess"]:
            worst = {"name": name, "excess": float(excess), "difference": float(difference[place]),
                     "update": float(update.abs().max())}
    return worst
