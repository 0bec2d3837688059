"""Which calls draw random numbers.

Draws are numbered in the order of execution; in training the number is the site of the file's node.
The self-check makes the module draw the same numbers in the same order.
"""
from __future__ import annotations

from typing import Any

# Operators that draw only under a condition on their arguments.
CONDITIONAL = {
    "dropout": ("p", "train"), "dropout_": ("p", "train"),
    "feature_dropout": ("p", "train"), "feature_dropout_": ("p", "train"),
    "alpha_dropout": ("p", "train"), "alpha_dropout_": ("p", "train"),
    "feature_alpha_dropout": ("p", "train"), "native_dropout": ("p", "train"),
    "scaled_dot_product_attention": ("dropout_p",),
    "rrelu": ("training",), "rrelu_": ("training",),
    "rrelu_with_noise": ("training",), "rrelu_with_noise_": ("training",),
}
ALWAYS = {"bernoulli", "bernoulli_", "rand", "rand_like", "randn", "randn_like", "randint",
          "randint_like", "normal", "normal_", "uniform_", "random_", "randperm", "multinomial",
          "exponential_", "poisson"}


RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu"}


def draws(target: str, args: dict[str, Any]) -> int:
    """How often the call of the aten operator `target` draws random numbers."""
    name = target.split(".")[1]
    if name in RECURRENT:  # a dropout between two layers
        return args["num_layers"] - 1 if args.get("dropout") and args.get("train") else 0
    if name in CONDITIONAL:
        return int(all(args[condition] for condition in CONDITIONAL[name]))
    return int(name in ALWAYS)
