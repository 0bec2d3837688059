"""Contents of tensors that decide what is computed: known ones, masks, and checks for overflow.

`capture` compares loss, outputs and gradients of the program with those of the module.
"""
import unittest

import capture_support as support
import torch
import torch.nn.functional as F
from easyscale.tracing import capture, errors
from torch import nn

SEED = 3


class Layer(nn.Module):
    """A linear layer and a function of (module, its output)."""

    def __init__(self, function):
        super().__init__()
        self.linear, self.function = nn.Linear(8, 8), function
        self.register_buffer("upper", torch.ones(8, 8).triu(1).bool())
        self.register_buffer("lengths", torch.tensor([3, 5]))

    def forward(self, x):
        return self.function(self, self.linear(x))


def weighted(outputs, targets):
    """A loss that depends on every output in another way."""
    flat = outputs.flatten(1) if outputs.dim() > 1 else outputs[:, None]
    return (flat * torch.linspace(0.5, 1.5, flat.shape[1])).sin().mean()


def pairs(y):
    return y[:, :, None] * y[:, None, :]


def branched(_, y):
    mask = torch.zeros(8, dtype=torch.bool)
    mask[2:4] = True
    if mask.any() and int(mask.sum()) == 2:
        return y[:, mask]
    return y


def clamped(_, y):
    if torch.isinf(y).any() or torch.isnan(y).any():
        y = y.clamp(-1, 1)
    if not torch.isfinite(y).all():
        y = torch.zeros_like(y)
    return y


def counted(_, y):
    begin = torch.arange(8)[3]
    return y[:, torch.arange(begin, 8 - begin + 2)] * torch.arange(4)[1].item()


# For each name a function of (module, y [samples, 8]).
KNOWN = {
    "a mask of its own": lambda m, y: pairs(y)[:, torch.ones(8, 8).triu(1).bool()],
    "a mask that is a buffer": lambda m, y: pairs(y)[:, m.upper],
    "masked_select": lambda m, y: torch.masked_select(pairs(y), m.upper).view(len(y), -1),
    "a number of a buffer": lambda m, y: y[:, :int(m.lengths.max())],
    "a branch on a mask": branched, "a number of an arange": counted,
    "a list": lambda m, y: y[:, torch.tensor([2, 3]).add(1).tolist()],
    "a check for overflow": clamped,
}


def doubled_where_positive(o, _):
    y = o.clone()
    mask = y > 0
    y[mask] = y[mask] * 2
    return y.mean()


# For each name a loss of (o [samples, 8], t [samples] in [0, 8)).
SELECTED = {
    "a mean of squares": lambda o, t: ((o[t > 2, 0] - t[t > 2].float()) ** 2).mean(),
    "a sum": lambda o, t: o[o > 0].exp().sum() / 8,
    "a mean over the last axis": lambda o, t: o[t > 2].softmax(-1)[:, 1:3].mean(-1).mean(),
    "cross_entropy": lambda o, t: F.cross_entropy(o[t > 2], t[t > 2]),
    "cross_entropy of rows": lambda o, t: F.cross_entropy(o, t, reduction="none")[t > 2].mean(),
    "nll_loss": lambda o, t: F.nll_loss(o[t > 2].log_softmax(1), t[t > 2]),
    "mse_loss": lambda o, t: F.mse_loss(o[t > 2], o[t > 2].detach() * 2),
    "smooth_l1_loss, sum": lambda o, t: F.smooth_l1_loss(
        o[t > 2, 1], t[t > 2].float(), reduction="sum"),
    "a logarithm of what is not chosen": lambda o, t: o[o > 0.1].log().mean(),
    "a layer": lambda o, t: F.linear(o[t > 2], torch.ones(3, 8)).square().mean(),
    "masked_select": lambda o, t: torch.masked_select(o, (t > 2)[:, None]).mean(),
    "an assignment": doubled_where_positive,
}


class Known(unittest.TestCase):
    def test_what_follows_from_constants_is_known(self):
        for name, function in KNOWN.items():
            with self.subTest(name, seed=SEED):
                torch.manual_seed(SEED)
                capture(Layer(function), weighted, torch.randn(16, 8), torch.zeros(16))

    def test_what_an_input_was_written_into_is_not_known(self):
        def written(_, y):
            mask = torch.zeros(8)
            part = mask[2:4]
            mask[:] = y[0]
            return y * 2 if part.sum() > 0 else y
        with self.assertRaisesRegex(errors.DataDependent, "branches on the content"):
            capture(Layer(written), weighted, torch.randn(16, 8), torch.zeros(16))

    def test_other_branches_beside_a_check_for_overflow_are_refused(self):
        def mixed(_, y):
            if y.sum() > 0 and not torch.isfinite(y).all():
                y = y.clamp(-1, 1)
            return y
        with self.assertRaisesRegex(errors.DataDependent, "branches on the content"):
            capture(Layer(mixed), weighted, torch.randn(16, 8), torch.zeros(16))


class Chosen(unittest.TestCase):
    def test_elements_that_a_mask_chooses_are_reduced(self):
        for name, loss in SELECTED.items():
            with self.subTest(name, seed=SEED):
                torch.manual_seed(SEED)
                capture(nn.Linear(8, 8), loss, torch.randn(16, 8), torch.randint(0, 8, (16,)))

    def test_what_needs_their_number_is_refused_with_its_line(self):
        refused = {
            "sort": lambda o, t: o[t > 2].sort(0)[0].mean(),
            "shape": lambda o, t: o[t > 2].sum() / o[t > 2].shape[0],
            "t": lambda o, t: (o[t > 2].t() @ o[t > 2]).mean(),
        }
        for name, loss in refused.items():
            with self.subTest(name), self.assertRaisesRegex(
                    errors.DataDependent, rf"contents_test\.py:\d+ the model uses elements.*, "
                                          rf"in {name};"):
                capture(nn.Linear(8, 8), loss, torch.randn(16, 8), torch.randint(0, 8, (16,)))

    def test_a_mask_that_was_changed_meanwhile_is_another_one(self):
        def changed(o, t):
            label = t.clone()
            first = o[label > 2]
            label += 1
            return (first * o[label > 2]).mean()
        with self.assertRaisesRegex(errors.DataDependent, "elements that a computed mask chooses"):
            capture(nn.Linear(8, 8), changed, torch.randn(16, 8), torch.randint(3, 6, (16,)))

    def test_masks_of_two_kinds_do_not_meet(self):
        with self.assertRaisesRegex(errors.DataDependent, "elements that a computed mask chooses"):
            capture(nn.Linear(8, 8), lambda o, t: (o[t > 2] * o[t < 6]).mean(),
                    torch.randn(16, 8), torch.randint(3, 6, (16,)))


class Experts(unittest.TestCase):
    def test_a_mixture_of_experts_is_computed_for_all_tokens(self):
        try:
            import transformers
        except ImportError:
            self.skipTest("needs transformers")
        transformers.logging.set_verbosity_error()
        own = {"n_routed_experts": 4, "q_lora_rank": 8, "kv_lora_rank": 8, "qk_nope_head_dim": 4,
               "qk_rope_head_dim": 4, "v_head_dim": 8, "first_k_dense_replace": 0, "n_group": 1,
               "moe_intermediate_size": 8, "num_experts_per_tok": 2, "topk_group": 1,
               "num_key_value_heads": 2}
        for name, options in (("Mixtral", {}), ("GraniteMoe", {}), ("DeepseekV2", own)):
            config = getattr(transformers, f"{name}Config")(
                **{"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
                   "num_key_value_heads": 1, "intermediate_size": 32, "vocab_size": 33,
                   "num_local_experts": 4, **options})
            torch.manual_seed(SEED)
            ids = torch.randint(0, 33, (4, 6))
            with self.subTest(name):
                captured = capture(getattr(transformers, f"{name}ForCausalLM")(config), None,
                                   {"input_ids": ids, "labels": ids})
                self.assertGreater(len(captured.program.nodes), 100)


if __name__ == "__main__":
    unittest.main()
