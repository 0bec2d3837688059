"""PyTorch's own training, with which tests compare losses."""
import torch


def torch_losses(model, optimizer, loss, samples, steps, schedule=None, clip_norm=None):
    """The losses before each of `steps` full-batch steps. `samples`: arrays, the target last."""
    *inputs, target = (torch.from_numpy(array) for array in samples)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(model(*inputs), target)
        value.backward()
        if clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        optimizer.step()
        if schedule is not None:
            schedule.step()
        losses.append(value.item())
    return losses
