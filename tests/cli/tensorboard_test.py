"""Event files of a run, read by TensorBoard's own reader: every step and tag is there, a resumed run's steps count once.
Skipped where this Python has no tensorboard."""

import json
import os
import sys

import program

try:
    # Without it a warning about TensorFlow, which is not needed, comes at import.
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    print("skipped: this Python has no tensorboard")
    sys.exit(77)


class TensorBoard(program.CliTest):
    def test_what_the_reader_sees_is_what_metrics_jsonl_says(self):
        text = self.write("text.txt", "The quick brown fox jumps over the lazy dog. " * 60)
        data = self.folder / "data"
        self.assertEqual(program.run("prepare", "--input", text, "--out", data).returncode, 0)
        for steps in (4, 7):
            done = program.run("train", "--model.layers=1", "--model.width=32", "--model.heads=2", "--train.seq=16",
                               f"--train.steps={steps}", "--train.micro_batch=2", f"--data.train={data}/train.bin",
                               f"--data.val={data}/val.bin", "--train.eval_every=2", "--optim.schedule=constant",
                               f"--run.dir={self.folder}/run", "--record.tensorboard")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = [json.loads(line) for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        rows = [row for row in lines if "loss_hex" in row]
        evals = [row for row in lines if row.get("event") == "eval"]

        reader = EventAccumulator(str(self.folder / "run/tb"))
        reader.Reload()
        for tag, field in (("train/loss", "loss"), ("train/grad_norm", "grad_norm"), ("speed/step_ms", "step_ms")):
            seen = [(event.step, event.value) for event in reader.Scalars(tag)]
            self.assertEqual([step for step, _ in seen], [1, 2, 3, 4, 5, 6, 7])
            for (_, value), row in zip(seen, rows):
                self.assertAlmostEqual(value / row[field], 1, delta=1e-6)
        self.assertEqual([event.step for event in reader.Scalars("breakdown_ms/forward")], [1, 2, 3, 4, 5, 6, 7])
        self.assertEqual([event.step for event in reader.Scalars("eval/loss")], [row["step"] for row in evals])


if __name__ == "__main__":
    program.main()
