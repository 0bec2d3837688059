"""Small GANs, with the loops of PyTorch that their jobs are compared with."""
import numpy as np
import torch
from torch import nn

import easyscale as es

SAMPLES, NOISE = 32, 6


class Gan(nn.Module):
    """A generator of short signals from noise, and a discriminator with a batch norm."""

    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(NOISE, 12), nn.Tanh(), nn.Unflatten(1, (1, 12)),
                                       nn.Conv1d(1, 2, 3, padding=1))
        self.discriminator = nn.Sequential(nn.Conv1d(2, 4, 3, bias=False), nn.BatchNorm1d(4),
                                           nn.LeakyReLU(0.1), nn.Flatten(), nn.Linear(40, 1))


class Critic(nn.Module):
    """The same without statistics, as a WGAN has it."""

    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(NOISE, 16), nn.ReLU(), nn.Linear(16, 8))
        self.discriminator = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))


def samples(model, seed=0):
    """Real signals and noise."""
    numbers = np.random.default_rng(seed)
    shape = (SAMPLES, 2, 12) if isinstance(model, Gan) else (SAMPLES, 8)
    real = np.cumsum(numbers.standard_normal(shape), -1).astype(np.float32) / 3
    return {"real": real, "noise": numbers.standard_normal((SAMPLES, NOISE)).astype(np.float32)}


# As HiFi-GAN: least squares, and a distance to the target.
def hifi_d(model, batch):
    fake = model.generator(batch["noise"])
    on_real, on_fake = model.discriminator(batch["real"]), model.discriminator(fake.detach())
    return (1 - on_real).square().mean() + on_fake.square().mean()


def hifi_g(model, batch):
    fake = model.generator(batch["noise"])
    return (1 - model.discriminator(fake)).square().mean() + 4.5 * (fake - batch["real"]).abs().mean()


def wgan_d(model, batch):
    with torch.no_grad():
        fake = model.generator(batch["noise"])
    return model.discriminator(fake).mean() - model.discriminator(batch["real"]).mean()


def wgan_g(model, batch):
    return -model.discriminator(model.generator(batch["noise"])).mean()


def hifi(model):
    """The losses as HiFi-GAN has its optimizers."""
    found = []
    for function, part in ((hifi_d, model.discriminator), (hifi_g, model.generator)):
        optimizer = torch.optim.AdamW(part.parameters(), lr=2e-3, betas=(0.8, 0.99))
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.99)
        found.append(es.Loss(function, optimizer, schedule))
    return found


def wgan(model):
    """The losses of a WGAN: the generator makes a step in every fifth iteration."""
    critic = torch.optim.RMSprop(model.discriminator.parameters(), lr=1e-3)

    def clip(optimizer, args, kwargs):
        with torch.no_grad():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    p.clamp_(-0.2, 0.2)
    critic.register_step_post_hook(clip)
    generator = torch.optim.RMSprop(model.generator.parameters(), lr=1e-3)
    return [es.Loss(wgan_d, critic), es.Loss(wgan_g, generator, every=5)]


def torch_loop(model, losses, arrays, iterations):
    """The loop of a user with one mini-batch for an iteration: the losses of all steps."""
    batch = {name: torch.from_numpy(array) for name, array in arrays.items()}
    found = []
    for i in range(iterations):
        for loss in losses:
            if i % loss.every:
                continue
            loss.optimizer.zero_grad()
            value = loss.function(model, batch)
            value.backward()
            loss.optimizer.step()
            if loss.schedule is not None:
                loss.schedule.step()
            found.append(value.item())
    return found
