#!/usr/bin/env python3
"""Tests that compare bits must be able to fail.

    broken_bits.py e2e ESCTL EASYSCALED SOURCE_ROOT [test_NAME ...]
    broken_bits.py kubernetes ESCTL EASYSCALED SOURCE_ROOT
    broken_bits.py python SOURCE_ROOT [test_NAME ...]

Runs one comparison of every such test file while one bit of one gradient is flipped, once, in the
first process that comes to the step that the table names. The comparison must then fail, by an
assertion. A file that compares digests and is in neither table is an error."""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SKIPPED = 77

# File: test case, step of the flipped bit. The step comes after what all runs of the test share.
E2E = {
    "adapters": ("Adapters.test_the_bits_do_not_depend_on_the_placement", 2),
    "arithmetic": ("Arithmetic.test_x15", 2),
    "broken_node": ("BrokenNode.test_a_running_job_goes_on_and_uses_the_node_when_it_is_repaired", 2),
    "budget": ("Budget.test_a_job_is_saved_and_paused_when_its_budget_is_used_up_and_goes_on_with_a_higher_one", 2),
    "channel": ("Channels.test_a_placement_that_changes_while_it_trains", 2),
    "checkpoint": ("Writing.test_the_newest_stay_and_each_is_a_run_of_that_many_steps", 2),
    "claim": ("Claim.test_a_claim_takes_two_devices_of_three_jobs_and_gives_them_back", 2),
    "cuda_host": ("CudaHost.test_small_cnn", 2),
    "cut_link": ("CutLink.test_a_job_runs_on_one_host_if_there_never_was_a_link", 2),
    "data": ("ImageFolder.test_the_number_of_loaders_decides_no_bits", 2),
    "decisions": ("Decisions.test_they_do_not_depend_on_the_placement", 2),
    "documented": ("Tutorial.test_two_machines_train_a_job_with_the_digest_of_the_page", 2),
    "drain": ("Drain.test_its_workers_are_handed_over_and_it_ends_in_good_order", 2),
    "elastic": ("Elastic.test_scaling_out_and_in_keeps_processes_and_bits", 2),
    "ending": ("KilledWorkers.test_one_of_three", 2),
    "frozen_node": ("FrozenNode.test_it_wakes_into_a_job_that_has_gone_on", 2),
    "full_disk": ("FullDisk.test_a_worker_that_dies_meanwhile_is_replaced_later", 2),
    "groups": ("Groups.test_the_bits_depend_on_the_groups_and_not_on_the_placement", 2),
    "head_restart": ("HeadRestart.test_running_jobs_keep_their_processes_and_their_bits", 2),
    "http": ("Jobs.test_a_job_by_http_has_the_bits_of_the_command_line", 2),
    "job_limits": ("JobLimits.test_at_its_limit_a_job_is_saved_and_can_be_continued", 2),
    "kept_weights": ("AtTheEnd.test_a_run_that_is_stopped_saves_its_last_completed_step", 2),
    "learning": ("Learning.test_evaluations_have_the_same_bits_everywhere", 2),
    "length_buckets": ("Training.test_the_bits_do_not_depend_on_the_devices", 2),
    "levels": ("Levels.test_d1_is_the_same_on_any_number_of_devices_of_a_type", 2),
    "model_file": ("Training.test_the_bits_do_not_depend_on_the_devices", 2),
    "models": ("Models.test_neumf", 2),
    "other_host": ("OtherHost.test_a_large_model_trains_and_moves_across_hosts", 2),
    "own_disks": ("OwnDisks.test_a_paused_job_continues_elsewhere_from_where_it_was", 2),
    "pause": ("Pause.test_a_paused_job_holds_nothing_and_continues_with_the_same_bits", 2),
    "queues": ("Queues.test_limits_are_kept_and_borrowed_devices_go_back", 2),
    "recorded": ("Recorded.test_bits_of_the_tiny_jobs_at_bf16", 2),
    "resume": ("Resume.test_on_more_devices_and_on_a_mix", 2),
    "same_bits": ("SameBits.test_small_cnn_with_4_ests", 2),
    "shard": ("Shards.test_divided_and_whole_state_have_equal_bits", 2),
    "stragglers": ("Stragglers.test_a_hogged_worker_is_named_and_relieved_and_the_bits_are_those_of_a_calm_run", 2),
    "texts": ("Texts.test_texts_are_encoded_once_and_the_job_is_one_on_tokens", 2),
    "token_files": ("Training.test_the_bits_do_not_depend_on_the_devices", 2),
    "trace": ("Trace.test_all_processes_are_on_one_time_line_and_no_bit_changes", 2),
    "two_nodes": ("TwoNodes.test_a_lost_node_costs_no_bits", 2),
    "webdataset": ("Training.test_the_bits_do_not_depend_on_the_devices", 2),
    "written_models": ("WrittenModels.test_neumf", 2),
}
PYTHON = {
    "allowed": ("Trains.test_columns_of_categories_of_different_size_train_as_in_pytorch", 1),
    "clipping": ("Training.test_with_bf16_and_an_average_on_changing_devices", 2),
    "complex": ("Complex.test_a_frozen_one_stays", 2),
    "continue": ("Continue.test_a_job_that_continues_has_the_bits_of_one_that_was_not_interrupted", 4),
    "decisions": ("Beside.test_the_rate_falls_as_in_torch", 2),
    "dataset": ("Train.test_no_bit_depends_on_placements_loaders_and_killed_processes", 2),
    "images": ("Train.test_folders_and_shards_give_the_same_bits_everywhere", 2),
    "integers_random": ("IntegersRandom.test_two_steps_are_those_of_torch_on_two_kernel_classes", 1),
    "integers_train": ("IntegersTrain.test_steps_are_those_of_pytorch_on_every_class", 1),
    "language": ("Language.test_gpt2", 1),
    "loops": ("Loops.test_dpo", 2),
    "length_buckets": ("Training.test_images_of_several_sizes", 2),
    "lora": ("Adapters.test_a_captured_model", 2),
    "metrics": ("Weights.test_samples_without_a_weight_are_never_drawn", 2),
    "onnx_train": ("Train.test_a_batch_norm", 2),
    "packed": ("Packed.test_it_trains_as_torch_and_padding_has_no_influence", 2),
    "random": ("Train.test_the_bits_depend_on_no_placement_and_evaluations_can_be_repeated", 2),
    "states": ("Training.test_devices_that_change_give_the_same_bits", 2),
    "texts": ("Train.test_a_model_learns_a_text", 2),
    "tokens": ("Train.test_documents_that_do_not_attend_to_each_other", 2),
    # Step 2 is that of the other loss, which does not read the first gradients.
    "losses_train": ("Gans.test_devices_that_change_give_the_same_bits", 3),
    "updates_train": ("CapturedOptimizers.test_devices_that_change_give_the_same_bits", 2),
    "train": ("Train.test_steps_are_those_of_pytorch_and_the_bits_do_not_depend_on_devices", 2),
}
KUBERNETES = {"kubernetes": ("Kubernetes.test_applied_job_ends_with_the_bits_of_a_fixed_run", 2)}
# Files that name digests and compare no bits of two trainings.
OTHERS = {
    "e2e": {
        "damage": "the job that is compared comes after one that is lost",
        "audit": "flips bits itself, and its comparisons fail without audits",
        "suspect": "flips bits itself",
        "export": "compares weights that are written and read, without training",
        "install": "starts the installed programs once",
        "tokenize": "compares the answers of two commands",
        "curve": "reads what a tracker was sent",
    },
    "python": {
        "finetune": "takes minutes; its comparison is that of states",
        "history": "reads lines of a history",
        "job": "reads what a stand-in answers",
    },
    "kubernetes": {},
}
COMPARES = re.compile(r"digests\(|_digest|assert_bits")


class BrokenBits(unittest.TestCase):
    suite, table, folder, arguments = "", {}, Path(), []

    def test_every_file_that_compares_bits_is_named(self):
        found = {path.name.removesuffix("_test.py") for path in self.folder.glob("*_test.py")
                 if COMPARES.search(path.read_text())}
        self.assertEqual(found, set(self.table) | set(OTHERS[self.suite]))

    def check(self, name):
        case, step = self.table[name]
        with tempfile.TemporaryDirectory() as directory:
            environment = {**os.environ, **self.flipped_bit(Path(directory), step)}
            ended = subprocess.run([*self.command(name), case], env=environment, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertNotEqual(ended.returncode, 0, f"{name}: {case} passes with a flipped bit")
        if ended.returncode == SKIPPED:
            self.skipTest(ended.stdout.strip().splitlines()[-1])
        self.assertIn("AssertionError", ended.stdout, ended.stdout)
        self.assertRegex(ended.stdout, r"[0-9a-f]{32}|differ|[Nn]ot equal|2 != 1", ended.stdout)
        self.assertNotIn("ERROR: test", ended.stdout)


class EndToEnd(BrokenBits):
    def command(self, name):
        return [sys.executable, self.folder / f"{name}_test.py", *self.arguments]

    def flipped_bit(self, _, step):
        return {"ES_BREAK_BITS": str(step)}


class Python(BrokenBits):
    def command(self, name):
        return [self.folder / "run", f"{name}_test.py"]

    def flipped_bit(self, directory, step):
        token = directory / "token"
        token.touch()
        return {"ES_FAULT": f"flip-gradient:*:{step}:*", "ES_FAULT_TOKEN": str(token)}


SUITES = {"e2e": (EndToEnd, E2E, "tests/e2e", 3),
          "kubernetes": (EndToEnd, KUBERNETES, "tests/kubernetes", 3),
          "python": (Python, PYTHON, "python/tests", 1)}


def main():
    suite, *arguments = sys.argv[1:]
    tests, tests.table, folder, paths = SUITES[suite]
    tests.suite, tests.arguments = suite, arguments[:paths]
    tests.folder = Path(arguments[paths - 1]).resolve() / folder
    for name in tests.table:
        setattr(tests, f"test_{name}", lambda self, name=name: self.check(name))
    names = [f"{tests.__name__}.{name}" for name in arguments[paths:]] or [tests.__name__]
    loaded = unittest.defaultTestLoader.loadTestsFromNames(names, sys.modules["__main__"])
    result = unittest.TextTestRunner(verbosity=2).run(loaded)
    if not result.wasSuccessful():
        return 1
    # The check of the table needs no programs, so it alone shows nothing.
    return SKIPPED if result.skipped and len(result.skipped) + 1 >= result.testsRun else 0


if __name__ == "__main__":
    sys.exit(main())
