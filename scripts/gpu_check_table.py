"""The results of scripts/gpu_check as tables of Markdown."""

PEERS = ["fp32", "fp32 deterministic", "tf32", "tf32 deterministic", "tf32 compiled", "bf16",
         "bf16 deterministic", "bf16 compiled"]
OURS = ["D2", "D1", "D1 TF32", "D2 bf16", "D1 TF32 bf16"]


def table(content):
    measured = [data for part in content["parts"] for data in part["measured"]]
    pieces = [about(content), *map(rows_of, content["parts"]), steps(measured), kernels(measured)]
    return "\n\n".join(filter(None, pieces))


def about(content):
    gpu = content["gpu"]
    told = "; ".join(f"{key} {value}" for key, value in gpu.items())
    cut = f" Parts that were cut for time: {', '.join(content['cut'])}." if content["cut"] else ""
    return (f"Commit {content['commit']}, {content['date']}, `{content['device']}` beside `{content['cpu']}` "
            f"({told}).{cut}")


def rows_of(part):
    """The rows of a part that has measured nothing, as a list."""
    if part["measured"] or not part["rows"]:
        return ""
    return "\n".join([f"{part['part']} ({part['state']}, {part['seconds']:.0f} s):", ""]
                     + [f"* {row}" for row in part["rows"]])


def lines(head, rows):
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
                     + [f"| {' | '.join(row)} |" for row in rows])


def cells(found, names):
    """Milliseconds by name; a dash where nothing was measured."""
    return [f"{found[name]:.2f}" if name in found else "-" for name in names]


def steps(measured):
    """Milliseconds of a step of each workload: ours, then PyTorch's."""
    ours, peers = {}, {}
    for data in measured:
        if "measured" in data:
            ours.setdefault(data["workload"], {})[data["measured"]] = data["ms"]
        elif "variant" in data and "ms" in data:
            peers.setdefault(data["workload"], {})[data["variant"]] = data["ms"]
    names = list(dict.fromkeys([*ours, *peers]))
    if not names:
        return ""
    mine = lines(["workload", *OURS], [[name, *cells(ours.get(name, {}), OURS)] for name in names])
    others = lines(["PyTorch", *PEERS], [[name, *cells(peers[name], PEERS)] for name in names if name in peers])
    return "\n\n".join([mine, others] if peers else [mine])


def kernels(measured):
    rows = []
    for case in (data for data in measured if "case" in data):
        peak = f"{100 * case['of_peak']:.0f} %" if "of_peak" in case else "-"
        of = "memory" if "gb_per_s" in case else "fp32"
        beside = f"{case['ratio']:.2f} of {case['library']}" if case.get("library") else ""
        rows.append([case["case"], f"{case['ms']:.3f}", f"{peak} of {of}", beside])
    return lines(["kernel", "ms", "of the peak", "beside the library"], rows) if rows else ""
