"""scripts/bench elastic: workers and nodes that leave and join, ours beside TorchElastic."""

import threading
import time

import chart
import elastic_sharded
import runner
from elastic_ours import ChaosError, Ours
from elastic_torch import PYTHON, Torch

STEPS_BEFORE, STEPS_AFTER = 4, 3
FAILURES = (runner.BenchError, ChaosError)
MID_STEP = 0.4  # An event happens after this part of a step.
TUNED = ["--monitor_interval", "0.5", "--rdzv_conf", "last_call_timeout=1"]

# Event: (method of the contestant, node, number of workers afterwards)
ONE_NODE = {"worker_killed": ("kill_worker", "first", 2)}
TWO_NODES = {"node_lost": ("lose_node", "second", 1), "node_joins": ("join_node", "third", 2),
             "scale_in": ("scale_in", "third", 1)}
FROZEN = {"node_frozen": ("freeze_node", "second", 1)}
SESSIONS = (({"first": 2}, ("first",), ONE_NODE),
            ({"first": 1, "second": 1, "third": 1}, ("first", "second"), TWO_NODES),
            ({"first": 1, "second": 1}, ("first", "second"), FROZEN))
LOSSES = ("worker_killed", "node_lost", "node_frozen")
EVENTS = tuple(event for session in SESSIONS for event in session[2])
DEFAULT_EVENTS = tuple(event for event in EVENTS if event not in FROZEN)


def measure(contestant, event, change, deadline_s):
    """Fires the event in the middle of a step and waits until training is in the expected state."""
    method, node, workers = change
    steps = contestant.steps
    steps.wait_for_more(f"before {event}", STEPS_BEFORE, deadline_s)
    step_s = steps.usual_gap(STEPS_BEFORE - 1)
    fire = getattr(contestant, method)(node)
    before = steps.wait_for_more(f"before {event}", 1, deadline_s)
    threading.Event().wait(MID_STEP * step_s)
    recovered = contestant.recovered(workers)
    first_after = contestant.continues(workers) if event in LOSSES else recovered
    began = time.monotonic()
    fire()
    first = steps.wait(f"after {event}", first_after, began, deadline_s)
    steps.wait(f"all workers after {event}", recovered, began, deadline_s)
    settled = steps.wait_for_more(f"after {event}", STEPS_AFTER, deadline_s)
    return {"seconds_to_next_step": round(first.time - began, 3),
            "pause_s": round(steps.longest_gap(before.time, settled.time), 3),
            "step_s": round(step_s, 3),
            "repeated_steps": max(0, newest(steps, first).number + 1 - first.number)}


def newest(steps, first):
    """Returns the step that was completed before `first`."""
    return [s for s in steps.steps if s.time < first.time][-1]


def play(contestant, events, args):
    """Returns {event: measurement, or a text about the error}. After an error the other events are
    left out."""
    results = {}
    try:
        with contestant:
            for event, change in events.items():
                if event in args.events or needed_for_later(event, events, args.events):
                    results[event] = attempt(contestant, event, change, args.deadline)
                    runner.progress(f"  {event}: {results[event]}")
                    if "error" in results[event]:
                        break
    except FAILURES as error:
        runner.progress(f"  did not start: {error}")
    return {event: result for event, result in results.items() if event in args.events}


def attempt(contestant, event, change, deadline_s):
    try:
        return measure(contestant, event, change, deadline_s)
    except FAILURES as error:
        return {"seconds_to_next_step": None, "pause_s": None, "error": str(error)}


def needed_for_later(event, events, wanted):
    """The events of a session depend on each other."""
    order = list(events)
    return any(later in wanted for later in order[order.index(event) + 1:])


def contestants(programs, nodes, running, run, args):
    """Returns (system, settings, contestant) in the order of the runs."""
    yield "EasyScale", "default", Ours(programs, nodes, running)
    if not args.ours_only:
        yield "TorchElastic", "default", Torch(nodes, running, [])
        if run < args.tuned_rounds:
            yield "TorchElastic", "tuned", Torch(nodes, running, TUNED)


def measure_all(programs, args):
    rows = []
    for run in range(args.rounds):
        for nodes, running, events in SESSIONS:
            if not any(event in args.events for event in events):
                continue
            for system, settings, contestant in contestants(programs, nodes, running, run, args):
                runner.progress(f"run {run + 1}, {system} ({settings})")
                rows += [{"system": system, "event": event, "run": run + 1, "settings": settings,
                          **result} for event, result in play(contestant, events, args).items()]
    return rows


def contestant_name(row):
    return row["system"] + (" tuned" if row["settings"] == "tuned" else "")


def values(rows, name, event, key):
    return [r[key] for r in rows if contestant_name(r) == name and r["event"] == event
            and r.get(key) is not None]


def table(rows, events):
    names = list(dict.fromkeys(map(contestant_name, rows)))
    lines = ["| event | system | runs | s to the next step | longest pause, s | one step, s "
             "| steps done again |", "|---|---|---|---|---|---|---|"]
    for event in events:
        for name in names:
            if count := sum((contestant_name(r), r["event"]) == (name, event) for r in rows):
                cells = [show(values(rows, name, event, key)) for key in
                         ("seconds_to_next_step", "pause_s", "step_s")]
                again = values(rows, name, event, "repeated_steps")
                lines.append(f"| {event.replace('_', ' ')} | {name} | {count} | "
                             + " | ".join(cells) + f" | {span(again, '{}')} |")
    return "\n".join(lines)


def show(found):
    return span(found, "{:.2f}")


def span(found, form):
    """Returns the smallest and the largest value."""
    if not found:
        return "none"
    low, high = form.format(min(found)), form.format(max(found))
    return low if low == high else f"{low} - {high}"


def svg(rows, events):
    names = list(dict.fromkeys(map(contestant_name, rows)))
    series = {name: [runner.median(found) if (found := values(
        rows, name, event, "seconds_to_next_step")) else None for event in events]
        for name in names}
    return chart.bars("Seconds from the event to the next completed step (median)",
                      [event.replace("_", " ") for event in events], series)


def main(args):
    if args.kills:
        return elastic_sharded.main(args, runner.build_programs())
    args.events = args.events.split(",")
    for event in args.events:
        if event not in EVENTS:
            raise runner.BenchError(f"--events {event}: allowed are {', '.join(EVENTS)}")
    if not args.ours_only:
        runner.require_torch(PYTHON)
    rows = measure_all(runner.build_programs(), args)
    print(f"{runner.processor()}\n\n{table(rows, args.events)}")
    runner.write_results(args, rows, svg(rows, args.events))


def add_arguments(parser):
    parser.add_argument("--rounds", type=int, default=3, help="alternations (default 3)")
    parser.add_argument("--tuned-rounds", type=int, default=1,
                        help="rounds that have TorchElastic with shorter waits too (default 1)")
    parser.add_argument("--events", default=",".join(DEFAULT_EVENTS),
                        help=f"of {','.join(EVENTS)} (default: without node_frozen)")
    parser.add_argument("--deadline", type=float, default=120,
                        help="seconds after which an event counts as never recovered (default 120)")
    parser.add_argument("--ours-only", action="store_true", help="without TorchElastic")
    elastic_sharded.add_arguments(parser)
