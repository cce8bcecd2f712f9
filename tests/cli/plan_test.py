"""`ltrain plan`: the bytes that a run will hold and send, the estimated time of a step, and which settings fit."""

import json
import pathlib
import re
import shlex
import statistics
import xml.dom.minidom

import program
from training import LAYERS, TrainingTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEASURED = json.loads((ROOT / "tests/plan/measured_h200.json").read_text())


def result(benchmark, rows):
    """The parts of a result of `ltrain bench` that `plan --rates` reads."""
    return {"schema": 1, "benchmark": benchmark, "machine": {"gpu": "NVIDIA H200"}, "device": "cuda", "rows": rows}


def kernel_rates(model):
    return result("kernels", [{"name": name, "dtype": dtype, "shape": shape, "flops": flops, "bytes": size, "ms": {"median": ms},
                               **({"implementation": "automatic"} if name.startswith("attention.") else {})}
                              for name, dtype, shape, flops, size, ms in MEASURED["kernels"][model]])


def comm_rates():
    return result("comm", [{"name": name, "dtype": "f32", "implementation": implementation, "ranks": ranks, "shape": f"{size} bytes", "bytes": size,
                            "ms": {"median": ms}} for name, implementation, ranks, size, ms in MEASURED["collectives"]])


class Plan(TrainingTest):
    def test_a_folder_of_weights_that_is_missing_is_refused(self):
        for more in ((), ("--sample",), ("--fit", "--memory", "1GiB")):
            refused = program.run("plan", "--model.from=nowhere", *more)
            self.assertEqual(refused.returncode, 3)
            self.assertIn("model.from: nowhere: expected a Hugging Face folder or a checkpoint, found none", refused.stderr)

    def test_plan_names_the_bytes_that_the_run_sends_and_holds(self):
        for strategy in ("ddp", "zero1", "zero2", "zero3"):
            max_seq = 64 if strategy in ("zero1", "zero3") else 256  # where the window of a sample slides, and where not
            options = (f"--parallel.strategy={strategy}", "--train.accum=2", "--train.eval_every=3", "--train.sample_every=3",
                       f"--model.max_seq={max_seq}",
                       f"--data.val={self.folder}/data/val.bin,{self.folder}/data/train.bin")
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
            parts = ("matmuls", "attention", "traffic", "contention")
            self.assertAlmostEqual(sum(estimate[part] for part in parts), estimate["compute"], places=6)
            self.assertAlmostEqual(estimate["exposed_local"] + estimate["exposed_network"], estimate["exposed_comm"], places=6)
            self.assertAlmostEqual(estimate["compute"] + estimate["exposed_comm"], estimate["total"], places=6)
            self.assertAlmostEqual(sum(estimate["breakdown_ms"].values()), estimate["total"], places=6)
            self.assertAlmostEqual(estimate["tokens_per_s"] * estimate["total"] / 1e3, ranks * 16 * 1024, places=3)
            self.assertEqual(estimate["bound_by"], "matmuls")
            waits = [estimate["breakdown_ms"][part] for part in ("gather_exposed", "reduce_exposed")]
            self.assertAlmostEqual(sum(waits), estimate["exposed_comm"], places=6)
        self.assertGreater(waits[0], 0)  # zero3
        self.assertIn("65 % matmuls, as it should be; in train.dtype=fp8 the device does 1.8 times as many a second",
                      planned("--ranks", 8).stdout)

        self.assertRegex(planned().stdout, r"  peak +64\.4 GiB, \d+ bytes, 14\.5 GiB less than CUDA leaves of the 79\.6 GiB of h100\n")
        self.assertNotIn("--fit", planned().stdout)
        # --gpu says whose memory it is, also beside the configuration of a run on the CPU, and the other way round.
        run = self.write("run.toml", '[train]\ndevice = "cpu"\ncuda_graph = false\n')
        for more in (("--json",), ("--sample", "--json")):
            self.assertEqual(planned("--config", run, *more).stdout, planned(*more).stdout, more)
        self.assertEqual(*(program.run("plan", "--json", *more).stdout
                           for more in ((), ("--gpu", "cpu", "--train.device=cuda", "--train.cuda_graph=true"))))
        large = planned(samples=32).stdout
        self.assertRegex(large, r"  peak +102 GiB, \d+ bytes, 23\.2 GiB more than CUDA leaves of the 79\.6 GiB of h100\n")
        self.assertTrue(large.endswith("\nit does not fit: --fit lists settings that do\n"), large)

        fit = json.loads(planned("--ranks", 8, "--fit", "--memory", "40GiB", "--json").stdout)
        self.assertEqual((fit["memory_bytes"], len(fit["rows"]), fit["given_micro_batch"]), (40 << 30, 12, 16))
        for row in fit["rows"]:
            self.assertLessEqual(row["peak_bytes"], 40 << 30)
            self.assertEqual(row["given_peak_bytes"] <= 40 << 30, row["micro_batch"] >= 16, row)
        self.assertIn("fastest with train.micro_batch=16: --parallel.strategy=zero1 --parallel.recompute=selective",
                      planned("--ranks", 8, "--fit", "--memory", "40GiB").stdout)
        # On the CPU the copies of the state for saves lie in the memory that is judged.
        copies = ("--model.preset=gpt-tiny", "--train.seq=64", "--checkpoint.async=true", "--checkpoint.memory_every=1")
        cpu = program.run("plan", *copies, "--fit", "--memory", "80MiB", "--json")
        best = json.loads(cpu.stdout)["rows"][0]
        plan = program.run("plan", *copies, "--parallel.strategy=" + best["strategy"], "--parallel.recompute=" + best["recompute"],
                           f"--train.micro_batch={best['micro_batch']}", "--json")
        self.assertEqual(best["peak_bytes"], json.loads(plan.stdout)["peak_bytes"] + json.loads(plan.stdout)["host_bytes"])
        self.assertLessEqual(best["peak_bytes"], 80 << 20)
        drawing = self.folder / "arena.svg"
        planned("--ranks", 8, "--svg", drawing)
        self.assertIn("activations", drawing.read_text())
        self.assertEqual(xml.dom.minidom.parse(str(drawing)).documentElement.tagName, "svg")
        self.assert_error(planned("--fit", "--memory", "40Gib"), 2, '[usage] --memory: expected bytes such as 80GiB or 500MB, at most 2^60, got "40Gib"')
        self.assert_error(planned("--fit", "--memory", "99999999999999TiB"), 2, "[usage] --memory: expected bytes such as "
                          '80GiB or 500MB, at most 2^60, got "99999999999999TiB"')
        self.assert_error(program.run("plan", "--gpu", "h101"), 2,
                          '[plan] device (--gpu): expected one of h100, h200, a100, cpu, got "h101"')
        self.assert_error(program.run("plan", "--svg", self.folder / "no" / "a.svg"), 2, "[usage] --svg: expected a file in an "
                          f"existing folder, got {self.folder}/no/a.svg")
        self.assert_error(program.run("plan", "--svg", ""), 2, "[usage] --svg: expected the name of a file, got none")
        self.assert_error(program.run("plan", "--sample", "--svg", drawing), 2, "[usage] --svg excludes --sample",
                          "ltrain plan --help")
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
        self.assert_error(program.run("plan", "--fit"), 2, "[plan] --fit: expected --memory with --gpu cpu, got none")
        for unitless in ("80", "85899345920", "1.5"):
            self.assert_error(planned("--fit", "--memory", unitless), 2, "[usage] --memory: expected a unit, as in "
                              f'{unitless}GiB or {unitless}MB, got "{unitless}"')
        self.assert_error(planned("--cores", 4), 2, "[usage] --cores: expected only with --gpu cpu, got --gpu h100")
        rates = self.write("comm.json", json.dumps(comm_rates()))
        self.assert_error(program.run("plan", "--cores", 4, "--rates", rates), 2, "[plan] --cores: expected only with rates of CPU ranks, "
                          f"got those of NVIDIA H200 in {rates}")
        self.assertIn(" over 1000000000h for 1000 steps", program.run("plan", "--gpu", "h100", "--ranks", 16, "--network", "1e-300").stdout)
        wide = ("--model.width=268435456", "--model.heads=1", "--model.vocab=268435456", "--model.ffn=268435456")
        for more in ((), ("--sample",)):  # more bytes than 63 bits count
            self.assert_error(program.run("plan", *wide, *more), 2, "[plan] parameters: expected at most 2^50, got 1.8e+18 in gpt2: "
                              "4 layers, 1 head, 1 kv_head, width 268435456, ffn 268435456, vocab 268435456")
        self.assert_error(program.run("plan", "--model.width=1048576", "--train.micro_batch=2147483647"), 2, "[plan] train.micro_batch x "
                          "train.seq: expected at most 5.37e+08 tokens, got 2147483647 x 256 = 5.5e+11 in gpt2: 4 layers, 4 heads, "
                          "4 kv_heads, width 1048576, ffn 4194304, vocab 256")
        for more in (("--nodes", 2, "--ranks", 2), ("--sample", "--ranks", 2), ("--sample", "--network", 3)):
            refused = program.run("plan", *more)
            self.assertRegex(refused.stderr, r"^error: \[usage\] --(nodes|sample|ranks|network) excludes --(nodes|sample|ranks|network)\n")
            self.assertEqual(refused.returncode, 2)
        self.assert_error(program.run("plan", "--train.micro_batch=2147483647", "--train.accum=2147483647", "--train.seq=1"), 2,
                          "[config] tokens of a step: expected at most 2^53, got 1 ranks x train.micro_batch 2147483647 x train.accum "
                          "2147483647 x train.seq 1 = 4.61e+18")

    def test_nccls_buffers_count_where_it_moves_data_within_a_host(self):
        def outside_mib(*options):
            planned = program.run("plan", "--gpu", "h200", "--ranks", 8, "--model.preset=gpt2-124m", "--model.layers=1",
                                  "--train.dtype=bf16", "--train.micro_batch=1", "--parallel.strategy=zero3", "--json", *options)
            return json.loads(planned.stdout)["outside_bytes"] / 2**20

        usual, gathers, peers = outside_mib(), 476, 7 * 400
        for options, more in ((("--train.sample_every=10",), gathers), (("--optim.name=muon",), gathers + peers),
                              (("--parallel.shard_size=4",), gathers + peers), (("--parallel.backend=mpi",), -565),
                              (("--ranks-per-node", 4), 0), (("--ranks-per-node", 4, "--parallel.shard_size=4"), gathers)):
            with self.subTest(options=options):  # states and arenas of other sizes fill their pages differently
                self.assertAlmostEqual(outside_mib(*options), usual + more, delta=50)

    def test_the_page_shows_what_plan_prints(self):
        page = (ROOT / "docs/explanation/planning.md").read_text()
        shown = re.findall(r"^```console\n\$ ltrain (plan (?:[^\n]*\\\n)*[^\n]*)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        self.assertGreaterEqual(len(shown), 2)
        for command, text in shown:
            with self.subTest(command=command):
                self.assertEqual(program.run(*shlex.split(command.replace("\\\n", " "))).stdout, text)

    def test_a_configuration_that_fit_names_is_not_refused_by_plan(self):
        model = ("--gpu", "h100", "--model.preset=gpt2-350m", "--train.dtype=bf16", "--ranks", 8)
        # 80 GiB are more than the GPU has.
        fit, same = [json.loads(program.run("plan", *model, "--fit", *memory, "--json").stdout)
                     for memory in (("--memory", "80GiB"), ())]
        self.assertEqual((fit, fit["memory_bytes"], fit["nearest"]), (same, 81559 << 20, None))
        for row in fit["rows"][::4]:
            plan = json.loads(program.run("plan", *model, f"--parallel.strategy={row['strategy']}",
                                          f"--parallel.recompute={row['recompute']}",
                                          f"--train.micro_batch={row['micro_batch']}", "--json").stdout)
            self.assertEqual((plan["fits"], plan["peak_bytes"]), (True, row["peak_bytes"]), row)
            self.assertLessEqual(plan["peak_bytes"] + plan["outside_bytes"], plan["device_bytes"])
        # Where the batch is given, accum follows from each micro-batch, and the given accum is that of the given one.
        batch = ("--gpu", "h100", "--model.preset=gpt2-124m", "--train.dtype=bf16", "--ranks", 16, "--train.micro_batch=8",
                 "--train.global_batch=1024", "--train.accum=8")
        text = program.run("plan", *batch, "--fit").stdout
        self.assertIn("sequences of 1024, global batches of 1024 samples\n", text)
        for named in re.findall(r"^fastest .*: +(--parallel.*)$", text, re.MULTILINE):
            plan = json.loads(program.run("plan", *batch, *named.split(), "--json").stdout)
            self.assertEqual((plan["fits"], plan["tokens_per_step"]), (True, 1024 * 1024), named)
        self.assertEqual((plan["micro_batch"], plan["accum"]), (64, 1))  # what fits, 269, does not divide the rank's 64 samples

    def test_fit_says_why_a_row_cannot_run(self):
        model = ("--gpu", "h100", "--model.preset=gpt-tiny", "--train.dtype=bf16", "--train.micro_batch=10000", "--fit")
        reason = "embedding: tokens of a micro-batch: expected at most 2097152 on CUDA, got 2560000"
        text = program.run("plan", *model).stdout
        self.assertEqual(text.count(f"refused with train.micro_batch=10000: {reason}\n  (ddp none, ddp selective, ddp full, zero1 none, "), 1)
        self.assertRegex(text, r"\nzero3     full       \|    refused                            \|        8192 ")
        whole = program.run("plan", "--ranks", 8, "--parallel.shard_size=3", "--fit", "--memory", "1GiB").stdout
        self.assertEqual(whole.count(" refused\n"), 9)
        self.assertIn("\nrefused: parallel.shard_size: expected a divisor of the 8 ranks, got 3 (from the command line)\n"
                      "  (zero1 none, zero1 selective, ", whole)
        fit = json.loads(program.run("plan", *model, "--json").stdout)
        for row in fit["rows"]:
            self.assertEqual((row["given_peak_bytes"], row["given_fits"], row["micro_batch"], row["refused"]), (None, False, 8192, reason))
        # What no row can run is the error of `plan`.
        for fitting in ((), ("--fit", "--memory", "1GiB")):
            self.assert_error(program.run("plan", "--model.preset=gpt-tiny", "--model.width=33", *fitting), 2,
                              "[config] model.heads: expected a divisor of width 33, got 4")

    def test_the_dtype_follows_the_device(self):
        def printed(*options):
            return program.run("plan", "--model.preset=gpt2-124m", "--train.micro_batch=1", *options).stdout
        self.assertEqual(printed("--gpu", "h200"), printed("--gpu", "h200", "--train.dtype=bf16"))
        self.assertEqual(printed("--gpu", "cpu"), printed("--gpu", "cpu", "--train.dtype=f32"))
        self.assertEqual(printed(), printed("--train.dtype=f32"))

    def test_nothing_fits(self):
        for options in (("--memory", "1MiB"), ("--gpu", "h100", "--memory", "1100MiB")):
            nothing = program.run("plan", "--model.preset=gpt2-1.5b", "--train.dtype=f32", "--train.micro_batch=4", "--fit", *options)
            self.assertEqual((nothing.returncode, nothing.stderr), (6, ""))
            self.assertRegex(nothing.stdout, r"nothing fits; the nearest: --parallel.strategy=ddp --parallel.recompute=full "
                             r"--train.micro_batch=1\n  takes 2\d\.\d GiB, 2\d\.\d GiB too much\n")
            fit = program.run("plan", "--model.preset=gpt2-1.5b", "--train.dtype=f32", "--train.micro_batch=4", "--fit",
                              *options, "--json")
            self.assertEqual(fit.returncode, 6)
            nearest = json.loads(fit.stdout)["nearest"]
            self.assertEqual((nearest["strategy"], nearest["micro_batch"]), ("ddp", 1))
            self.assertGreater(nearest["missing_bytes"], 0)

    def test_many_nodes(self):
        model = ("--gpu", "h100", "--ranks", 16384, "--model.preset=llama-8b", "--train.dtype=bf16", "--train.seq=4096",
                 "--train.micro_batch=2", "--parallel.strategy=zero3")
        plan = json.loads(program.run("plan", *model, "--json").stdout)
        estimate = plan["step_ms_estimate"]
        self.assertEqual(estimate["bound_by"], "exposed_network")
        better = estimate["faster_shard_size"]
        text = program.run("plan", *model, "--train.steps=100000").stdout
        self.assertRegex(text, f"collectives between nodes that nothing hides: with parallel.shard_size={better} the estimate "
                         r"is 3(\.\d)? times as many tokens/s")
        self.assertRegex(text, r"  run +66h\d\dm for 100000 steps, 13.4T tokens\n")
        faster = json.loads(program.run("plan", *model, f"--parallel.shard_size={better}", "--json").stdout)
        self.assertGreater(faster["step_ms_estimate"]["tokens_per_s"], 3 * estimate["tokens_per_s"])
        self.assertEqual(plan["per_rank"], 16384 * [plan["peak_bytes"]])
        self.assertEqual(plan["per_rank_runs"], [{"ranks": 16384, "bytes": plan["peak_bytes"]}])
        # --fit tries shard sizes as well.
        fit = json.loads(program.run("plan", *model, "--fit", "--json").stdout)
        row, = (row for row in fit["rows"] if (row["strategy"], row["recompute"]) == ("zero3", "none"))
        self.assertEqual(row["given_shard_size"], better)

    def test_ranks_with_equal_peaks_are_one_run(self):
        plan = json.loads(program.run("plan", "--model.preset=gpt-tiny", "--ranks", 3, "--train.sample_every=1", "--json").stdout)
        self.assertGreater(plan["per_rank"][0], plan["per_rank"][1])
        self.assertEqual(plan["per_rank_runs"], [{"ranks": 1, "bytes": plan["per_rank"][0]},
                                                 {"ranks": 2, "bytes": plan["per_rank"][1]}])

    def test_a_cluster_is_the_best_of_fit_for_each_number_of_nodes(self):
        model = ("--gpu", "h100", "--model.preset=gpt2-124m", "--train.dtype=bf16", "--ranks-per-node", 2)
        curve = self.folder / "curve.svg"
        cluster = json.loads(program.run("plan", *model, "--nodes", "4,1,4", "--memory", "10GiB", "--svg", curve, "--json").stdout)
        self.assertEqual(xml.dom.minidom.parse(str(curve)).documentElement.tagName, "svg")
        self.assertEqual([row["ranks"] for row in cluster["rows"]], [2, 8])
        for row in cluster["rows"]:
            best = json.loads(program.run("plan", *model, "--ranks", row["ranks"], "--fit", "--memory", "10GiB",
                                          "--json").stdout)["best"]
            for key in ("strategy", "recompute", "shard_size", "micro_batch", "peak_bytes", "tokens_per_s"):
                self.assertEqual(row[key], best[key], key)
            self.assertAlmostEqual(row["tokens_per_s"] * row["step_ms"] / 1e3, row["global_batch"] * 1024, places=3)
        self.assertAlmostEqual(cluster["rows"][1]["efficiency"], cluster["rows"][1]["tokens_per_s"] / 4
                               / cluster["rows"][0]["tokens_per_s"], places=9)

        batch = json.loads(program.run("plan", *model, "--nodes", "2,3", "--memory", "10GiB", "--train.global_batch=64",
                                       "--json").stdout)
        row, other = batch["rows"]
        self.assertEqual((row["global_batch"], row["micro_batch"] * row["accum"] * 4), (64, 64))
        self.assertEqual(other, {"nodes": 3, "ranks": 6, "fits": False})
        alone = program.run("plan", *model, "--nodes", "3", "--memory", "10GiB", "--train.global_batch=64")
        self.assertEqual((alone.returncode, alone.stderr), (6, ""))
        slow = json.loads(program.run("plan", *model, "--nodes", "2", "--memory", "10GiB", "--train.global_batch=64",
                                      "--network", "0.1", "--network-hop", "1000", "--json").stdout)["rows"][0]
        self.assertGreater(slow["step_ms"], 2 * row["step_ms"])
        self.assertEqual(slow["bound_by"], "exposed_network")

        none = program.run("plan", *model, "--nodes", "1", "--memory", "1100MiB")
        self.assertEqual((none.returncode, none.stderr), (6, ""))
        self.assertIn("nothing fits", none.stdout)
        for empty in ("1,,2", "1,", ","):
            self.assert_error(program.run("plan", *model, "--nodes", empty), 2,
                              '[usage] --nodes: expected an integer from 1 to 2147483647, got ""')
        self.assert_error(program.run("plan", "--nodes", "2"), 2, "[plan] --nodes: expected --memory with --gpu cpu, got none")
        self.assert_error(program.run("plan", "--nodes", "2", "--memory", "1GiB"), 2,
                          "[plan] --nodes: expected --ranks-per-node with --gpu cpu, got none")
        self.assert_error(program.run("plan", "--gpu", "h100", "--nodes", "200000"), 2,
                          "[plan] --nodes: expected at most 1048576 ranks, got 200000 nodes of 8")
        self.assert_error(program.run("plan", *model, "--nodes", "2,3", "--parallel.shard_size=4"), 2,
                          "[plan] --nodes: expected numbers whose ranks parallel.shard_size=4 divides, got 3 of 6 ranks")
        nodes = program.run("plan", "--gpu", "h100", "--model.preset=gpt-tiny", "--nodes", "2", "--parallel.shard_size=8", "--json")
        self.assertEqual(len(json.loads(nodes.stdout or "{}").get("rows", ())), 1, nodes.stderr)
        odd = self.write(b"caf\xe9.toml".decode(errors="surrogateescape"), "[parallel]\nshard_size = 3\n")
        self.assertIn("caf\ufffd.toml", program.run("plan", "--config", odd, "--ranks", "8", "--fit", "--memory", "1GiB", "--json").stdout)
        self.assert_error(program.run("plan", "--memory", "1GiB"), 2, "[usage] --memory requires --fit or --nodes")
        self.assert_error(program.run("plan", "--gpu", "h100", "--network", "0"), 2,
                          '[usage] --network: expected a number above 0 and at most 1000000, got "0"')

    def test_estimates_by_measured_rates_are_within_7_percent_on_one_to_four_gpus(self):
        comm = self.write("comm.json", json.dumps(comm_rates()))
        self.assertEqual(len(MEASURED["steps"]), 43)
        for model, dtype, samples, seq, strategy, ranks, steps in MEASURED["steps"]:
            kernels = self.write("kernels.json", json.dumps(kernel_rates(f"{model} {samples}x{seq}")))
            plan = program.run("plan", f"--model.preset={model}", f"--train.micro_batch={samples}", f"--train.seq={seq}",
                               f"--train.dtype={dtype}", f"--parallel.strategy={strategy}", "--ranks", ranks, "--rates", kernels,
                               "--rates", comm, "--json")
            estimate = json.loads(plan.stdout)["step_ms_estimate"]
            self.assertEqual(estimate["device"], "h200")
            differences = [estimate["total"] / ms - 1 for ms in steps]  # on several cards, which differ by up to 5 %
            self.assertLess(abs(statistics.median(differences)), 0.07, (model, dtype, strategy, ranks))
            self.assertLess(max(map(abs, differences)), 0.075, (model, dtype, strategy, ranks))

    def test_rates_of_attention_are_of_what_steps_run(self):
        """The rows `automatic`, not those of one library."""
        def estimate(change):
            content = kernel_rates("gpt2-124m 64x1024")
            attention = [row for row in content["rows"] if row["name"].startswith("attention.")]
            self.assertEqual(len(attention), 2)
            content["rows"] += change(attention)
            file = self.write("rates.json", json.dumps(content))
            plan = program.run("plan", "--model.preset=gpt2-124m", "--train.micro_batch=64", "--train.seq=1024",
                               "--train.dtype=bf16", "--rates", file, "--json")
            return json.loads(plan.stdout)["step_ms_estimate"]["total"]

        def halved(attention, implementation):
            return [{**row, "implementation": implementation, "ms": {"median": row["ms"]["median"] / 2}} for row in attention]

        def slower(attention):
            for row in attention:
                row["ms"]["median"] *= 2
            return []

        alone = estimate(lambda attention: [])
        self.assertEqual(estimate(lambda attention: halved(attention, "library")), alone)
        self.assertGreater(estimate(slower), alone + 5)

    def test_rates_that_are_none(self):
        good = comm_rates()
        hint = "rates are what `ltrain bench rates --out FILE` writes"

        def refused(change, message, *options):
            content = json.loads(json.dumps(good))
            change(content)
            bad = self.write("bad.json", json.dumps(content))
            self.assert_error(program.run("plan", "--rates", bad, *options), 3, f"[plan] {bad}: {message}", hint)

        refused(lambda r: r.pop("benchmark"), "benchmark: expected kernels, comm or rates, got nothing")
        refused(lambda r: r.update(schema=2), "schema: expected 1, got 2")
        refused(lambda r: r["rows"][1]["ms"].pop("median"), "rows[1].ms.median: expected a number above 0, got nothing")
        refused(lambda r: r["rows"][2].update(ranks=0), "rows[2].ranks: expected an integer from 1 to 1048576, got 0")
        refused(lambda r: r["rows"][0].update(name="gemm.qkv.forward"),
                'rows[0].shape: expected M=... N=... K=..., got "65536 bytes"')
        refused(lambda r: r.update(benchmark="kernels", device="cpu"), "peaks: expected an object, got nothing")
        huge = self.write("huge.json", '{"schema": 1e999}')
        self.assert_error(program.run("plan", "--rates", huge), 3, f"[plan] {huge}: expected numbers up to 1e308, got a larger one")
        none = self.folder / "none.json"
        self.assert_error(program.run("plan", "--rates", none), 3,
                          f"[plan] {none}: expected a readable file, found: No such file or directory")
        comm = self.write("comm.json", json.dumps(good))
        other = json.loads(comm.read_text())
        other["machine"]["gpu"] = "NVIDIA H100"
        other = self.write("other.json", json.dumps(other))
        self.assert_error(program.run("plan", "--rates", comm, "--rates", other), 3, f"[plan] {other}: machine.gpu: expected "
                          'NVIDIA H200, as in the file before, got "NVIDIA H100"', hint)
        self.assert_error(program.run("plan", "--rates", comm, "--gpu", "h100"), 2,
                          f"[plan] --gpu: expected h200, on which {comm} was measured, got h100")
        unknown = json.loads(comm.read_text())
        unknown["machine"]["gpu"] = "NVIDIA B200"
        unknown = self.write("unknown.json", json.dumps(unknown))
        self.assert_error(program.run("plan", "--rates", unknown), 2,
                          "[plan] --rates: the table of docs/explanation/planning.md has no row for NVIDIA B200",
                          "name the row to take other figures from: --gpu h200")
        self.assertIn("a step on h200", program.run("plan", "--rates", unknown, "--gpu", "h200").stdout)


if __name__ == "__main__":
    program.main()
