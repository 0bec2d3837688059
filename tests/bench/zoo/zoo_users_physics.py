"""Equations, operators and other science as users' models have them, for scripts/zoo."""
import math

import torch
import torch.distributions as D
import torch.nn.functional as F
from torch import nn
from zoo_case import SAMPLES, case, entries_of, floats, integers


class KanLayer(nn.Module):
    """A layer of B-splines, as efficient-kan writes it."""

    def __init__(self, inputs, outputs, grid=5, order=3):
        super().__init__()
        self.order = order
        step = 2 / grid
        knots = (torch.arange(-order, grid + order + 1) * step - 1).expand(inputs, -1).contiguous()
        self.register_buffer("grid", knots)
        self.base = nn.Parameter(torch.randn(outputs, inputs) * 0.3)
        self.spline = nn.Parameter(torch.randn(outputs, inputs, grid + order) * 0.1)

    def forward(self, x):
        x, grid = x.unsqueeze(-1), self.grid
        bases = ((x >= grid[:, :-1]) & (x < grid[:, 1:])).to(x.dtype)
        for k in range(1, self.order + 1):
            bases = ((x - grid[:, :-(k + 1)]) / (grid[:, k:-1] - grid[:, :-(k + 1)])
                     * bases[:, :, :-1]
                     + (grid[:, k + 1:] - x) / (grid[:, k + 1:] - grid[:, 1:(-k)])
                     * bases[:, :, 1:])
        base = F.linear(F.silu(x.squeeze(-1)), self.base)
        return base + F.linear(bases.view(x.size(0), -1), self.spline.view(self.spline.size(0), -1))


class NeuralOde(nn.Module):
    """A neural differential equation, solved by Runge-Kutta with fixed steps."""

    def __init__(self):
        super().__init__()
        self.field = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))

    def slope(self, t, y):
        return self.field(torch.cat([y, t.expand(y.shape[0], 1)], 1))

    def forward(self, y):
        times = torch.linspace(0.0, 1.0, 5)
        for t0, t1 in zip(times[:-1], times[1:]):
            h = t1 - t0
            k1 = self.slope(t0, y)
            k2 = self.slope(t0 + h / 2, y + h * k1 / 2)
            k3 = self.slope(t0 + h / 2, y + h * k2 / 2)
            k4 = self.slope(t1, y + h * k3)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y


class Fno(nn.Module):
    """A Fourier neural operator."""

    def __init__(self, width=4, modes=3):
        super().__init__()
        self.modes, self.lift = modes, nn.Linear(2, width)
        self.weights = nn.Parameter(torch.rand(width, width, modes, dtype=torch.cfloat) / width)
        self.local, self.head = nn.Conv1d(width, width, 1), nn.Linear(width, 1)

    def forward(self, x):
        grid = torch.linspace(0, 1, x.shape[1]).expand(x.shape[0], -1)
        h = self.lift(torch.stack([x, grid], -1)).transpose(1, 2)
        spectrum = torch.fft.rfft(h)
        out = torch.zeros(x.shape[0], h.shape[1], spectrum.shape[-1], dtype=torch.cfloat)
        out[:, :, :self.modes] = torch.einsum("bix,iox->box", spectrum[:, :, :self.modes],
                                              self.weights)
        h = F.gelu(torch.fft.irfft(out, n=h.shape[-1]) + self.local(h))
        return self.head(h.transpose(1, 2)).squeeze(-1)


class FnoReal(nn.Module):
    """The same with real parameters, viewed as complex numbers."""

    def __init__(self, width=4, modes=3):
        super().__init__()
        self.modes, self.lift = modes, nn.Linear(2, width)
        self.weights = nn.Parameter(torch.rand(width, width, modes, 2) / width)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        grid = torch.linspace(0, 1, x.shape[1]).expand(x.shape[0], -1)
        h = self.lift(torch.stack([x, grid], -1)).transpose(1, 2)
        spectrum = torch.fft.rfft(h, norm="ortho")
        out = torch.zeros_like(spectrum)
        out[:, :, :self.modes] = torch.einsum("bix,iox->box", spectrum[:, :, :self.modes],
                                              torch.view_as_complex(self.weights))
        return self.head(torch.fft.irfft(out, n=h.shape[-1], norm="ortho").transpose(1, 2)).squeeze(-1)


class DeepOperator(nn.Module):
    """DeepONet: a branch of sensors and a trunk of places."""

    def __init__(self):
        super().__init__()
        self.branch = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 8))
        self.trunk = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 8))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, sensors, places):
        return torch.einsum("bi,bni->bn", self.branch(sensors),
                            self.trunk(places.unsqueeze(-1))) + self.bias


class Lista(nn.Module):
    """Unrolled shrinkage, with shared weights and a threshold for each step."""

    def __init__(self):
        super().__init__()
        self.encode, self.again = nn.Linear(8, 12, bias=False), nn.Linear(12, 12, bias=False)
        self.thresholds = nn.Parameter(torch.full((3, 1, 12), 0.1))
        self.decode = nn.Linear(12, 8, bias=False)

    def forward(self, y):
        first = self.encode(y)
        x = F.softshrink(first, 0.1)
        for threshold in self.thresholds:
            c = first + self.again(x)
            x = torch.sign(c) * F.relu(c.abs() - threshold)
        return self.decode(x)


class Burgers(nn.Module):
    """A physics-informed network: its loss has the derivatives of its output."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh(),
                                 nn.Linear(12, 1))

    def forward(self, x, t):
        x, t = x.requires_grad_(True), t.requires_grad_(True)
        u = self.net(torch.cat([x, t], dim=1))
        def derivative(y, z):
            return torch.autograd.grad(y, z, torch.ones_like(y), create_graph=True)[0]
        u_x = derivative(u, x)
        return (derivative(u, t) + u * u_x - 0.01 / math.pi * derivative(u_x, x)).pow(2).mean()


class ChebyshevKan(nn.Module):
    """KAN layers of Chebyshev polynomials, then of radial functions (FastKAN)."""

    def __init__(self, degree=4):
        super().__init__()
        self.coefficients = nn.Parameter(torch.empty(3, 8, degree + 1))
        nn.init.normal_(self.coefficients, mean=0.0, std=1 / (3 * (degree + 1)))
        self.register_buffer("arange", torch.arange(0, degree + 1, 1))
        self.grid = nn.Parameter(torch.linspace(-2, 2, 5), requires_grad=False)
        self.norm, self.spline = nn.LayerNorm(8), nn.Linear(40, 2, bias=False)
        self.base = nn.Linear(8, 2)

    def forward(self, x):
        x = torch.tanh(x).view((-1, 3, 1)).expand(-1, -1, 5)
        x = 0.999 * x
        x = x.acos()
        x *= self.arange
        x = x.cos()
        y = torch.einsum("bid,iod->bo", x, self.coefficients)
        basis = torch.exp(-(((self.norm(y)[..., None] - self.grid) / 1.0) ** 2))
        return self.spline(basis.view(*basis.shape[:-2], -1)) + self.base(F.silu(y))


class Hamiltonian(nn.Module):
    """The derivatives of an energy give the motion."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 12), nn.Softplus(),
                                 nn.Linear(12, 1, bias=False))
        self.register_buffer("j", torch.cat([torch.eye(4)[2:], -torch.eye(4)[:2]]))

    def forward(self, x):
        with torch.enable_grad():
            x = x.clone().requires_grad_()
            energy = self.net(x)
            slope = torch.autograd.grad(energy.sum(), x, create_graph=True)[0]
        return slope @ self.j.t()


class Spiking(nn.Module):
    """Leaky neurons with spikes: a step in the forward pass, a fast sigmoid in the backward one."""

    def __init__(self, steps=5, beta=0.9):
        super().__init__()
        self.steps, self.beta = steps, beta
        self.fc1, self.fc2 = nn.Linear(12, 16), nn.Linear(16, 3)

    @staticmethod
    def spike(u):
        soft = u / (1 + 25 * u.abs())
        return ((u > 0).float() - soft).detach() + soft

    def forward(self, x):
        mem1 = torch.zeros(x.shape[0], 16)
        mem2 = torch.zeros(x.size(0), 3)
        spikes, potentials = [], []
        for step in range(self.steps):
            reset = (mem1 - 1.0 > 0).float().detach()
            mem1 = self.beta * mem1 + self.fc1(x) - reset
            spk1 = self.spike(mem1 - 1.0)
            mem2 = self.beta * mem2 + self.fc2(spk1)
            spikes.append(self.spike(mem2 - 1.0))
            potentials.append(mem2)
        return torch.stack(spikes, dim=0), torch.stack(potentials, dim=0)


def spiking_loss(outputs, target):
    """The cross entropy of every time step."""
    _, mem = outputs
    loss_val = torch.zeros((1), dtype=torch.float)
    for step in range(mem.size(0)):
        loss_val += F.cross_entropy(mem[step], target)
    return loss_val.sum()


class BayesLinear(nn.Module):
    """A layer with normal distributions for weights, and its divergence from a mixture."""

    def __init__(self, i, o):
        super().__init__()
        self.weight_mu = nn.Parameter(torch.empty(o, i).uniform_(-0.2, 0.2))
        self.weight_rho = nn.Parameter(torch.empty(o, i).uniform_(-5, -4))
        self.bias_mu = nn.Parameter(torch.zeros(o))
        self.bias_rho = nn.Parameter(torch.full((o,), -4.5))

    @staticmethod
    def log_prior(w, pi=0.5, s1=1.0, s2=math.exp(-3)):
        p1 = torch.exp(D.Normal(0, s1).log_prob(w))
        p2 = torch.exp(D.Normal(0, s2).log_prob(w))
        return torch.log(pi * p1 + (1 - pi) * p2).sum()

    def forward(self, x):
        sigma_w, sigma_b = torch.log1p(torch.exp(self.weight_rho)), F.softplus(self.bias_rho)
        w = self.weight_mu + sigma_w * torch.randn_like(sigma_w)
        b = self.bias_mu + sigma_b * torch.randn_like(sigma_b)
        log_q = (-math.log(math.sqrt(2 * math.pi)) - torch.log(sigma_w)
                 - (w - self.weight_mu) ** 2 / (2 * sigma_w ** 2)).sum()
        log_q = log_q + D.Normal(self.bias_mu, sigma_b).log_prob(b).sum()
        return F.linear(x, w, b), log_q - self.log_prior(w) - self.log_prior(b)


class BayesNet(nn.Module):
    """Bayes by backprop with the average of some forward passes."""

    def __init__(self):
        super().__init__()
        self.l1, self.l2 = BayesLinear(5, 8), BayesLinear(8, 3)

    def forward(self, x, y, samples: int = 2):
        outputs, kls = [], []
        for _ in range(samples):
            h, kl1 = self.l1(x)
            o, kl2 = self.l2(F.relu(h))
            outputs.append(F.log_softmax(o, dim=1))
            kls.append(kl1 + kl2)
        kl = torch.stack(kls).mean()
        return kl / 100 + F.nll_loss(torch.stack(outputs).mean(0), y, reduction="sum")


class DeepEquilibrium(nn.Module):
    """A fixed point that is found without gradients, and one step with them."""

    def __init__(self, d=8):
        super().__init__()
        self.w, self.u = nn.Linear(d, d), nn.Linear(5, d)
        self.w.weight.data.mul_(0.3)
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, 3)

    def f(self, z, x):
        return self.norm(torch.tanh(self.w(z) + self.u(x)))

    def forward(self, x):
        with torch.no_grad():
            z = torch.zeros(x.shape[0], 8)
            for _ in range(6):
                z = self.f(z, x)
        z = self.f(z, x)
        return self.head(z)


class LagrangianNet(nn.Module):
    """Accelerations from a Lagrangian: a mass matrix, its Cholesky factor, and derivatives."""

    def __init__(self, n=2):
        super().__init__()
        self.n = n
        self.mass = nn.Sequential(nn.Linear(n, 12), nn.Softplus(), nn.Linear(12, n * (n + 1) // 2))
        self.potential = nn.Sequential(nn.Linear(n, 12), nn.Tanh(), nn.Linear(12, 1))
        rows, cols = torch.tril_indices(n, n)
        self.register_buffer("rows", rows), self.register_buffer("cols", cols)

    def lagrangian(self, q, v):
        l = torch.zeros(q.shape[0], self.n, self.n)
        l[:, self.rows, self.cols] = self.mass(q)
        m = l @ l.transpose(1, 2) + 0.5 * torch.eye(self.n)
        return 0.5 * torch.einsum("bi,bij,bj->b", v, m, v) - self.potential(q).squeeze(-1), m

    def forward(self, q, v):
        q, v = q.requires_grad_(), v
        lag, m = self.lagrangian(q, v)
        dq = torch.autograd.grad(lag.sum(), q, create_graph=True)[0]
        momentum = torch.einsum("bij,bj->bi", m, v)
        coriolis = torch.stack([
            (torch.autograd.grad(momentum[:, i].sum(), q, create_graph=True)[0] * v).sum(-1)
            for i in range(self.n)], 1)
        a, b = m[:, 0, 0], m[:, 0, 1]
        c, d = m[:, 1, 0], m[:, 1, 1]
        det = a * d - b * c
        inverse = torch.stack([torch.stack([d, -b], -1), torch.stack([-c, a], -1)], -2)
        inverse = inverse / det[:, None, None]
        return torch.einsum("bij,bj->bi", inverse, dq - coriolis)


class WavePinn(nn.Module):
    """The wave equation with a learned speed, and losses that weigh themselves."""

    def __init__(self, layers=(2, 16, 16, 1)):
        super().__init__()
        self.depth = len(layers) - 1
        self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in zip(layers, layers[1:]))
        self.a = nn.Parameter(torch.ones(self.depth - 1))
        self.c = nn.Parameter(torch.tensor([1.5]))
        self.log_vars = nn.ParameterDict({k: nn.Parameter(torch.zeros(())) for k in ("pde", "ic", "bc")})
        for linear in self.linears:
            nn.init.xavier_normal_(linear.weight.data, gain=1.0)
            nn.init.zeros_(linear.bias.data)

    def u(self, x, t):
        h = torch.cat((x, t), dim=1)
        for i, linear in enumerate(self.linears[:-1]):
            h = torch.sin(self.a[i] * linear(h))
        return self.linears[-1](h)

    def grads(self, u, *wrt):
        return torch.autograd.grad(u, wrt, grad_outputs=torch.ones_like(u), create_graph=True,
                                   retain_graph=True)

    def forward(self, x, t):
        x.requires_grad, t.requires_grad = True, True
        u_x, u_t = self.grads(self.u(x, t), x, t)
        u_xx, u_tt = self.grads(u_x, x)[0], self.grads(u_t, t)[0]
        t0 = torch.zeros_like(t, requires_grad=True)
        start = self.u(x, t0)
        losses = {
            "pde": F.mse_loss(u_tt, self.c ** 2 * u_xx),
            "ic": (start - torch.sin(math.pi * x)).square().mean() + self.grads(start, t0)[0].square().mean(),
            "bc": sum(self.u(torch.full_like(x, edge), t).square().mean() for edge in (0.0, 1.0))}
        return sum(torch.exp(-self.log_vars[k]) * v + self.log_vars[k] for k, v in losses.items())


class DeepKernel(nn.Module):
    """A Gaussian process on learned features: the marginal likelihood of the mini-batch."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
        self.raw_lengthscale = nn.Parameter(torch.zeros(1, 2))
        self.raw_noise, self.mean = nn.Parameter(torch.tensor(-2.0)), nn.Parameter(torch.zeros(1))

    def forward(self, x, y):
        z = self.features(x) / F.softplus(self.raw_lengthscale)
        square = z.pow(2).sum(-1)
        k = torch.exp(-0.5 * (square[:, None] + square[None] - 2 * z @ z.T).clamp_min(0))
        k = k + (F.softplus(self.raw_noise) + 1e-2) * torch.eye(x.size(0))
        chol = torch.linalg.cholesky(k)
        residual = (y - self.mean).unsqueeze(-1)
        alpha = torch.cholesky_solve(residual, chol)
        fit = -0.5 * (residual.mT @ alpha).squeeze()
        logdet = chol.diagonal().log().sum()
        return -(fit - logdet - 0.5 * x.size(0) * math.log(2 * math.pi)) / x.size(0)


class ConvexNet(nn.Module):
    """A function that is convex in its input, its gradient, and arithmetic units."""

    def __init__(self, d=3, h=8):
        super().__init__()
        self.wx, self.wz = nn.ModuleList(nn.Linear(d, h) for _ in range(2)), nn.Linear(h, h, bias=False)
        self.out = nn.Linear(h, 1)
        self.w_hat, self.m_hat = (nn.Parameter(torch.randn(2, d) * 0.5) for _ in range(2))
        self.g = nn.Parameter(torch.randn(2, d) * 0.1)

    def potential(self, x):
        z = F.softplus(self.wx[0](x))
        z = F.softplus(F.linear(z, F.softplus(self.wz.weight)) / 8 + self.wx[1](x))
        return F.linear(z, self.out.weight.exp() / 8, self.out.bias) + 0.05 * x.pow(2).sum(1, True)

    def forward(self, x):
        x = x.requires_grad_(True)
        transport = torch.autograd.grad(self.potential(x).sum(), x, create_graph=True)[0]
        w = torch.tanh(self.w_hat) * torch.sigmoid(self.m_hat)
        a = F.linear(x, w)
        m = torch.exp(F.linear(torch.log(torch.abs(x) + 1e-3), w))
        g = torch.sigmoid(F.linear(x, self.g))
        return torch.cat([transport, g * a + (1 - g) * m], 1)


CASES = {
    "kan": case(lambda: nn.Sequential(KanLayer(3, 8), KanLayer(8, 2)), nn.CrossEntropyLoss,
                lambda: floats(3), lambda: integers(2)),
    "neural_ode": case(NeuralOde, nn.MSELoss, lambda: floats(3), lambda: floats(3)),
    "fourier_operator": case(FnoReal, nn.MSELoss, lambda: floats(16), lambda: floats(16)),
    "fourier_operator_complex": case(Fno, nn.MSELoss, lambda: floats(16), lambda: floats(16)),
    "deep_o_net": case(DeepOperator, nn.MSELoss, lambda: (floats(10), floats(7)), lambda: floats(7)),
    "lista": case(Lista, nn.MSELoss, lambda: floats(8), lambda: floats(8)),
    "burgers": case(Burgers, None, lambda: (floats(1), floats(1))),
    "chebyshev_kan": case(ChebyshevKan, nn.CrossEntropyLoss, lambda: floats(3), lambda: integers(2)),
    "hamiltonian": case(Hamiltonian, nn.MSELoss, lambda: floats(4), lambda: floats(4)),
    "spiking": case(Spiking, spiking_loss, lambda: floats(12), lambda: integers(3)),
    "bayes_net": case(BayesNet, None, lambda: {"x": floats(5), "y": integers(3)}),
    "deep_equilibrium": case(DeepEquilibrium, nn.CrossEntropyLoss, lambda: floats(5),
                             lambda: integers(3)),
    "lagrangian": case(LagrangianNet, nn.MSELoss, lambda: (floats(2), floats(2)), lambda: floats(2)),
    "wave_pinn": case(WavePinn, None, lambda: (torch.rand(SAMPLES, 1), torch.rand(SAMPLES, 1))),
    "deep_kernel": case(DeepKernel, None, lambda: (floats(3), floats())),
    "convex_net": case(ConvexNet, nn.MSELoss, lambda: floats(3), lambda: floats(5)),
}


def entries():
    """The entries of all models."""
    return entries_of(CASES)
