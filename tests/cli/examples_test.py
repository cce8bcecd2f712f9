"""The example programs train under every strategy, and a run continues from a checkpoint of another strategy."""

import json
import pathlib
import re

import program

STRATEGIES = ("ddp", "zero1", "zero2", "zero3")


def losses_of(name, *arguments):
    done = program.run(*arguments, ranks=2, name=name)
    assert done.returncode == 0, done.stderr
    return [float(loss) for loss in re.findall(r"loss (\S+)", done.stdout)]


class Examples(program.CliTest):
    def test_own_loop_learns_under_every_strategy_and_goes_on(self):
        losses = {strategy: losses_of("own_loop", strategy, self.folder / strategy, 200) for strategy in STRATEGIES}
        for strategy in STRATEGIES:
            self.assertEqual(losses[strategy], losses["ddp"], strategy)
        self.assertLess(losses["ddp"][-1], 0.9 * losses["ddp"][0])
        more = program.run("zero1", self.folder / "ddp", 210, name="own_loop", ranks=2)
        self.assertIn("continuing after step 200, best ", more.stdout, more.stderr)
        self.assertIn("step 210 loss ", more.stdout)

    def test_own_operation_has_a_gradient_and_trains_under_every_strategy(self):
        losses = {strategy: losses_of("own_operation", strategy) for strategy in STRATEGIES}
        for strategy in STRATEGIES:
            self.assertEqual(losses[strategy], losses["ddp"], strategy)
        self.assertLess(losses["ddp"][-1], 0.001)

    def test_the_page_shows_what_the_examples_have(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        examples = "".join((root / f"examples/own_{name}.cpp").read_text() for name in ("operation", "optimizer"))
        lines = {line.strip() for line in examples.splitlines()}
        blocks = re.findall(r"```cpp\n(.*?)```", (root / "docs/how-to/own-operations.md").read_text(), re.DOTALL)
        shown = [line.strip() for block in blocks if block.count("\n") > 1 for line in block.splitlines()]
        self.assertGreater(len(shown), 60)
        self.assertEqual([line for line in shown if line not in lines], [])

    def test_own_optimizer_learns_under_every_strategy_and_goes_on(self):
        text = self.write("text.txt", "All work and no play makes Jack a dull boy. " * 200)
        self.assertEqual(program.run("prepare", "--input", text, "--out", self.folder / "data").returncode, 0)

        def losses(strategy, folder, steps):
            return losses_of("own_optimizer", strategy, self.folder / "data/train.bin", self.folder / folder, steps)
        expected = losses("ddp", "whole", 12)
        self.assertLess(expected[-1], 0.8 * expected[0])
        for strategy in STRATEGIES[1:]:
            for a, b in zip(losses(strategy, strategy, 12), expected):
                self.assertAlmostEqual(a, b, delta=1e-3)
        losses("zero3", "parts", 6)
        for a, b in zip(losses("zero1", "parts", 12), expected[6:]):
            self.assertAlmostEqual(a, b, delta=1e-3)
        inspected = program.run("checkpoint", "verify", self.folder / "parts")
        self.assertEqual(inspected.returncode, 0, inspected.stderr)
        manifest = json.loads((self.folder / "parts/step-00000012/manifest.json").read_text())
        self.assertEqual([state["kind"] for state in manifest["states"]], ["master", "momentum"])

    def test_train_min_goes_on_under_another_strategy_and_rank_count(self):
        text = self.write("text.txt", "All work and no play makes Jack a dull boy. " * 200)
        self.assertEqual(program.run("prepare", "--input", text, "--out", self.folder / "data").returncode, 0)
        tokens, whole, parts = self.folder / "data/train.bin", self.folder / "whole", self.folder / "parts"
        expected = losses_of("train_min", "zero3", tokens, whole, 12)
        first = losses_of("train_min", "zero3", tokens, parts, 6)
        second = losses_of("train_min", "ddp", tokens, parts, 12)
        self.assertEqual(first, expected[:6])
        for a, b in zip(second, expected[6:]):
            self.assertAlmostEqual(a, b, delta=1e-3)

        sample = ("sample", "--checkpoint", parts, "--prompt", "All", "--tokens", 3)
        self.assert_error(program.run(*sample), 3,
                          f"[checkpoint] {parts}/step-00000012/manifest.json: tokenizer: expected one, found none",
                          "--tokenizer byte, or the tokenizer.json that `ltrain prepare` wrote beside the data")
        for tokenizer in ("byte", self.folder / "data/tokenizer.json"):
            done = program.run(*sample, "--tokenizer", tokenizer)
            self.assertEqual((done.returncode, len(done.stdout)), (0, 3 + 3 + 1), done.stderr)
        evaluate = ("eval", "--checkpoint", parts, "--data", self.folder / "data/val.bin")
        self.assertNotIn("bits_per_byte", program.run(*evaluate).stdout)
        self.assertIn("bits_per_byte", program.run(*evaluate, "--tokenizer", "byte").stdout)


if __name__ == "__main__":
    program.main()
