#!/usr/bin/env python3
"""PyTorch's side of gpu_check: one training step of each workload on the GPU, eager fp32.

  gpu_check_pytorch.py PEERS STEPS WORKLOAD...

PEERS is the folder of models.py. Prints a JSON line for each workload: milliseconds with TF32 off and on.
"""
import json, statistics, sys, time
sys.path.insert(0, sys.argv[1])
import torch
from models import WORK
torch.backends.cudnn.deterministic = True
def to_gpu(value):
    return [to_gpu(v) for v in value] if isinstance(value, (list, tuple)) else value.cuda()
for name in sys.argv[3:]:
    make, batch, samples, loss = WORK[name][:4]
    result = {"workload": name, "torch": torch.__version__}
    for tf32 in (False, True):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        model = make().cuda().train()
        data = to_gpu(samples(torch.Generator().manual_seed(1)))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        times = []
        for step in range(3 + int(sys.argv[2])):
            begin = time.perf_counter()
            optimizer.zero_grad(set_to_none=True)
            loss(model, data).backward()
            optimizer.step()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
        result["tf32_ms" if tf32 else "ms"] = 1e3 * statistics.median(times[3:])
    print(json.dumps(result), flush=True)
