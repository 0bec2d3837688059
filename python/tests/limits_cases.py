"""The losses and activations of torch.nn as functions of (z, y, c), for inputs z of any size.

`z` are numbers [samples, 24], `y` targets in [0, 1] of the same shape, and `c` 24 factors. The result is one
number. A mean over elements that `c` multiplies shows every column of a result in its gradient by `c`.
"""
import torch
import torch.nn.functional as F
from torch import nn

WIDTH = 24
REDUCTIONS = ("mean", "sum", "none")
POSITIVE = torch.linspace(0.5, 2.0, WIDTH)  # weights of elements


def weighed(values, c):
    """One number of a tensor whose last axis, or only axis, is weighed by the factors."""
    if values.dim() == 0:
        return values * c[0]
    return (values * c[:values.shape[-1]]).mean() if values.dim() > 1 else (
        values * c[:1]).mean()


def of_elements(module):
    """A loss of numbers and targets."""
    return lambda z, y, c: weighed(module(z, y), c)


def of_signs(module):
    """A loss whose targets are -1 and 1."""
    return lambda z, y, c: weighed(module(z, 2 * (y > 0.5).float() - 1), c)


def of_classes(module, shape=(WIDTH,)):
    """A loss of logits [samples, *shape] and labels [samples, *shape[1:]]."""
    def loss(z, y, c):
        logits = z.reshape(-1, *shape)
        labels = (y.reshape(logits.shape).amax(1) * 1000).long() % shape[0]
        return weighed(module(logits, labels), c)
    return loss


def of_probabilities(module):
    """A loss of logits and probabilities."""
    return lambda z, y, c: weighed(module(z, y.softmax(1)), c)


def of_rows(module, count):
    """A loss of `count` tensors [samples, WIDTH / count], with a label of -1 or 1 for a row if `count` is 2."""
    def loss(z, y, c):
        rows = z.chunk(count, 1)
        given = (*rows, 2 * (y[:, 0] > 0.5).float() - 1) if count == 2 else rows
        return weighed(module(*given), c)
    return loss


def reduced(make, wrap, **variants):
    """A case for each reduction and variant of the arguments: `make` is a class of torch.nn."""
    cases = {}
    for reduction in REDUCTIONS:
        for name, options in {"": {}, **variants}.items():
            cases[f"{reduction}{' ' if name else ''}{name}"] = wrap(make(reduction=reduction, **options))
    return cases


def functional(function, wrap, **options):
    """A case of a function of torch.nn.functional with fixed options."""
    return wrap(lambda *given: function(*given, **options))


def probabilities(module, squash):
    """A loss of probabilities, which `squash` makes of the numbers."""
    return lambda z, y, c: weighed(module(squash(z), y), c)


def binary(squash):
    """The binary cross entropies of probabilities, with hard and soft targets and with weights."""
    cases = {}
    for reduction in REDUCTIONS:
        for name, weight in (("", None), (" weight", POSITIVE)):
            loss = nn.BCELoss(weight=weight, reduction=reduction)
            cases[f"{reduction}{name}"] = probabilities(loss, squash)
            cases[f"{reduction}{name} hard"] = lambda z, y, c, loss=loss: weighed(
                loss(squash(z), (y > 0.5).float()), c)
    cases["masked"] = lambda z, y, c: (F.binary_cross_entropy(
        squash(z), (y > 0.5).float(), reduction="none") * (y > 0.3)).sum() * c[0]
    return cases


def logit_binary():
    cases = reduced(nn.BCEWithLogitsLoss, of_elements, weight={"weight": POSITIVE},
                    pos_weight={"pos_weight": POSITIVE},
                    both={"weight": POSITIVE, "pos_weight": POSITIVE})
    hard = reduced(nn.BCEWithLogitsLoss, of_signs)  # targets beyond [0, 1] are linear
    return cases | {f"{name} -1": case for name, case in hard.items()}


def cross_entropies():
    weight = torch.linspace(0.5, 2.0, WIDTH)
    variants = {"weight": {"weight": weight}, "smoothing": {"label_smoothing": 0.1},
                "ignore": {"ignore_index": 3},
                "all": {"weight": weight, "label_smoothing": 0.1, "ignore_index": 3}}
    cases = reduced(nn.CrossEntropyLoss, of_classes, **variants)
    soft = reduced(nn.CrossEntropyLoss, of_probabilities, weight={"weight": weight},
                   smoothing={"label_smoothing": 0.1})
    image = reduced(nn.CrossEntropyLoss, lambda m: of_classes(m, (6, 4)),
                    smoothing={"label_smoothing": 0.1})
    return (cases | {f"soft {name}": case for name, case in soft.items()}
            | {f"image {name}": case for name, case in image.items()})


def linear_cross_entropies():
    """Those of a linear layer whose weights are fixed."""
    generator = torch.Generator().manual_seed(2)
    layer, bias = torch.randn(WIDTH, WIDTH, generator=generator) / 5, torch.linspace(-1.0, 1.0, WIDTH)

    def make(**options):
        return lambda z, labels: F.linear_cross_entropy(z, layer, labels, **options)
    return reduced(make, of_classes, bias={"linear_bias": bias}, ignore={"ignore_index": 3},
                   all={"linear_bias": bias, "weight": POSITIVE, "label_smoothing": 0.1})


def logged(wrap):
    """A loss of log-probabilities in place of logits."""
    def wrapped(module):
        inner = wrap(module)
        return lambda z, y, c: inner(z.log_softmax(1), y, c)
    return wrapped


def ctc(z, y, c):
    """12 time steps of 2 classes... of which the first is the blank."""
    logits = z.reshape(-1, 8, 3).log_softmax(2).transpose(0, 1)
    targets = 1 + (y[:, :2] > 0.5).long()
    count = z.shape[0]
    return F.ctc_loss(logits, targets, torch.full((count,), 8), torch.full((count,), 2)) * c[0]


def gaussian(**options):
    return lambda z, y, c: weighed(F.gaussian_nll_loss(z, y, y + 0.1, **options), c)


def learned_variance(z, y, c):
    return F.gaussian_nll_loss(y, 1 - y, z * z) * c[0]


def labels_of_many(z, y, c, **options):
    """Two labels of each sample, behind which a -1 ends the list."""
    first = (y[:, :1] * 1000).long() % WIDTH
    rest = torch.full((1, WIDTH - 2), -1).expand(z.shape[0], -1)
    labels = torch.cat([first, (first + 5) % WIDTH, rest], 1)
    return weighed(F.multilabel_margin_loss(z, labels, **options), c)


def distance(x, y):
    return 1 - F.cosine_similarity(x, y)


LOSSES = {
    "L1Loss": reduced(nn.L1Loss, of_elements),
    "NLLLoss": reduced(nn.NLLLoss, logged(of_classes), weight={"weight": POSITIVE},
                       ignore={"ignore_index": 3}),
    "PoissonNLLLoss": reduced(nn.PoissonNLLLoss, of_elements, full={"full": True}) | {
        "positive": probabilities(nn.PoissonNLLLoss(log_input=False), torch.abs),
        "positive full": lambda z, y, c: F.poisson_nll_loss(
            z.abs(), 9 * y, log_input=False, full=True) * c[0]},
    "GaussianNLLLoss": {
        "mean": gaussian(), "sum": gaussian(reduction="sum"), "none": gaussian(reduction="none"),
        "full": gaussian(full=True), "variance": learned_variance},
    "KLDivLoss": {
        f"{reduction} {log}": lambda z, y, c, reduction=reduction, log=log: weighed(F.kl_div(
            z.log_softmax(1), y.log_softmax(1) if log else y.softmax(1), reduction=reduction,
            log_target=log), c)
        for reduction in (*REDUCTIONS, "batchmean") for log in (False, True)} | {
        "sharp target": lambda z, y, c: F.kl_div(
            y.log_softmax(1), z.softmax(1), reduction="batchmean") * c[0],
        "sharp log target": lambda z, y, c: F.kl_div(
            y.log_softmax(1), z.log_softmax(1), reduction="batchmean", log_target=True) * c[0]},
    "MSELoss": reduced(nn.MSELoss, of_elements),
    "BCELoss": binary(torch.sigmoid) | {
        f"softmax {name}": case for name, case in binary(lambda z: z.softmax(1)).items()} | {
        f"clamp {name}": case for name, case in binary(lambda z: z.clamp(0, 1)).items()},
    "BCEWithLogitsLoss": logit_binary(),
    "HingeEmbeddingLoss": reduced(nn.HingeEmbeddingLoss, of_signs, margin={"margin": 90.0}),
    "MultiLabelMarginLoss": {
        reduction: lambda z, y, c, reduction=reduction: labels_of_many(z, y, c, reduction=reduction)
        for reduction in REDUCTIONS},
    "SmoothL1Loss": reduced(nn.SmoothL1Loss, of_elements, beta={"beta": 0.1}, zero={"beta": 0.0}),
    "HuberLoss": reduced(nn.HuberLoss, of_elements, delta={"delta": 90.0}),
    "SoftMarginLoss": reduced(nn.SoftMarginLoss, of_signs),
    "CrossEntropyLoss": cross_entropies(),
    "MultiLabelSoftMarginLoss": reduced(nn.MultiLabelSoftMarginLoss, of_elements,
                                        weight={"weight": POSITIVE}),
    "CosineEmbeddingLoss": reduced(nn.CosineEmbeddingLoss, lambda m: of_rows(m, 2),
                                   margin={"margin": 0.3}),
    "MarginRankingLoss": {
        reduction: lambda z, y, c, reduction=reduction: weighed(F.margin_ranking_loss(
            *z.chunk(2, 1), 2 * (y[:, :12] > 0.5).float() - 1, margin=0.3, reduction=reduction), c)
        for reduction in REDUCTIONS},
    "MultiMarginLoss": reduced(nn.MultiMarginLoss, of_classes, square={"p": 2},
                               weight={"weight": POSITIVE, "margin": 90.0}),
    "TripletMarginLoss": reduced(nn.TripletMarginLoss, lambda m: of_rows(m, 3), swap={"swap": True},
                                 one={"p": 1}),
    "TripletMarginWithDistanceLoss": reduced(
        nn.TripletMarginWithDistanceLoss, lambda m: of_rows(m, 3),
        cosine={"distance_function": distance}, swap={"swap": True}),
    "CTCLoss": {"mean": ctc},
}
LOSSES["NLLLoss2d"] = {"mean": logged(lambda m: of_classes(m, (6, 4)))(nn.NLLLoss())}
if hasattr(nn, "LinearCrossEntropyLoss"):  # not in torch 2.6
    LOSSES["LinearCrossEntropyLoss"] = linear_cross_entropies()


def activation(function):
    return lambda z, y, c: weighed(function(z), c)


SAME = torch.eye(4)


def attention(z, y, c):
    tokens = z.reshape(-1, 6, 4).transpose(0, 1)
    mixed = F.multi_head_attention_forward(tokens, tokens, tokens, 4, 2, SAME.repeat(3, 1), None, None,
                                           None, False, 0.0, SAME, None)[0]
    return weighed(mixed.transpose(0, 1).flatten(1), c)


ACTIVATIONS = {name: {"": activation(getattr(nn, name)())} for name in (
    "ReLU", "Hardtanh", "ReLU6", "Sigmoid", "Hardsigmoid", "Tanh", "SiLU", "Mish", "Hardswish", "ELU",
    "CELU", "SELU", "GLU", "GELU", "Hardshrink", "LeakyReLU", "LogSigmoid", "Softplus", "Softshrink",
    "Softsign", "Tanhshrink")}
ACTIVATIONS |= {name: {"": activation(getattr(nn, name)(dim=1))}
                for name in ("Softmin", "Softmax", "LogSoftmax")}
ACTIVATIONS |= {
    "Threshold": {"": activation(nn.Threshold(0.1, 20.0))},
    "RReLU": {"": activation(nn.RReLU(0.2, 0.2))},
    "Softmax2d": {"": activation(lambda z: nn.Softmax2d()(z.reshape(-1, 6, 2, 2)).flatten(1))},
    "PReLU": {"": lambda z, y, c: F.prelu(z, c[:1]).mean()},
    "MultiheadAttention": {"": attention},
}
ACTIVATIONS["GELU"]["tanh"] = activation(nn.GELU(approximate="tanh"))
ACTIVATIONS["ELU"]["alpha"] = activation(nn.ELU(1.7))
ACTIVATIONS["CELU"]["alpha"] = activation(nn.CELU(0.3))
ACTIVATIONS["Softplus"]["beta"] = activation(nn.Softplus(beta=2, threshold=9))
ACTIVATIONS["Hardtanh"]["wide"] = activation(nn.Hardtanh(-70, 80))

# Functions that losses are made of.
FUNCTIONS = {
    "logsumexp": lambda z: z.logsumexp(1)[:, None], "logaddexp": lambda z: torch.logaddexp(z, 1 - z),
    "logaddexp2": lambda z: torch.logaddexp2(z, 1 - z),
    "hypot": lambda z: torch.hypot(z, 1 - z), "large hypot": lambda z: torch.hypot(z * 1e18, z) * 1e-18,
    "small hypot": lambda z: torch.hypot(z * 1e-22, z * 2e-22) * 1e18,
    "entr": lambda z: torch.special.entr(z.sigmoid()), "xlogy": lambda z: torch.xlogy(z.sigmoid(), z.sigmoid()),
    "xlog1py": lambda z: torch.special.xlog1py(z.sigmoid(), -0.9 * z.sigmoid()),
    "asinh": torch.asinh, "atan": torch.atan, "erf": torch.erf, "erfc": torch.erfc,
    "ndtr": torch.special.ndtr,
    "normalize": lambda z: F.normalize(z, dim=1), "std": lambda z: z.std(1)[:, None],
    "var": lambda z: z.var(1)[:, None], "norm": lambda z: z.norm(dim=1)[:, None],
    "p norm": lambda z: z.norm(3, dim=1)[:, None], "largest norm": lambda z: z.norm(float("inf"), dim=1)[:, None],
    "sinh": lambda z: torch.sinh(z.clamp(-9, 9)),
    "log1p of exp": lambda z: torch.log1p(torch.exp(-z.abs())), "expm1": lambda z: torch.expm1(-z.abs()),
    "atan2": lambda z: torch.atan2(z, 1 - z),
    "layer_norm": lambda z: F.layer_norm(z, (WIDTH,)), "rms_norm": lambda z: F.rms_norm(z, (WIDTH,)),
    "group_norm": lambda z: F.group_norm(z, 4), "cosine_similarity": lambda z: F.cosine_similarity(
        *z.chunk(2, 1))[:, None], "pairwise_distance": lambda z: F.pairwise_distance(*z.chunk(2, 1))[:, None],
    "cdist": lambda z: torch.cdist(*z.reshape(-1, 12, 2).chunk(2, 1)).flatten(1)[:, :WIDTH],
    "tanh of exp": lambda z: torch.tanh(torch.exp(z.clamp(max=80))), "softmax of 4": lambda z: z.reshape(
        -1, 6, 4).softmax(1).flatten(1), 
    "digamma": lambda z: torch.digamma(z.abs() + 1), "rsqrt": lambda z: torch.rsqrt(z * z + 1),
    "logcumsumexp": lambda z: z.logcumsumexp(1), "turned logcumsumexp": lambda z: z.t().logcumsumexp(0).t(),
    "log_ndtr": torch.special.log_ndtr, "log of erfc": lambda z: torch.erfc(1 + z.clamp(-4, 4)).log(),
    "sinc": torch.sinc, "cosh": torch.cosh, "wide sinh": torch.sinh, "lgamma": torch.lgamma,
    "digamma of all": torch.digamma, "asinh of all": lambda z: torch.asinh(z * 1e3),
    "acosh": lambda z: torch.acosh(z.abs() + 1.5), "logit eps": lambda z: torch.logit(z, 1e-3),
    "logit": lambda z: torch.logit(z.abs().clamp(max=0.9)), "half norm": lambda z: z.norm(0.5, dim=1)[:, None],
    "zero norm": lambda z: (z * z.norm(0, dim=1, keepdim=True)), "lp_pool": lambda z: F.lp_pool1d(
        z[:, None].relu(), 3.0, 2)[:, 0], "lp_pool 2": lambda z: F.lp_pool2d(
        z.reshape(-1, 1, 4, 6).relu(), 2.0, (2, 1)).flatten(1),
    "glu": lambda z: F.glu(torch.cat([z, z], 1), 1), "gumbel": lambda z: (z - 3).softmax(1),
}


def all_cases():
    """Every case by its name."""
    cases = {f"{owner} {name}".strip(): case for table in (LOSSES, ACTIVATIONS)
             for owner, variants in table.items() for name, case in variants.items()}
    return cases | {name: activation(function) for name, function in FUNCTIONS.items()}
