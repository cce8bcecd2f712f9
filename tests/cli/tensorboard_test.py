"""TensorBoard's own reader finds every step and tag in a run's event files. If a step ran twice, the reader shows the
later one. Skipped if this Python has no tensorboard."""

import json
import os
import shutil
import sys

import program
from training import TrainingTest

try:
    # Suppresses the import's warning about TensorFlow, which is not needed.
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    print("skipped: this Python has no tensorboard")
    sys.exit(77)


class TensorBoard(TrainingTest):
    def start(self, steps):
        """Starts or resumes the run and trains up to step `steps`."""
        self.trained("--train.eval_every=2", "--checkpoint.every=4", "--optim.schedule=constant", "--record.tensorboard",
                     f"--data.val={self.folder}/data/val.bin", steps=steps)

    def assert_reader_sees_metrics_jsonl(self, steps):
        """Checks that the reader sees the rows and evaluations up to `steps` that count by docs/reference/metrics.md."""
        rows, evals = {}, {}
        for line in self.lines():
            if line.get("event") == "start":
                rows = {step: row for step, row in rows.items() if step <= line["step"]}
                evals = {step: row for step, row in evals.items() if step <= line["step"]}
            elif line.get("event") == "eval":
                evals[line["step"]] = line
            elif "event" not in line:
                rows[line["step"]] = line
        self.assertEqual(list(rows), list(range(1, steps + 1)))
        reader = EventAccumulator(str(self.folder / "run/tb"))
        reader.Reload()
        for tag, field in (("train/loss", "loss"), ("train/grad_norm", "grad_norm"), ("speed/step_ms", "step_ms")):
            seen = [(event.step, event.value) for event in reader.Scalars(tag)]
            self.assertEqual([step for step, _ in seen], list(rows))
            for step, value in seen:
                self.assertAlmostEqual(value / rows[step][field], 1, delta=1e-6)
        self.assertEqual([event.step for event in reader.Scalars("breakdown_ms/forward")], list(rows))
        self.assertEqual([event.step for event in reader.Scalars("eval/loss")], list(evals))

    def test_a_run_that_goes_on_below_what_was_written(self):
        self.start(steps=7)
        # As if the clock had been set back since.
        [events] = (self.folder / "run/tb").iterdir()
        events.rename(events.with_name("events.out.tfevents.99999999999.000000.1"))
        # Leaves the state of a run that was killed at step 7 before it could save.
        shutil.rmtree(self.folder / "run/checkpoints/step-00000007")
        self.start(steps=6)
        self.assert_reader_sees_metrics_jsonl(steps=6)
        self.start(steps=9)
        self.assert_reader_sees_metrics_jsonl(steps=9)

    def test_a_run_that_starts_over(self):
        self.start(steps=7)
        shutil.rmtree(self.folder / "run/checkpoints")
        self.start(steps=5)
        self.assert_reader_sees_metrics_jsonl(steps=5)


if __name__ == "__main__":
    program.main()
