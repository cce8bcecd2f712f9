"""Shared by the tests of training runs: a small model, its data, and the run's folder."""

import json
import pathlib
import sys

import program

LAYERS = ("--model.layers=2", "--model.width=32", "--model.heads=2", "--model.ffn=48", "--train.seq=16")
PARTS = ("data", "forward", "backward", "recompute", "gather_exposed", "reduce_exposed", "optimizer", "checkpoint",
         "other")


class TrainingTest(program.CliTest):
    def setUp(self):
        super().setUp()
        text = self.write("text.txt", "The quick brown fox jumps over the lazy dog. " * 60)
        self.assertEqual(program.run("prepare", "--input", text, "--out", self.folder / "data").returncode, 0)

    def train(self, *options, run="run", ranks=1, steps=6, model=LAYERS, environment=None):
        return program.run("train", *model, f"--data.train={self.folder}/data/train.bin", f"--train.steps={steps}",
                           "--train.micro_batch=2", f"--run.dir={self.folder / run}", *options, ranks=ranks,
                           environment=environment)

    def trained(self, *options, **settings):
        done = self.train(*options, **settings)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def lines(self, run="run"):
        return [json.loads(line) for line in (self.folder / run / "metrics.jsonl").read_text().splitlines()]

    def assert_same_bits(self, run, other):
        """The losses and norms of all steps, and the exported weights, are equal."""
        steps, weights = [], []
        for name in (run, other):
            steps.append({line["step"]: (line["loss_hex"], line["grad_norm"]) for line in self.lines(name) if "loss_hex" in line})
            exported = program.run("checkpoint", "export", self.folder / name, "--out", self.folder / f"{name}-exported")
            self.assertEqual(exported.returncode, 0, exported.stderr)
            weights.append((self.folder / f"{name}-exported/model.safetensors").read_bytes())
        self.assertEqual(steps[0], steps[1])
        self.assertTrue(weights[0] == weights[1], "the weights differ")

    def memory_folder(self, run="run"):
        """The folder of the run's in-memory copies on this host. It exists only while there are copies."""
        return pathlib.Path("/dev/shm") / ("libtrain-" + json.loads((self.folder / run / "run.json").read_text())["id"])


class CudaTest(TrainingTest):
    """Skips its tests with a message if there is no CUDA device."""

    def setUp(self):
        super().setUp()
        self.skip_without_device(self.train("--train.device=cuda", run="probe", steps=1).stderr)

    def skip_without_device(self, errors):
        if "train.device: " not in errors:
            return
        print("skipped: " + errors.splitlines()[0], file=sys.stderr)
        self.skipTest("too few CUDA devices")
