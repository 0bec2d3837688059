"""Mixtures of experts of transformers while a forward pass is traced.

Such a block gathers the tokens of each expert, so its shapes depend on the data. Computing every
expert for all tokens, with weight 0 where it is not chosen, gives the same result and gradients.
"""
from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

BLOCKS = {"mixtral": "MixtralSparseMoeBlock", "qwen2_moe": "Qwen2MoeSparseMoeBlock",
          "qwen3_moe": "Qwen3MoeSparseMoeBlock", "olmoe": "OlmoeSparseMoeBlock"}

# Blocks with a method `moe` (tokens, numbers of the chosen experts, their weights).
CHOSEN = {"deepseek_v2": "DeepseekV2MoE", "deepseek_v3": "DeepseekV3MoE",
          "glm4_moe": "Glm4MoeMoE", "dots1": "Dots1MoE"}
# Blocks with the weights of all experts in one parameter.
JOINED = {"granitemoe": "GraniteMoeMoE", "granitemoeshared": "GraniteMoeSharedMoE",
          "granitemoehybrid": "GraniteMoeHybridMoE"}


def _sum(experts: Iterable[Callable], x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    total = torch.zeros_like(x)
    for i, expert in enumerate(experts):
        total = total + expert(x) * ((chosen == i) * weights).sum(-1, keepdim=True)
    return total


def _chosen(real: Callable) -> Callable:
    def moe(self: Any, hidden_states: Tensor, topk_indices: Tensor, topk_weights: Tensor) -> Tensor:
        if not isinstance(self.experts, nn.ModuleList):
            return real(self, hidden_states, topk_indices, topk_weights)
        return _sum(self.experts, hidden_states, topk_indices, topk_weights)
    return moe


def _dense(real: Callable) -> Callable:
    def forward(self: Any, hidden_states: Tensor) -> Any:
        if not isinstance(self.experts, nn.ModuleList) or (
                self.training and getattr(self, "jitter_noise", 0)):
            return real(self, hidden_states)
        x = hidden_states.reshape(-1, hidden_states.shape[-1])
        logits = self.gate(x)
        weights, chosen = torch.topk(torch.softmax(logits, 1), self.top_k, -1)
        if getattr(self, "norm_topk_prob", True):
            weights = weights / weights.sum(-1, keepdim=True)
        total = _sum(self.experts, x, chosen, weights)
        if hasattr(self, "shared_expert"):
            share = torch.sigmoid(self.shared_expert_gate(x))
            total = total + share * self.shared_expert(x)
        return total.reshape(hidden_states.shape), logits
    return forward


def _joined(real: Callable) -> Callable:
    def forward(self: Any, layer_input: Tensor) -> Any:
        x = layer_input.reshape(-1, layer_input.shape[-1])
        logits = self.router.layer(x).float()
        best, chosen = logits.topk(self.router.top_k, dim=1)
        weights = torch.softmax(best, dim=1)

        def expert(number: int) -> Callable:
            def apply(tokens: Tensor) -> Tensor:
                a, b = nn.functional.linear(tokens, self.input_linear.weight[number]).chunk(2, -1)
                return nn.functional.linear(self.activation(a) * b,
                                            self.output_linear.weight[number])
            return apply
        experts = [expert(i) for i in range(self.router.num_experts)]
        return _sum(experts, x, chosen, weights).view(layer_input.shape), logits
    return forward


@contextlib.contextmanager
def dense_experts(exchanged: Callable[..., Any]) -> Iterator[None]:
    """In this block the known mixtures of experts are computed for all tokens.

    `exchanged(owner, name, replacement)` sets an attribute for the time of a block.
    """
    with contextlib.ExitStack() as stack:
        for families, method, dense in ((BLOCKS, "forward", _dense), (CHOSEN, "moe", _chosen),
                                        (JOINED, "forward", _joined)):
            for family, name in families.items():
                module = sys.modules.get(f"transformers.models.{family}.modeling_{family}")
                real = getattr(getattr(module, name, None), method, None)
                if real is not None:
                    stack.enter_context(exchanged(getattr(module, name), method, dense(real)))
        yield
