"""Recognises stochastic depth in the neutral graph: samples that are dropped from a branch.

Libraries write it with a Bernoulli draw [n,1,...] that is divided by the probability to keep, or
with floor(keep + uniform draw). Both become the operator sample_dropout, which is the identity in
evaluation.
"""
from __future__ import annotations

from typing import Any

from .graph import Graph, Node, Ref, refs

SAMPLE_DROPOUT = "aten.sample_dropout.easyscale"


class _Finder:
    def __init__(self, graph: Graph):
        self.graph = graph
        self.maker = {output: node for node in graph.nodes for output in node.outputs}
        self.uses: dict[int, int] = {}
        for node in graph.nodes:
            for value in refs(node.args):
                self.uses[value] = self.uses.get(value, 0) + 1

    def made_by(self, argument: Any, target: str) -> Node | None:
        """The node of an argument, if it is of the operator and nothing else reads it."""
        if not isinstance(argument, Ref) or self.uses.get(argument.id) != 1:
            return None
        node = self.maker.get(argument.id)
        return node if node is not None and node.target == target else None

    def number(self, argument: Any) -> float | None:
        """The number that an argument or a constant is."""
        if isinstance(argument, Ref):
            constant = self.graph.constants.get(argument.id)
            return constant.item() if constant is not None and constant.numel() == 1 else None
        return argument

    def rows(self, node: Node) -> bool:
        """True if a draw has one number for every sample."""
        return all(size == 1 for size in self.graph.metas[node.outputs[0]].shape[1:])

    def bernoulli(self, x: Any, factor: Any) -> tuple[Any, float, int] | None:
        """x * (bernoulli / keep): (x, p, site)."""
        scaled = self.made_by(factor, "aten.div.Tensor")
        draw = self.made_by(scaled.args["self"], "aten.bernoulli.p") if scaled else None
        if draw is None or not self.rows(draw):
            return None
        keep = draw.args["p"]
        if self.number(scaled.args["other"]) != keep:
            return None
        return x, 1 - keep, draw.site

    def floored(self, x: Any, factor: Any) -> tuple[Any, float, int] | None:
        """(x / keep) * floor(keep + uniform): (x, p, site)."""
        scaled, floor = self.made_by(x, "aten.div.Tensor"), self.made_by(
            factor, "aten.floor.default")
        total = self.made_by(floor.args["self"], "aten.add.Tensor") if scaled and floor else None
        if total is None:
            return None
        sides = (total.args["self"], total.args["other"])
        for draw_side, keep_side in (sides, sides[::-1]):
            draw = self.made_by(draw_side, "aten.rand.default")
            keep = self.number(keep_side)
            if draw and self.rows(draw) and keep == self.number(scaled.args["other"]):
                self.graph.mirrored.add(draw.site)  # a large number keeps a sample
                return scaled.args["self"], 1 - keep, draw.site
        return None


def name_stochastic_depth(graph: Graph) -> None:
    """Exchanges the multiplications with a mask of samples."""
    finder = _Finder(graph)
    for node in graph.nodes:
        if node.target != "aten.mul.Tensor":
            continue
        sides = (node.args["self"], node.args["other"])
        found = next((match for x, factor in (sides, sides[::-1])
                      for match in (finder.bernoulli(x, factor), finder.floored(x, factor))
                      if match), None)
        if found:
            x, p, node.site = found
            node.target, node.args = SAMPLE_DROPOUT, {"self": x, "p": p}
