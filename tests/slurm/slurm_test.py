#!/usr/bin/env python3
"""A cluster on a real Slurm (slurm_cluster.py): it starts, grows and shrinks, and loses agents and
its head. Every job ends with the bits of a fixed run."""
import os
import re
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402
from harness import EXIT_REFUSED, digests  # noqa: E402
from jobs import ANY_LENGTH, job_text  # noqa: E402
from slurm_cluster import NODES, SlurmCluster, skip_without_slurm  # noqa: E402

ENDLESS = 1_000_000
AGENT, HEAD = "es-agent-", "es-head-"  # what the names of the jobs begin with
IDLE_S = 1
AGENT_CPUS = 3  # So a node has room for one agent and for the head.


class Cluster(harness.Daemon):
    """A cluster of EasyScale. `running` is `esctl slurm up`, with or without --here."""

    def __init__(self, test, running, directory):
        self.test, self.running, self.directory = test, running, directory
        self.wire = ["--keys", str(directory / "keys")]
        self.endpoint = self.wait_for_endpoint(r"the head serves at (\S+)|ES_HEAD=(\S+)")

    def wait_for_endpoint(self, pattern):
        found = self.running.wait_for_line(pattern, stream="out")
        return found.group(1) or found.group(2)

    def nodes(self):
        """The names of the nodes of Slurm whose agents have joined."""
        return {node["name"].split(".")[0] for node in self.json("nodes")["nodes"]
                if node["alive"] and node["name"] != "head"}


class Slurm(harness.EndToEndTest):
    def setUp(self):
        skip_without_slurm()
        super().setUp()
        self.fast = self.fast_class()
        self.slurm = SlurmCluster(self.directory / "slurm", self.environment)
        self.addCleanup(self.slurm.stop)
        self.addCleanup(self.stop_heads)  # First: they would ask for new agents.
        self.environment = self.slurm.environment
        self.job_file = self.write_job(job_text(
            self.word, "resnet18", changes={"steps": ENDLESS, "batch_size": 24, **ANY_LENGTH}))

    def stop_heads(self):
        for running in self._running:
            if running.process.poll() is None:
                running.stop(signal.SIGTERM)

    def up(self, nodes, *options):
        directory = self.directory / "cluster"
        words = ["slurm", "up", "--dir", directory, "--nodes", nodes, "--partition", "low",
                 "--address", "127.0.0.1", "--agent-option", f"--cpus-per-task={AGENT_CPUS}",
                 "--every", "0.2", "--idle", str(IDLE_S), *options]
        if not (directory / "agent.toml").exists():
            words += ["--devices", f"{self.fast}:1"]
        return Cluster(self, self.start_esctl(*words), directory)

    def up_here(self, nodes, *options):
        return self.up(nodes, "--here", *options)

    def down(self, cluster):
        self.esctl("slurm", "down", "--dir", cluster.directory)
        ended = cluster.running.wait()
        self.assertEqual(ended.code, 0, str(ended))
        harness.wait_until("no job is left in Slurm", lambda: not self.slurm.jobs(),
                           state=lambda: str(self.slurm.jobs()))

    def submit_for(self, cluster, count):
        """Submits a job that takes this many devices where it can have them.

        All nodes share the cores of one machine, so another job may find that more devices do not
        make it faster, and give them back.
        """
        return cluster.submit(self.job_file, "--stages", f"{self.fast}:{count}@{ENDLESS}")

    def trains_on(self, cluster, job, nodes, after=0):
        """Waits until the job trains on exactly these nodes of Slurm."""
        return cluster.wait_for(
            job, f"trains on {nodes}", lambda d: d["state"] == "running" and d["steps"] > after
            and sorted(w["node"].split(".")[0] for w in d["workers"]) == sorted(nodes))

    def trains_on_any(self, cluster, job, count, after=0):
        return cluster.wait_for(
            job, f"trains on {count} nodes", lambda d: d["state"] == "running"
            and d["steps"] > after and len(d["workers"]) == count)

    def run_important_job(self, node):
        """A job that no agent on this node withstands, and the file that ends it when removed."""
        held = self.directory / f"held-{node}"
        held.touch()
        script = self.directory / f"important-{node}.sh"
        script.write_text(f"#!/bin/bash\nwhile [ -e {held} ]; do sleep 0.1; done\n")
        self.slurm.run("sbatch", "--partition=high", "--job-name=important", "--nodelist", node,
                       f"--cpus-per-task={AGENT_CPUS}", "--output=/dev/null", script)
        return held

    def assert_nothing_was_lost(self, cluster, job):
        """No worker has ended without a hand-over."""
        self.assertNotIn("exited", cluster.esctl("logs", job).out)

    def assert_bits(self, cluster, job):
        taken = cluster.json("checkpoint", job)
        cluster.esctl("cancel", job)
        self.assert_bits_of_fixed_run(self.job_file, taken, self.fast)


class Growth(Slurm):
    def test_a_cluster_starts_trains_and_ends(self):
        cluster = self.up_here("2")
        job_file = self.write_job(job_text(self.word, changes={"steps": 60}), "short.toml")
        job = cluster.submit(job_file)
        end = cluster.wait_for_state(job, "finished")
        self.assertEqual(digests(end), digests(self.run_job(job_file, "--devices",
                                                            f"{self.fast}:1")))
        self.assertEqual(len(self.slurm.running(AGENT)), 2)
        self.down(cluster)

    def test_it_grows_while_a_job_trains_and_gives_idle_agents_back(self):
        cluster = self.up_here("1..4")
        harness.wait_until("one agent has joined", lambda: len(cluster.nodes()) == 1)
        job = cluster.submit(self.job_file)
        # Which of these devices it keeps, depends on how fast it is with them.
        harness.wait_until("four agents run", lambda: len(self.slurm.running(AGENT)) == 4)
        grown = cluster.wait_for(job, "trains", lambda d: d["steps"] > 0)
        self.assert_nothing_was_lost(cluster, job)
        # A job that needs less gives devices up, and the cluster gives them back to Slurm.
        harness.wait_until("two agents are there", lambda: self.start_esctl(
            "scale", job, f"{self.fast}:2", "--head", cluster.endpoint,
            *cluster.wire).wait().code == 0)
        self.trains_on_any(cluster, job, 2, grown["steps"])
        harness.wait_until("two agents are given back", lambda: len(self.slurm.running(AGENT)) == 2)
        self.assert_nothing_was_lost(cluster, job)
        self.assert_bits(cluster, job)
        self.one_agent_is_left()
        self.down(cluster)

    def test_what_needs_more_devices_than_there_are_waits_for_agents(self):
        """Of three agents one comes late, and those that wait for it are not idle."""
        cluster = self.up_here("1..3")
        harness.wait_until("one agent has joined", lambda: len(cluster.nodes()) == 1)
        busy = [node for node in NODES if node not in cluster.nodes()][:2]
        held = [self.run_important_job(node) for node in busy]
        harness.wait_until("two nodes are in use",
                           lambda: set(self.slurm.running("important")) == set(busy))
        text = job_text(self.word)
        fixed = digests(self.run_job(self.write_job(text, "fixed.toml"), "--devices",
                                     f"{self.fast}:1"))
        job = cluster.submit(self.write_job(job_text(
            self.word, changes={"resources.min_devices": 3}), "three.toml"))
        harness.wait_until("two agents have joined", lambda: len(cluster.nodes()) == 2)
        first = self.slurm.running(AGENT)
        harness.wait_until("both have waited for many times --idle", lambda: all(
            self.slurm.seconds_of(agent) > 10 * IDLE_S for agent in first.values()))
        self.assertEqual(self.slurm.running(AGENT), first)
        held[0].unlink()
        self.assertEqual(digests(cluster.wait_for_state(job, "finished")), fixed)
        self.assertEqual(cluster.describe(job)["stages"][0]["placement"], f"{self.fast}:3")
        self.one_agent_is_left()

        staged = cluster.submit(self.write_job(text, "staged.toml"), "--stages",
                                f"{self.fast}:1@20,{self.fast}:2@40")
        self.assertEqual(digests(cluster.wait_for_state(staged, "finished")), fixed)
        self.one_agent_is_left()
        cluster.esctl("claim", "--type", self.fast, "--count", 3, "--name", "web")
        harness.wait_until("the claim has its devices",
                           lambda: cluster.json("claims")["claims"][0]["devices"] == 3)
        cluster.esctl("release", "web")
        self.one_agent_is_left()
        held[1].unlink()
        self.down(cluster)

    def one_agent_is_left(self):
        harness.wait_until("idle agents are given back",
                           lambda: len(self.slurm.running(AGENT)) == 1)

    def test_a_cluster_that_ends_and_is_started_again_continues_its_jobs(self):
        cluster = self.up_here("2")
        job = cluster.submit(self.job_file)
        before = cluster.wait_for(job, "trains", lambda d: d["steps"] > 0)
        self.down(cluster)
        cluster = self.up_here("1..4")
        cluster.wait_for(job, "trains again", lambda d: d["state"] == "running"
                         and d["steps"] > before["steps"])
        self.assert_bits(cluster, job)
        self.down(cluster)

    def test_options_that_an_existing_cluster_would_ignore_are_refused(self):
        cluster = self.up_here("1")
        ended = self.esctl("slurm", "up", "--dir", cluster.directory, "--nodes", "1", "--devices",
                           "cpu-scalar:1", code=EXIT_REFUSED)
        self.assertIn("agent.toml", ended.err)
        self.down(cluster)


class LostAgents(Slurm):
    def start_on_all_nodes(self, *options):
        cluster = self.up_here("4", *options)
        job = self.submit_for(cluster, 4)
        return cluster, job, self.trains_on(cluster, job, NODES)

    def test_a_preempted_agent_hands_over_and_comes_back(self):
        cluster, job, before = self.start_on_all_nodes()
        agent = self.slurm.running(AGENT)["n2"]
        held = self.run_important_job("n2")
        without = self.trains_on(cluster, job, ["n1", "n3", "n4"], before["steps"])
        self.assert_nothing_was_lost(cluster, job)
        harness.wait_until("the important job runs",
                           lambda: "n2" in self.slurm.running("important"))
        held.unlink()
        self.trains_on(cluster, job, NODES, without["steps"])
        # Slurm has queued the same task again, so the cluster has asked for no other.
        self.assertEqual(self.slurm.running(AGENT)["n2"], agent)
        self.assertIn("Restarts=1", self.slurm.run("scontrol", "show", "job", agent))
        self.assert_nothing_was_lost(cluster, job)
        self.assert_bits(cluster, job)
        self.down(cluster)

    def test_a_node_that_crashes_costs_no_bits(self):
        cluster, job, before = self.start_on_all_nodes()
        self.slurm.crash_node("n3")
        without = self.trains_on(cluster, job, ["n1", "n2", "n4"], before["steps"])
        self.slurm.start_node("n3")
        self.trains_on(cluster, job, NODES, without["steps"])
        self.assert_bits(cluster, job)
        self.down(cluster)

    def test_a_node_that_drains_is_left_and_another_one_is_used(self):
        cluster = self.up_here("2")
        job = self.submit_for(cluster, 2)
        before = self.trains_on_any(cluster, job, 2)
        leaves = before["workers"][0]["node"].split(".")[0]
        self.slurm.run("scontrol", "update", f"NodeName={leaves}", "State=DRAIN", "Reason=test")
        harness.wait_until("no agent is on it", lambda: leaves not in self.slurm.running(AGENT))
        after = self.trains_on_any(cluster, job, 2, before["steps"])
        self.assertNotIn(leaves, [w["node"].split(".")[0] for w in after["workers"]])
        self.assert_nothing_was_lost(cluster, job)
        self.assert_bits(cluster, job)
        self.down(cluster)

    def test_an_agent_hands_over_before_its_time_limit_and_is_replaced(self):
        # Slurm looks at time limits every 30 s. A limit is a whole number of minutes.
        cluster = self.up_here("2", "--agent-option=--time=1", "--agent-option=--signal=TERM@35")
        job = self.submit_for(cluster, 2)
        self.trains_on_any(cluster, job, 2)
        agents = set(self.slurm.running(AGENT).values())
        harness.wait_until("both agents are replaced", lambda: len(self.slurm.running(AGENT)) == 2
                           and not agents & set(self.slurm.running(AGENT).values()), 200)
        after = self.trains_on_any(cluster, job, 2)
        self.assertGreater(after["steps"], 0)
        self.assertNotIn("exited", cluster.esctl("logs", job).out)
        self.assert_bits(cluster, job)
        self.down(cluster)


class LostHead(Slurm):
    def head_process(self, cluster):
        state = str(cluster.directory / "state")
        return next(pid for pid, line in harness.command_lines().items()
                    if "easyscaled --head" in line and state in line)

    def workers(self, description):
        """The numbers of its worker processes, which no later process has again."""
        return sorted(w["incarnation"] for w in description["workers"])

    def test_a_head_that_dies_is_started_again_and_finds_its_agents(self):
        cluster = self.up_here("2")
        job = self.submit_for(cluster, 2)
        before = self.trains_on_any(cluster, job, 2)
        os.kill(self.head_process(cluster), signal.SIGKILL)
        cluster.running.wait_for_line("is started again", stream="out")
        harness.wait_until("the head serves again", lambda: self.start_esctl(
            "ps", "--head", cluster.endpoint, *cluster.wire).wait().code == 0)
        after = self.trains_on_any(cluster, job, 2, before["steps"])
        self.assertEqual(self.workers(after), self.workers(before))
        self.assert_bits(cluster, job)
        self.down(cluster)

    def test_the_head_is_a_job_that_is_queued_again(self):
        cluster = self.up("2")
        ended = cluster.running.wait()
        self.assertEqual(ended.code, 0, str(ended))
        job = self.submit_for(cluster, 2)
        before = self.trains_on_any(cluster, job, 2)
        (number,) = self.slurm.running(HEAD).values()
        self.esctl("slurm", "up", "--dir", cluster.directory, "--nodes", "2", code=EXIT_REFUSED)
        first = self.head_process(cluster)
        self.slurm.run("scontrol", "requeue", number)

        def another_head():
            try:
                return self.head_process(cluster) != first
            except StopIteration:
                return False
        harness.wait_until("the head runs again", another_head)
        endpoint = cluster.directory / "endpoint"
        harness.wait_until("it serves", lambda: self.start_esctl(
            "ps", "--head", endpoint.read_text().strip(), *cluster.wire).wait().code == 0)
        cluster.endpoint = endpoint.read_text().strip()
        self.trains_on_any(cluster, job, 2, before["steps"])
        self.assert_bits(cluster, job)
        self.down(cluster)

    def test_a_head_that_cannot_start_is_reported(self):
        directory = self.directory / "cluster"
        cluster = self.up_here("1")
        self.down(cluster)
        (directory / "head.toml").write_text('policy = "none"\n')
        ended = self.start_esctl("slurm", "up", "--dir", directory, "--nodes", "1", "--partition",
                                 "low").wait()
        self.assertEqual(ended.code, 1, str(ended))
        log = re.search(r"its output is (\S+)", ended.err).group(1)
        self.assertIn("--policy", Path(log).read_text())


if __name__ == "__main__":
    harness.main()
