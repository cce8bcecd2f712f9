"""`ltrain plan`: the bytes that a run will hold and send, the estimated time of a step, and which settings fit."""

import json
import xml.dom.minidom

import program
from training import LAYERS, TrainingTest


class Plan(TrainingTest):
    def test_plan_names_the_bytes_that_the_run_sends_and_holds(self):
        for strategy in ("ddp", "zero1", "zero2", "zero3"):
            options = (f"--parallel.strategy={strategy}", "--train.accum=2", "--train.eval_every=3", "--train.sample_every=3",
                       f"--data.val={self.folder}/data/val.bin")
            self.trained(*options, run=strategy, ranks=2)
            plan = json.loads(program.run("plan", *LAYERS, "--train.micro_batch=2", *options, "--ranks", 2, "--json").stdout)
            row = [row for row in self.lines(strategy) if "loss_hex" in row][-1]
            self.assertEqual(plan["comm"], [{key: entry[key] for key in ("op", "bytes", "calls")} for entry in row["comm"]])
            self.assertEqual(sum(plan["ledger"].values()), plan["peak_bytes"])
            self.assertEqual(sum(entry["bytes"] for entry in plan["comm"]), plan["comm_bytes"])
            self.assertEqual([plan[key] for key in ("strategy", "recompute", "dtype")], [strategy, "none", "f32"])
            self.assertEqual([plan["model"][key] for key in ("family", "layers", "width", "ffn", "seq")],
                             ["gpt2", 2, 32, 48, 16])
            self.assertEqual([row["memory_peak_bytes"], self.lines(strategy)[0]["predicted_peak_bytes"]],
                             2 * [plan["peak_bytes"]])

    def test_plan_estimates_a_step_and_says_what_fits(self):
        def planned(*options, samples=16):
            return program.run("plan", "--model.preset=gpt2-1.5b", "--train.dtype=bf16", f"--train.micro_batch={samples}",
                               "--gpu", "h100", *options)

        for ranks, options in ((8, ()), (64, ("--ranks-per-node", 4, "--parallel.strategy=zero3"))):
            estimate = json.loads(planned("--ranks", ranks, "--json", *options).stdout)["step_ms_estimate"]
            parts = ("products", "attention", "traffic")
            self.assertAlmostEqual(sum(estimate[part] for part in parts), estimate["compute"], places=6)
            self.assertAlmostEqual(estimate["exposed_local"] + estimate["exposed_network"], estimate["exposed_comm"], places=6)
            self.assertAlmostEqual(estimate["compute"] + estimate["exposed_comm"], estimate["total"], places=6)
            self.assertAlmostEqual(sum(estimate["breakdown_ms"].values()), estimate["total"], places=6)
            self.assertAlmostEqual(estimate["tokens_per_s"] * estimate["total"] / 1e3, ranks * 16 * 1024, places=3)
            self.assertEqual(estimate["bound_by"], "products")
        self.assertIn("67 % matrix products, as it should be", planned("--ranks", 8).stdout)

        self.assertNotIn("more than the", planned().stdout)
        self.assertRegex(planned(samples=32).stdout, r"  peak +\d+\.\d+ MiB, more than the 81559 MiB of h100\n")

        fit = json.loads(planned("--ranks", 8, "--fit", "--memory", "40GiB", "--json").stdout)
        self.assertEqual((fit["memory_bytes"], len(fit["rows"]), fit["given_micro_batch"]), (40 << 30, 12, 16))
        for row in fit["rows"]:
            self.assertLessEqual(row["peak_bytes"], 40 << 30)
            self.assertEqual(row["given_peak_bytes"] <= 40 << 30, row["micro_batch"] >= 16, row)
        self.assertIn("fastest with train.micro_batch=16: --parallel.strategy=zero1 --parallel.recompute=selective",
                      planned("--ranks", 8, "--fit", "--memory", "40GiB").stdout)
        drawing = self.folder / "arena.svg"
        planned("--ranks", 8, "--svg", drawing)
        self.assertIn("activations", drawing.read_text())
        self.assertEqual(xml.dom.minidom.parse(str(drawing)).documentElement.tagName, "svg")
        self.assertIn("nothing fits", planned("--fit", "--memory", "1MiB").stdout)
        self.assert_error(planned("--fit"), 2, "[usage] --fit requires --memory")
        self.assert_error(planned("--fit", "--memory", "40Gib"), 2, '[usage] --memory: expected bytes such as 80GiB or 500MB, at most 2^60, got "40Gib"')
        self.assert_error(planned("--fit", "--memory", "99999999999999TiB"), 2, "[usage] --memory: expected bytes such as "
                          '80GiB or 500MB, at most 2^60, got "99999999999999TiB"')
        self.assert_error(program.run("plan", "--gpu", "h101"), 2,
                          '[plan] device: expected one of h100, h200, a100, cpu, got "h101"')
        self.assert_error(program.run("plan", "--svg", self.folder / "no" / "a.svg"), 2, "[usage] --svg: expected a file in an "
                          f"existing folder, got {self.folder}/no/a.svg")
        self.assert_error(program.run("plan", "--svg", ""), 2, "[usage] --svg: expected the name of a file, got none")
        self.assertEqual((fit["device"], fit["dtype"], fit["model"]["family"]), ("h100", "bf16", "gpt2"))
        self.assertIn("times as many a second", program.run("plan", "--gpu", "h100", "--model.preset=llama-1b").stdout)
        self.assertIn("most of it the optimizer's", program.run("plan", "--gpu", "h100", "--model.preset=gpt2-124m",
                                                                "--train.micro_batch=1", "--train.seq=64").stdout)
        # Sizes that a kernel refuses are reported in the kernel's words.
        self.assert_error(planned("--model.heads=5"), 2, "[kernels] attention: channels of a head: expected at most 256 on CUDA, got 320")
        self.assert_error(planned(samples=2049), 2, "[kernels] embedding: tokens of a micro-batch: expected at most 2097152 on CUDA, "
                          "got 2098176")
        self.assert_error(planned("--parallel.reduce_dtype=bf16", "--ranks", 4001), 2,
                          "[kernels] reduce-scatter: ranks of a group: expected at most 4000 on CUDA, got 4001")
        self.assertEqual(planned("--parallel.reduce_dtype=bf16", "--ranks", 4000).returncode, 0)
        self.assertEqual(program.run("plan", "--model.preset=llama-1b", "--model.heads=4", "--gpu", "cpu").returncode, 0)
        self.assert_error(planned("--cores", 4), 2, "[plan] cores: expected 1 for a rank on h100, got 4")


if __name__ == "__main__":
    program.main()
