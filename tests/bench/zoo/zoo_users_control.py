"""Models of reinforcement learning as users write them, for scripts/zoo."""
import torch
import torch.distributions as D
import torch.nn.functional as F
from torch import nn
from torch.distributions import Normal
from zoo_case import SAMPLES, case, entries_of, floats, integers


class Dueling(nn.Module):
    """A dueling network with the loss of double Q-learning, and a soft actor."""

    def __init__(self):
        super().__init__()
        def net():
            return nn.Sequential(nn.Linear(5, 16), nn.ELU(), nn.Linear(16, 4))
        self.online, self.target, self.actor = net(), net().requires_grad_(False), nn.Linear(5, 4)

    def q(self, net, x):
        out = net(x)
        value, advantage = out[:, :1], out[:, 1:]
        return value + advantage - advantage.mean(1, keepdim=True)

    def forward(self, state, action, reward, after, done):
        q = self.q(self.online, state).gather(1, action[:, None]).squeeze(1)
        with torch.no_grad():
            best = self.q(self.online, after).argmax(1, keepdim=True)
            wanted = reward + 0.9 * (1 - done) * self.q(self.target, after).gather(1, best).squeeze(1)
        mean, log_std = self.actor(state).chunk(2, -1)
        policy = Normal(mean, log_std.clamp(-5, 2).exp())
        raw = policy.rsample()
        log_prob = (policy.log_prob(raw) - torch.log(1 - raw.tanh().pow(2) + 1e-6)).sum(-1)
        return F.huber_loss(q, wanted) + 0.1 * log_prob.mean()


class Ppo(nn.Module):
    """The losses of PPO from one mini-batch, with an entropy and advantages by a reversed loop."""

    def __init__(self):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(4, 12), nn.Tanh())
        self.policy, self.value = nn.Linear(12, 3), nn.Linear(12, 1)

    def forward(self, states, actions, rewards, dones, old):
        h = self.shared(states)
        dist = torch.distributions.Categorical(logits=self.policy(h))
        values = self.value(h).squeeze(-1)
        with torch.no_grad():
            advantages = torch.zeros_like(rewards)
            last = torch.zeros_like(rewards[:, 0])
            for t in reversed(range(rewards.size(1) - 1)):
                delta = rewards[:, t] + 0.9 * values[:, t + 1] * (1 - dones[:, t]) - values[:, t]
                advantages[:, t] = last = delta + 0.8 * (1 - dones[:, t]) * last
            returns = advantages + values
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        ratio = torch.exp(dist.log_prob(actions) - old)
        s1, s2 = ratio * advantages, torch.clamp(ratio, 0.8, 1.2) * advantages
        actor = -torch.min(s1, s2).mean()
        clipped = values.detach() + (values - values.detach()).clamp(-0.2, 0.2)
        critic = torch.max((values - returns) ** 2, (clipped - returns) ** 2).mean()
        return actor + 0.5 * critic - 0.01 * dist.entropy().mean()


class C51(nn.Module):
    """Distributional Q-learning: a projection by index_add over the flat mini-batch."""

    def __init__(self, atoms=5):
        super().__init__()
        self.atoms, self.v_min, self.v_max = atoms, -2.0, 2.0
        self.register_buffer("support", torch.linspace(-2.0, 2.0, atoms))
        self.net = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 2 * atoms))

    def dist(self, x):
        return F.softmax(self.net(x).view(-1, 2, self.atoms), dim=-1).clamp(min=1e-3)

    def forward(self, state, action, reward, next_state):
        n = state.size(0)
        delta_z = float(self.v_max - self.v_min) / (self.atoms - 1)
        with torch.no_grad():
            following = self.dist(next_state)
            best = (following * self.support).sum(2).argmax(1)
            following = following[range(n), best]
            tz = (reward.unsqueeze(1) + 0.9 * self.support).clamp(min=self.v_min, max=self.v_max)
            b = (tz - self.v_min) / delta_z
            l, u = b.floor().long(), b.ceil().long()
            offset = torch.linspace(0, (n - 1) * self.atoms, n).long().unsqueeze(1)
            offset = offset.expand(n, self.atoms)
            proj = torch.zeros(following.size())
            proj.view(-1).index_add_(0, (l + offset).view(-1), (following * (u.float() - b)).view(-1))
            proj.view(-1).index_add_(0, (u + offset).view(-1), (following * (b - l.float())).view(-1))
        log_p = torch.log(self.dist(state)[range(n), action])
        return -(proj * log_p).sum(1).mean()


class DecisionTransformer(nn.Module):
    """Returns, states and actions take turns in one sequence."""

    def __init__(self, d=8):
        super().__init__()
        self.timestep, self.ret = nn.Embedding(10, d), nn.Linear(1, d)
        self.state, self.action = nn.Linear(3, d), nn.Linear(2, d)
        self.ln = nn.LayerNorm(d)
        self.attn = nn.ModuleList([nn.Linear(d, 3 * d), nn.Linear(d, d)])
        self.mlp = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 16), nn.GELU(), nn.Linear(16, d))
        self.predict = nn.Sequential(nn.Linear(d, 2), nn.Tanh())

    def forward(self, states, actions, returns, times, mask):
        b, t = states.shape[:2]
        te = self.timestep(times)
        parts = (self.ret(returns) + te, self.state(states) + te, self.action(actions) + te)
        x = torch.stack(parts, dim=1).permute(0, 2, 1, 3).reshape(b, 3 * t, -1)
        x = self.ln(x)
        keep = torch.stack((mask, mask, mask), dim=1).permute(0, 2, 1).reshape(b, 3 * t)
        q, k, v = self.attn[0](x).view(b, 3 * t, 3, 2, -1).permute(2, 0, 3, 1, 4)
        causal = torch.ones(3 * t, 3 * t, dtype=torch.bool).tril()
        allowed = causal & keep.bool()[:, None, None, :] | torch.eye(3 * t, dtype=torch.bool)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        x = x + self.attn[1](y.transpose(1, 2).reshape(b, 3 * t, -1))
        x = x + self.mlp(x)
        x = x.reshape(b, t, 3, -1).permute(0, 2, 1, 3)
        action = self.predict(x[:, 1])
        chosen = mask.unsqueeze(-1).expand_as(action) > 0
        return F.mse_loss(action[chosen], actions[chosen])


class SacActor(nn.Module):
    """A squashed Gaussian policy and two frozen critics, with a learned temperature."""

    def __init__(self, obs=4, act=2):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, 16), nn.ReLU(), nn.Linear(16, 2 * act))
        self.q = nn.ModuleList([nn.Sequential(nn.Linear(obs + act, 16), nn.ReLU(), nn.Linear(16, 1))
                                for _ in range(2)]).requires_grad_(False)
        self.log_alpha = nn.Parameter(torch.tensor(0.1).log())
        self.register_buffer("action_scale", torch.tensor([2.0, 0.5]))
        self.target_entropy = -float(act)

    def forward(self, obs):
        mean, log_std = self.trunk(obs).chunk(2, dim=-1)
        log_std = torch.tanh(log_std)
        log_std = -5 + 0.5 * (2 + 5) * (log_std + 1)
        normal = D.Independent(D.Normal(mean, log_std.exp()), 1)
        x_t = normal.rsample()
        y_t = torch.tanh(x_t)
        action = y_t * self.action_scale
        log_prob = normal.log_prob(x_t)
        log_prob = log_prob - torch.log(self.action_scale * (1 - y_t.pow(2)) + 1e-6).sum(1)
        q1, q2 = (q(torch.cat([obs, action], 1)).squeeze(-1) for q in self.q)
        alpha = self.log_alpha.exp()
        actor = (alpha.detach() * log_prob - torch.min(q1, q2)).mean()
        temperature = (-alpha * (log_prob.detach() + self.target_entropy)).mean()
        return actor + temperature


class Rssm(nn.Module):
    """A world model: categorical states with gradients that pass through, and balanced divergences."""

    def __init__(self, obs=6, act=2, deter=8, stoch=3, classes=4):
        super().__init__()
        self.stoch, self.classes, self.deter = stoch, classes, deter
        self.encoder, self.inp = nn.Linear(obs, 8), nn.Linear(stoch * classes + act, 8)
        self.cell = nn.GRUCell(8, deter)
        self.prior = nn.Linear(deter, stoch * classes)
        self.posterior = nn.Linear(deter + 8, stoch * classes)
        self.decoder = nn.Linear(deter + stoch * classes, obs)
        self.reward = nn.Linear(deter + stoch * classes, 1)

    def state(self, logits):
        logits = logits.view(-1, self.stoch, self.classes)
        probs = 0.99 * logits.softmax(-1) + 0.01 / self.classes
        logits = probs.log()
        if self.training:
            index = (logits - torch.log(-torch.log(torch.rand_like(logits)))).argmax(-1)
        else:
            index = logits.argmax(-1)
        hard = F.one_hot(index, self.classes).to(probs.dtype)
        return logits, (hard + probs - probs.detach()).flatten(1)

    @staticmethod
    def kl(p, q):
        return (p.exp() * (p - q)).sum((-1, -2))

    def forward(self, obs, actions, rewards):
        h = obs.new_zeros(obs.size(0), self.deter)
        z = obs.new_zeros(obs.size(0), self.stoch * self.classes)
        total = 0.0
        for t in range(obs.size(1)):
            h = self.cell(F.elu(self.inp(torch.cat([z, actions[:, t]], -1))), h)
            prior, _ = self.state(self.prior(h))
            post, z = self.state(self.posterior(torch.cat([h, F.elu(self.encoder(obs[:, t]))], -1)))
            feat = torch.cat([h, z], -1)
            dyn = torch.clip(self.kl(post.detach(), prior), min=1.0)
            rep = torch.clip(self.kl(post, prior.detach()), min=1.0)
            target = torch.sign(rewards[:, t]) * torch.log(torch.abs(rewards[:, t]) + 1)
            total = total + (0.5 * dyn + 0.1 * rep).mean() + F.mse_loss(
                self.decoder(feat), obs[:, t]) + F.mse_loss(self.reward(feat)[:, 0], target)
        return total / obs.size(1)


class QMix(nn.Module):
    """Mixes the values of agents by a hypernetwork with positive weights."""

    def __init__(self, agents=3, obs=4, actions=5, state=6, embed=8):
        super().__init__()
        self.agents, self.embed = agents, embed
        self.agent = nn.Sequential(nn.Linear(obs + agents, 16), nn.ReLU(), nn.Linear(16, actions))
        self.hyper_w1, self.hyper_w2 = nn.Linear(state, agents * embed), nn.Linear(state, embed)
        self.hyper_b1 = nn.Linear(state, embed)
        self.hyper_b2 = nn.Sequential(nn.Linear(state, embed), nn.ReLU(), nn.Linear(embed, 1))

    def forward(self, obs, state, actions, avail, target):
        b = obs.shape[0]
        ids = torch.eye(self.agents).unsqueeze(0).expand(b, -1, -1)
        q = self.agent(torch.cat([obs, ids], dim=-1))
        q = torch.where(avail.bool(), q, torch.full_like(q, -9999999.0).detach() * 0 - 10.0)
        chosen = torch.gather(q, dim=2, index=actions.unsqueeze(2)).squeeze(2).view(b, 1, -1)
        w1 = torch.abs(self.hyper_w1(state)).view(-1, self.agents, self.embed)
        b1 = self.hyper_b1(state).view(-1, 1, self.embed)
        hidden = F.elu(torch.bmm(chosen, w1) + b1)
        w2 = torch.abs(self.hyper_w2(state)).view(-1, self.embed, 1)
        y = (torch.bmm(hidden, w2) + self.hyper_b2(state).view(-1, 1, 1)).view(b)
        td_error = y - target.detach()
        return (td_error ** 2).mean()


CASES = {
    "dueling": case(Dueling, None, lambda: {
        "state": floats(5), "action": integers(3), "reward": floats(), "after": floats(5),
        "done": integers(2).float()}),
    "ppo": case(Ppo, None, lambda: {
        "states": floats(5, 4), "actions": integers(3, 5), "rewards": floats(5),
        "dones": integers(2, 5).float(), "old": floats(5).abs().neg()}),
    "c51": case(C51, None, lambda: {"state": floats(4), "action": integers(2), "reward": floats(),
                                    "next_state": floats(4)}),
    "decision_transformer": case(DecisionTransformer, None, lambda: {
        "states": floats(4, 3), "actions": torch.rand(SAMPLES, 4, 2), "returns": floats(4, 1),
        "times": integers(10, 4), "mask": torch.cat([torch.ones(SAMPLES, 2).long(), integers(2, 2)], 1)}),
    "sac_actor": case(SacActor, None, lambda: floats(4)),
    "rssm": case(Rssm, None, lambda: (floats(3, 6), floats(3, 2), floats(3))),
    "q_mix": case(QMix, None, lambda: (floats(3, 4), floats(6), integers(5, 3), integers(2, 3, 5),
                                       floats())),
}


def entries():
    """The entries of all models."""
    return entries_of(CASES)
