"""The parts of scripts/gpu_check that compare bits."""
import json
import os
import re
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor

from gpu_check_programs import Failed, Head, Wrong

AT_ONCE = 4  # models, whose jobs train at the same time
SMALL_CNN = """name = "small_cnn"
max_p = 4
batch_size = 8
steps = 1
seed = 11
[model]
name = "small_cnn"
classes = 10
[data]
kind = "synthetic"
height = 12
width = 12
channels = 3
samples = 400
eval_samples = 50
[optimizer]
learning_rate = 0.05
momentum = 0.9
"""
# Job -> the model whose job file it is made from, and what is set in it. What ran on no GPU yet comes
# first.
ADAPTERS = {"lora.rank": 4, "lora.targets": ["*q_proj", "*down_proj"]}
CAPTURED = ["recurrent", "states", "long", "optimizer"]
JOBS = {
    "gpt2": ("gpt2", {}),
    "gpt2 bf16": ("gpt2", {"precision": "bf16"}),
    "llama": ("llama", {}),
    "llama recomputed": ("llama", {"recompute": "blocks"}),
    "llama adapters": ("llama", ADAPTERS),
    "recurrent": ("recurrent", {}),
    "recurrent bf16": ("recurrent", {"precision": "bf16"}),
    "states": ("states", {}),
    "long": ("long", {}),
    "optimizer": ("optimizer", {}),
    "llama x15": ("llama", {"arithmetic": "x15"}),
    "bert x22": ("bert", {"arithmetic": "x22"}),
    "electra x15 bf16": ("electra", {"arithmetic": "x15", "precision": "bf16"}),
    "bert sharded": ("bert", {"shard.state": "on"}),
    "neumf x22": ("neumf", {"arithmetic": "x22"}),
    "bert bf16": ("bert", {"precision": "bf16"}),
    "resnet50 bf16": ("resnet50", {"precision": "bf16", "optimizer.ema": 0.9}),
} | {name: (name, {}) for name in ("small_cnn", "resnet18", "resnet50", "shufflenetv2", "vgg19", "swin_t", "yolov3",
                                   "neumf", "bert", "electra")}
QUICK_JOBS = ["small_cnn", "neumf", "neumf x22"]
# Whole steps of train_bench in published sizes.
WHOLE = ["gpt2_s1024_b2", "gpt2_s1024_b2 --precision bf16", "llama_s1024_b2 --recompute blocks",
         "resnet50_224_b32", "bert_base_s384_b8"]
QUICK = "neumf_b1024"


def comparisons(bench, program, *words, **environment):
    seed = str(int(time.time()))
    out = bench.output(program, *words, ES_SEED=seed, **environment)
    count = re.search(r"assertions: +(\d+)", out)[1]
    return f"{count} comparisons equal, seed {seed}"


def operators(bench):
    networks = {"ES_NETWORKS": "4" if bench.quick else "150"}
    if bench.device != "cuda-host":
        yield "kernels: " + comparisons(bench, "kernels_test")
        networks["ES_GPU"] = "0"
    yield "operators and networks: " + comparisons(bench, "device_test", **networks)


def exact(bench):
    """Exact products alone, in many shapes: all that the models do not reach."""
    if bench.device != "cuda-host":
        yield "exact products: " + comparisons(bench, "kernels_test", "-tc=exact *")


def changed(text, key, value):
    """The text of a job file with a key, e.g. "data.length", set to another value."""
    table, _, name = key.rpartition(".")
    head, mark, rest = text.partition(f"[{table}]\n") if table else ("", "", text)
    if table and not mark:
        return f"{text}[{table}]\n{name} = {json.dumps(value)}\n"
    body, end, others = rest.partition("\n[")
    body = re.sub(rf"(?m)^{name} = .*\n?", "", body)
    return f"{head}{mark}{name} = {json.dumps(value)}\n{body}{end}{others}"


def job_file(bench, job, steps):
    """The job file of a job, or None if its model was not captured."""
    model, settings = JOBS[job]
    folder = bench.captured / model
    if model in CAPTURED and not folder.is_dir():
        return None
    source = folder / "job.toml" if model in CAPTURED else bench.jobs / f"tiny_{model}.toml"
    text = SMALL_CNN if model == "small_cnn" else source.read_text()
    for key, value in (settings | {"steps": steps, "name": job.replace(" ", "-")}).items():
        text = changed(text, key, value)
    # The paths of a captured job begin at its folder.
    file = (folder if model in CAPTURED else bench.scratch) / f"{job}-{steps}.toml".replace(" ", "-")
    file.write_text(text)
    return file


def both(bench, gpus=1, cpus=1):
    return "+".join(sorted([f"{bench.device}:{gpus}", f"{bench.cpu}:{cpus}"]))


def models(bench):
    """The jobs of some models at all placements at the same time."""
    gpu, cpu, n = bench.device, bench.cpu, 4 if bench.quick else 8
    placements = {"D2": [f"{cpu}:1@{2 * n}", f"{gpu}:2@{n},{both(bench)}@{n}"],
                  "D1": [f"{gpu}:1@{2 * n}", f"{gpu}:2@{n},{gpu}:1@{n}"]}
    gpus, cpus = 5 * AT_ONCE, 2 * AT_ONCE
    with Head(bench, f"{gpu}:{gpus}+{cpu}:{cpus}", workers_per_gpu=gpus) as head, \
         ThreadPoolExecutor(AT_ONCE) as pool:
        for rows in pool.map(lambda job: model(bench, head, job, 2 * n, placements),
                             QUICK_JOBS if bench.quick else JOBS):
            yield from rows


def model(bench, head, job, steps, placements):
    file = job_file(bench, job, steps)
    if file is None:
        return [f"{job}: not run, because its model was not captured"]
    try:
        placed = {level: [(stages, head.submit(file, stages, level)) for stages in all_stages]
                  for level, all_stages in placements.items()}
        return [compare(head, job, level, jobs) for level, jobs in placed.items()]
    except Failed as failed:  # The results of the other models are still useful.
        return [Wrong(f"{job}: {failed}")]


def compare(head, model, level, placed):
    """Jobs at all placements end with the bits of the first one."""
    ends = [(stages, head.digests(job)) for stages, job in placed]
    other = [stages for stages, digests in ends if digests != ends[0][1]]
    if other:
        return Wrong(f"{model} at {level} on {'; '.join(other)}: other bits than on {ends[0][0]}")
    return f"{model}: {level} equal on {'; '.join(stages for stages, _ in ends)}"


def events(bench):
    gpu, cpu = bench.device, bench.cpu
    with Head(bench, f"{gpu}:2+{cpu}:2") as head:
        job = head.json("submit", job_file(bench, "small_cnn", 1_000_000), "--level", "D2")["job"]
        for placement in (f"{gpu}:1", f"{gpu}:2", both(bench, 1, 2)):
            head.json("scale", job, placement)
            here = head.wait(job, lambda d: d["placement"] == placement and d["workers"]
                             and all(w["pid"] for w in d["workers"]))
        [pid] = [w["pid"] for w in here["workers"] if gpu in w["device"]]
        os.kill(pid, signal.SIGKILL)
        head.wait(job, lambda d: d["steps"] > here["steps"] + 3
                  and pid not in [w["pid"] for w in d["workers"]])
        taken = head.json("checkpoint", job)
        head.json("cancel", job)
        steps = taken["version"]
        expected = head.train(job_file(bench, "small_cnn", steps), f"{cpu}:2@{steps}", "D2")
        if (taken["params_digest"], taken["state_digest"]) != expected:
            raise Failed(f"after scale events and a killed worker, step {steps}: other bits than "
                         "undisturbed")
    yield f"three scale events and a killed worker: at step {steps} the bits of an undisturbed run"


def whole_steps(bench):
    """One D2 step in published sizes. Compares the parameters afterwards on the device and on the
    CPU of this machine."""
    for words in [QUICK] if bench.quick else WHOLE:
        try:
            yield whole_step(bench, words)
        except Failed as failed:
            yield Wrong(str(failed))


def whole_step(bench, workload):
    words = ["--workload", *workload.split(), "--level", "D2", "--warm", 0, "--steps", 1]
    places = [["--device", bench.device], ["--device", bench.cpu, "--threads", os.cpu_count()]]
    with ThreadPoolExecutor() as pool:
        ran = list(pool.map(lambda where: bench.output("train_bench", *words, *where), places))
    return same_digests(workload, [json.loads(each)["params_digest"] for each in ran], bench.device, bench.cpu)


def same_digests(workload, digests, device, cpu):
    if len(set(digests)) != 1:
        return Wrong(f"{workload} after a step at D2: {digests[0]} on {device}, {digests[1]} on {cpu}")
    return f"{workload}: after a step at D2 the parameters of {cpu}, digest {digests[0]}"


def channels(bench):
    """Two workers with a GPU each: a channel carries gradients from one to the other."""
    gpu, cpu, n = bench.device, bench.cpu, 20
    if gpu != "cuda-host" and bench.gpus < 2:
        return
    with Head(bench, f"{gpu}:2+{cpu}:1", workers_per_gpu=1) as head:
        for job in ["small_cnn"] if bench.quick else ["small_cnn", "resnet50", "bert"]:
            file = job_file(bench, job, n)
            placed = [(stages, head.submit(file, stages, "D2"))
                      for stages in (f"{cpu}:1@{n}", f"{gpu}:2@{n}")]
            yield compare(head, job, "D2", placed)
        joined = re.findall(
            r"worker \d+ .*: gradients to worker \d+ are sent through memory of.*", head.logs())
        said = re.findall(r"channel: .*", head.logs())
        if said or not joined:
            yield Wrong(said[-1] if said else "no gradient was sent by a channel")
        else:
            yield f"{len(joined)} times two workers were joined by a channel"


# Tools of compute-sanitizer, the share of the remaining time that each one gets, and what it
# checks. Buffers of kernels_test are in host memory, about which initcheck knows nothing. Those of
# device_test are on the GPU.
KERNELS = ("kernels_test", [], {})
NETWORKS = ("device_test", ["-ts=gpu/cuda/device_executor"], {"ES_GPU": "0", "ES_NETWORKS": "2"})
CHECKERS = [("memcheck", 0.4, KERNELS), ("synccheck", 0.35, KERNELS), ("initcheck", 0.5, NETWORKS),
            ("racecheck", 1, KERNELS)]
FOUND = re.compile(r"Invalid|Uninitialized|Race|hazard|Barrier error|Divergent")


def memory_checker(bench):
    """Accesses beyond memory, threads that miss a barrier, memory that is read before it is
    written, and threads that do not wait for each other."""
    checker = shutil.which("compute-sanitizer", path=f"{os.environ['PATH']}:/usr/local/cuda/bin")
    if checker is None or bench.device == "cuda-host":
        return
    for tool, share, (program, words, environment) in CHECKERS:
        limit = share * max(1, bench.left() - 2)
        status, out, err = bench.run([checker, "--tool", tool, "--error-exitcode", 9,
                                      bench.programs[program], *words], limit,
                                     {**bench.environment, **environment})
        found = [line for line in out.splitlines() if line.startswith("=========")]
        bad = [line for line in found if FOUND.search(line)]
        if status not in (0, None) or (status is None and bad):
            told = found[found.index(bad[0]):][:6] if bad else [(err or out)[-300:]]
            yield Wrong(f"{tool}: {' '.join(line.strip('= ') for line in told)}")
        elif status is None:
            yield f"{tool}: found nothing within {limit:.0f} s, which did not suffice for all tests"
        else:
            yield f"{tool}: {found[-1].strip('= ') if found else 'nothing'}"
