"""PyTorch's own training, with which tests compare losses."""
import torch
from torch.optim.lr_scheduler import LRScheduler


def listed(x):
    """The items of a list, or the only one."""
    return x if isinstance(x, list) else [x]


def torch_losses(model, optimizer, loss, samples, steps, schedule=None, clip_norm=None,
                 clip_value=None):
    """The losses before each of `steps` full-batch steps. `samples`: arrays, the target last. The optimizer
    and the schedule may be lists."""
    *inputs, target = (torch.from_numpy(array) for array in samples)
    losses = []
    for _ in range(steps):
        model.zero_grad()
        value = loss(model(*inputs), target)
        value.backward()
        if clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        if clip_value is not None:
            torch.nn.utils.clip_grad_value_(model.parameters(), clip_value)
        for x in listed(optimizer):
            x.step()
        for x in listed(schedule):
            if x is not None:
                x.step()
        losses.append(value.item())
    return losses


class FallingDecay(LRScheduler):
    """A scheduler of a user: it changes the weight decay, and no rate."""

    def step(self):
        super().step()
        for group in self.optimizer.param_groups:
            group["weight_decay"] = 0.1 / (1 + self.last_epoch)

    def get_lr(self):
        return self.base_lrs
