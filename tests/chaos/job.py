"""The jobs of a chaos run: the disturbed job, one to warm up with, and small ones beside it."""
import re
import shutil

import data_jobs
from disk import Disk
from jobs import job_text

# The parameters do not fit into one bucket of gradients, so that two workers own one each. The job
# has batch-norm statistics, augmentation and momentum, so that every part of the state is covered.
MODEL = {"model.width": 24, "batch_size": 4, "max_p": 4, "eval_every": 25}
STEPS_PER_FAULT = 6
STEPS_MIN = 60
CHECKPOINT_STEPS = 20


class Jobs:
    def __init__(self, directory, args):
        self.directory = directory
        self.disk = Disk(directory / "disk")
        wanted = args.times if args.at else args.faults
        self.steps = args.steps or max(STEPS_MIN, STEPS_PER_FAULT * wanted)
        self.daemon_options = ["--python-data"] if args.data == "python" else []
        if args.data:
            text = self._with_data(args)
        elif args.job:
            text = self._with_steps(args.job.read_text(), self.steps)
        else:
            # Every second seed has sharded state.
            shard = {"shard.state": "off" if args.seed % 2 else "on"}
            changes = {**MODEL, **shard, "steps": self.steps, **self._checkpoints()}
            text = job_text("chaos", "resnet18", changes)
        self.file = self._write("job.toml", text)
        self.max_p = int(re.search(r"^max_p\s*=\s*(\d+)", text, re.MULTILINE).group(1))
        self.warm_up = self._write(
            "warm_up.toml", job_text("warm-up", "resnet18", {**MODEL, "steps": 6}))

    def _write(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return path

    def _with_data(self, args):
        changes = {"steps": self.steps, "eval_every": MODEL["eval_every"], **self._checkpoints()}
        if args.data == "tokens":
            return data_jobs.tokens_job(self.directory, changes)
        return data_jobs.python_job(self.directory, changes,
                                    args.build.resolve() / "actors/esctl/esctl",
                                    args.python, args.source_root)

    @staticmethod
    def _with_steps(text, steps):
        """Returns the same job with another number of steps."""
        text = re.sub(r"^(steps|epochs|stages)\s*=.*\n", "", text, flags=re.MULTILINE)
        return f"steps = {steps}\n{text}"

    def side(self, number):
        """Returns name and file of a job with a name that was not submitted before."""
        name = f"small_cnn-side{number}"
        return name, self._write(f"side-{number}.toml",
                                 job_text(f"side{number}", changes={"steps": 3}))

    def _checkpoints(self):
        return {"checkpoint.every_steps": CHECKPOINT_STEPS, "checkpoint.keep": 2,
                "checkpoint.directory": str(self.disk.path)}

    def close(self):
        self.disk.close()
        shutil.rmtree(self.directory, ignore_errors=True)
