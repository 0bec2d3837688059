"""PyTorch's own training, with which tests compare losses."""
import torch


def torch_losses(model, optimizer, loss, samples, steps):
    """The losses before each of `steps` full-batch steps. `samples`: arrays, the target last."""
    *inputs, target = (torch.from_numpy(array) for array in samples)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(model(*inputs), target)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses
