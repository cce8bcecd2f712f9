"""Tests `ltrain bench`: the fields of each measurement and their consistency, the comparison of results, and errors."""

import copy
import json
import os
import subprocess

import program

SMALL = ("--model.layers=2", "--model.width=32", "--model.heads=2", "--model.ffn=48", "--train.seq=16",
         "--train.micro_batch=2")
QUICK = ("--warmup", 1, "--iterations", 5)
MACHINE = {"version", "commit", "built_with", "libraries", "driver", "gpu", "host", "processor", "processors", "memory_bytes",
           "ranks", "ranks_on_host", "ranks_from", "omp_num_threads", "threads_per_rank", "threads_from", "unix_time"}
STRATEGIES = ("ddp", "zero1", "zero2", "zero3")


class Bench(program.CliTest):
    def bench(self, *arguments, ranks=1):
        """Runs a measurement, checks what holds for all of them, and returns its JSON."""
        out = self.folder / "out.json"
        done = program.run("bench", *arguments, *QUICK, "--out", out, ranks=ranks)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(out.read_text())
        count = len(result["rows"])
        self.assertEqual(done.stdout, f"{out}: {count} row{'s' if count > 1 else ''}\n")
        self.table = done.stderr.splitlines()
        self.assertEqual([result[key] for key in ("schema", "benchmark", "warmup", "iterations")],
                         [1, arguments[0], 1, 5])
        self.assertTrue(result["command"].startswith(f"ltrain bench {arguments[0]}"))
        self.assertEqual(set(result["machine"]), MACHINE)
        self.assertEqual(result["machine"]["ranks"], ranks)
        self.assertEqual(list(result["machine"]["libraries"]), ["compiler", "cuda", "nccl", "cudnn", "onednn", "mpi", "hdf5", "c_library"])
        self.assertIsNone(result["machine"]["driver"])
        self.assertTrue(result["rows"])
        for row in result["rows"]:
            self.assertLess(0, row["ms"]["min"])
            self.assertLessEqual(row["ms"]["min"], row["ms"]["median"])
            self.assertLessEqual(row["ms"]["median"], row["ms"]["max"])
            self.assertEqual(len(row["ms"]["blocks"]), 3)
            self.assertTrue(all(row["ms"]["min"] <= block <= row["ms"]["max"] for block in row["ms"]["blocks"]))
        return result

    def assert_near(self, a, b):
        self.assertAlmostEqual(a / b, 1, delta=1e-9)

    def test_kernels(self):
        result = self.bench("kernels", *SMALL)
        peaks = result["peaks"]
        self.assertEqual(result["left_out"], [])
        # The smallest size fits the fastest cache of one thread, which limits kernels on little data.
        self.assertEqual([memory["bytes"] for memory in peaks["memory"]], [16 << 10 << i for i in range(16)])
        rows = {(row["name"], row.get("implementation"), row["dtype"]): row for row in result["rows"]}
        self.assertEqual(len(rows), len(result["rows"]))
        for row in result["rows"]:
            self.assert_near(row["gflops"], row["flops"] / row["ms"]["median"] / 1e6)
            self.assert_near(row["gb_per_s"], row["bytes"] / row["ms"]["median"] / 1e6)
            self.assert_near(row["roofline_share"], row["limit_ms"] / row["ms"]["median"])
            rate = max(max(memory["read_gb_per_s"], memory["update_gb_per_s"]) for memory in peaks["memory"]
                       if 2 * memory["bytes"] > row["footprint_bytes"])
            self.assertLessEqual(row["footprint_bytes"], row["bytes"])
            matmuls = row["dtype"] in ("bf16", "e4m3") and row["name"].startswith(("gemm", "attention"))
            compute = row["flops"] / peaks["bf16_matmul_gflops" if matmuls else "multiply_add_gflops"] / 1e6
            memory = row["bytes"] / rate / 1e6
            self.assert_near(row["limit_ms"], max(compute, memory))
            self.assertEqual(row["limited_by"], "flops" if compute > memory else "memory")
        # 2 sequences of 16 tokens give 32 rows of width 32; packed [q | k | v] has width 96.
        qkv = rows["gemm.qkv.forward", None, "f32"]
        self.assertEqual((qkv["shape"], qkv["flops"], qkv["bytes"]),
                         ("M=32 N=96 K=32", 2 * 32 * 96 * 32, 4 * (32 * 32 + 32 * 96 + 32 * 96)))
        norm = rows["rms_norm.forward", None, "bf16"]
        self.assertEqual((norm["shape"], norm["flops"], norm["bytes"]),
                         ("R=32 C=32", 4 * 32 * 32, 2 * (2 * 32 * 32 + 32) + 4 * 32))
        for name in ("attention.forward", "attention.backward"):
            for dtype in ("f32", "bf16"):
                ways = [rows[name, way, dtype] for way in ("naive", "tiled", "library")]
                self.assertEqual(len({(row["flops"], row["bytes"], row["shape"]) for row in ways}), 1)
                self.assertNotIn("max_error", ways[0])
                for row in ways[1:]:
                    self.assertLessEqual(row["max_error"], row["tolerance"])
        families = {name.split(".")[0] for name, _, _ in rows}
        self.assertEqual(families, {"gemm", "quantize_rows", "quantize_transposed", "transpose_quantized", "attention",
                                    "attention_documents", "layer_norm", "rms_norm", "gelu", "swiglu",
                                    "dropout", "rope", "embedding", "cross_entropy", "adamw", "sum_rows", "sum_ranks", "sum_squares",
                                    "convert"})

    def test_filter(self):
        result = self.bench("kernels", *SMALL, "--filter", "attention.forward tiled")
        self.assertEqual([(row["name"], row["implementation"], row["dtype"]) for row in result["rows"]],
                         [("attention.forward", "tiled", "f32"), ("attention.forward", "tiled", "bf16")])
        self.assert_error(program.run("bench", "kernels", "--filter", "nothing"), 2,
                          '[bench] --filter: expected a part of a row\'s name, got "nothing"')

    def test_comm(self):
        result = self.bench("comm", "--sizes", "1000,64KiB", "--train.device=cpu", ranks=3)
        self.assertIn(" --train.device=cpu", result["command"])
        factors = {"all_gather": 2 / 3, "reduce_scatter": 2 / 3, "all_reduce": 4 / 3, "broadcast": 1}
        self.assertEqual([(row["name"], row["bytes"]) for row in result["rows"]],
                         [(name, size) for name in factors for size in (1000, 65536)])
        for row in result["rows"]:
            self.assertEqual((row["ranks"], row["dtype"]), (3, "f32"))
            self.assert_near(row["algbw_gb_per_s"], row["bytes"] / row["ms"]["median"] / 1e6)
            self.assert_near(row["busbw_gb_per_s"], row["algbw_gb_per_s"] * factors[row["name"]])

    def test_step(self):
        result = self.bench("step", *SMALL, "--parallel.strategy=zero2", ranks=2)
        self.assertEqual(result["tokens_per_step"], 2 * 2 * 16)
        row, = result["rows"]
        self.assertEqual((row["name"], row["ranks"], row["strategy"], row["dtype"], row["recompute"]),
                         ("gpt2-2x32", 2, "zero2", "f32", "none"))  # SMALL changes the preset, so no preset is named
        self.assertEqual(result["model"], "gpt2-2x32")
        self.assertEqual({key: row["ms"][key] for key in ("min", "median", "max")}, result["step_ms"])
        self.assert_near(result["tokens_per_s"], 64 / row["ms"]["median"] * 1e3)
        plan = program.run("plan", *SMALL, "--parallel.strategy=zero2", "--ranks=2", "--json")
        self.assertEqual(row["memory_peak_bytes"], json.loads(plan.stdout)["peak_bytes"])
        self.assertNotIn("options", row)
        self.assertEqual(self.table[:2], [f"gpt2-2x32: {row['shape']}", "zero2 on 2 ranks, recompute none, f32"])
        self.assertEqual(self.table[2].split(), ["activity", "median", "ms", "min", "ms", "max", "ms", "share"])
        cells = {line.split()[0]: line.split()[1:] for line in self.table[3:-1]}
        self.assertLessEqual({"forward", "backward", "optimizer", "step"}, set(cells))
        self.assertEqual(cells["step"], [*(f"{row['ms'][key]:.3f}" for key in ("median", "min", "max")), "100.0", "%"])
        self.assertAlmostEqual(sum(float(cell[3]) for cell in cells.values()), 200, delta=1)
        self.assertEqual(self.table[-1], f"{result['tokens_per_s']:.0f} tokens/s")
        alone = program.run("bench", "step", *SMALL, *QUICK, "--optim.name=muon", "--optim.lr=0.5")
        self.assertEqual(json.loads(alone.stdout)["rows"][0]["options"], "optim.name=muon")
        for what in ("step", "scaling"):  # heads that do not divide the width
            rows = json.loads(program.run("bench", what, *SMALL, *QUICK, "--model.heads=3", "--model.head_dim=8").stdout)["rows"]
            self.assertIn(" heads=3 kv_heads=3 head_dim=8 width=32 ", rows[0]["shape"])
            self.assertNotIn("options", rows[0])

    def test_serve(self):
        for line, message in (("run 2\nend", ""), *((line, f'error: [bench] standard input: expected "run N" with N from 1, or "end", '
                                                     f'got "{line}"\n') for line in ("run -1", "run 1x", "run", "foo"))):
            done = subprocess.run([program.ltrain(), "bench", "step", "--serve", *SMALL, "--warmup=0"], input=line + "\n", timeout=120,
                                  env=program.clean_environment(), capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (2 if message else 0, message))
            answers = [json.loads(answer) for answer in done.stdout.splitlines()]
            self.assertEqual([len(answer["ms"]) for answer in answers[1:]], [] if message else [2])

    def test_compare_matches_what_measures_the_same(self):
        for name, options in (("ddp", ()), ("other", ("--parallel.strategy=zero1", "--train.micro_batch=4", "--train.z_loss=0.1"))):
            self.bench("step", *SMALL, *options, ranks=2)
            (self.folder / "out.json").rename(self.folder / f"{name}.json")
        a, b = self.folder / "ddp.json", self.folder / "other.json"
        self.assert_error(self.compare(a, b), 3,
                          f"[bench] {b}: expected a row that measures the same as one of {a}, found none; the nearest two differ in shape "
                          "micro_batch: 2 in A, 4 in B; strategy: ddp in A, zero1 in B; options: none in A, train.z_loss=0.1 in B",
                          "two results of the same options compare: `command` in each file has them")
        self.bench("scaling", *SMALL, ranks=2)
        done = self.compare(a, self.folder / "out.json", "--threshold", 1000)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^step gpt2-2x32 .* ranks=2 ddp none +\d")
        self.assertIn("\n1 row: 0 slower, ", done.stdout)

    def test_scaling(self):
        result = self.bench("scaling", *SMALL, ranks=3)
        rows = result["rows"]
        self.assertEqual([(row["ranks"], row["strategy"]) for row in rows],
                         [(1, "single")] + [(n, strategy) for n in (2, 3) for strategy in STRATEGIES])
        self.assertEqual({row["name"] for row in rows}, {"gpt2-2x32"})
        self.assertEqual(rows[0]["efficiency"], 1)
        self.assertLess(rows[0]["exposed_share"], 0.1)  # nothing but the clock's own steps, in steps of 1 ms
        self.assertEqual(len(rows[0]["ranks_alone_ms"]), 3)
        self.assertEqual(rows[0]["ms"]["median"], max(rows[0]["ranks_alone_ms"]))
        for row in rows:
            self.assertEqual(row["tokens_per_step"], row["ranks"] * 2 * 16)
            self.assert_near(row["tokens_per_s"], row["tokens_per_step"] / row["ms"]["median"] * 1e3)
            self.assert_near(row["tokens_per_s_per_rank"], row["tokens_per_s"] / row["ranks"])
            self.assert_near(row["efficiency"], max(rows[0]["ranks_alone_ms"][:row["ranks"]]) / row["ms"]["median"]
                             if row["ranks"] > 1 else 1)
            self.assertTrue(0 <= row["exposed_share"] < 1)
        # The planned peak of a strategy at two ranks equals the measured peak.
        for row in rows[1:5]:
            plan = program.run("plan", *SMALL, f"--parallel.strategy={row['strategy']}", "--ranks", 2, "--json")
            self.assertEqual(row["memory_peak_bytes"], json.loads(plan.stdout)["peak_bytes"])

    def result(self, name, change=None):
        """Writes a made-up result, changed by change(result), and returns its path."""
        rows = [{"name": f"kernel {i}", "shape": "N=1", "dtype": "f32", "ms": {"min": 0.99 * ms, "median": ms, "max": 9 * ms, "blocks": [ms]}}
                for i, ms in enumerate((1.0, 2.0, 3.0))]
        result = {"schema": 1, "benchmark": "kernels", "command": "ltrain bench kernels", "warmup": 1, "iterations": 5,
                  "machine": {"host": "one", "commit": "abc", "processors": 2}, "rows": rows}
        if change is not None:
            result = change(result) or result
        return self.write(name, json.dumps(result))

    def compare(self, a, b, *options):
        return program.run("bench", "compare", a, b, *options)

    def test_compare(self):
        def scale(factor):
            def change(result):
                ms = result["rows"][1]["ms"]
                result["rows"][1]["ms"] = {key: ms[key] * factor for key in ("min", "median", "max")}
            return change

        a = self.result("a.json")
        same = self.compare(a, a)
        self.assertEqual((same.returncode, same.stderr), (0, ""))
        self.assertIn("3 rows: 0 slower, 0 faster, 3 the same within noise, 0 unclear", same.stdout)

        slow = self.compare(a, self.result("b.json", scale(1.3)))
        self.assertEqual((slow.returncode, slow.stderr), (6, ""))
        self.assertRegex(slow.stdout, r"kernels kernel 1 N=1 f32 +2\.0000 +2\.6000 +1\.300 +10 %  SLOWER")
        self.assertIn("3 rows: 1 slower, 0 faster, 2 the same within noise, 0 unclear", slow.stdout)
        self.assertEqual(self.compare(a, self.folder / "b.json", "--threshold", 40).returncode, 0)

        def disturb(result):
            result["rows"][1]["ms"]["blocks"] = [2.0, 2.3]

        unclear = self.compare(a, self.result("c.json", disturb))
        self.assertEqual(unclear.returncode, 0)
        self.assertIn("3 rows: 0 slower, 0 faster, 2 the same within noise, 1 unclear", unclear.stdout)

        fast = self.compare(self.folder / "b.json", a)
        self.assertEqual(fast.returncode, 0)
        self.assertIn("3 rows: 0 slower, 1 faster, 2 the same within noise, 0 unclear", fast.stdout)

    def test_compare_names_other_machines_and_rows_without_a_counterpart(self):
        def change(result):
            result["machine"]["host"] = "two"
            del result["rows"][0]
            result["rows"][0]["ranks"] = 2

        done = self.compare(self.result("a.json"), self.result("b.json", change))
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr, "warning: machine.host: A has one, B has two\n")
        self.assertIn("only in A: kernels kernel 0 N=1 f32\nonly in A: kernels kernel 1 N=1 f32\n"
                      "only in B: kernels kernel 1 N=1 f32 ranks=2\n", done.stdout)

    def test_a_processor_is_not_compared_with_a_gpu(self):
        a, b = (self.result(f"{device}.json", lambda result: result.update(device=device)) for device in ("cpu", "cuda"))
        self.assert_error(self.compare(a, b), 3, f"[bench] {b}: device: expected cpu as in {a}, got cuda")
        self.assertEqual(self.compare(a, a).returncode, 0)

    def test_compare_takes_what_a_measurement_wrote(self):
        self.bench("kernels", *SMALL, "--filter", "rope")
        done = self.compare(self.folder / "out.json", self.folder / "out.json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_compare_refuses_what_is_no_result(self):
        good = self.result("good.json")

        def refused(change, message):
            bad = self.result("bad.json", change) if callable(change) else self.write("bad.json", change)
            self.assert_error(self.compare(good, bad), 3, f"[bench] {bad}: {message}")

        def without(key):
            return lambda result: result.pop(key) and None

        def with_ms(**ms):
            return lambda result: result["rows"][2]["ms"].update(ms)

        self.assert_error(self.compare(good, self.folder / "none.json"), 3,
                          f"[bench] {self.folder}/none.json: expected a readable file, found: No such file or directory")
        self.assert_error(self.compare(good, self.write("empty.json", "{}")), 3,
                          f"[bench] {self.folder}/empty.json: schema: expected 1, got nothing",
                          "a result is what `bench kernels|comm|rates|step|scaling|tune --out FILE` writes")
        refused("{", "expected JSON, got something else at byte 2")
        refused("[1]", "the whole: expected an object, got [1]")
        refused('{"schema": 1e999}', "expected numbers up to 1e308, got a larger one")
        refused("[" * 300000 + "]" * 300000, "expected at most 32 levels, got 300000")
        refused(lambda result: result.update(schema=(1 << 32) + 1), "schema: expected 1, got 4294967297")
        refused(without("schema"), "schema: expected 1, got nothing")
        refused(lambda result: result.update(schema=2), "schema: expected 1, got 2")
        refused(without("rows"), "rows: expected an array, got nothing")
        refused(with_ms(median="2"), "rows[2].ms.median: expected a number above 0, got 2")
        refused(with_ms(min=0), "rows[2].ms.min: expected a number above 0, got 0")
        refused(with_ms(blocks=[1, None]), "rows[2].ms.blocks: expected a number above 0, got nothing")
        refused(lambda result: result["rows"].append(copy.deepcopy(result["rows"][0])),
                "rows[3]: expected a row of its own, got kernels kernel 0 N=1 f32")
        refused(lambda result: result.update(benchmark="step"),
                f"expected a row that measures the same as one of {good}, found none; the nearest two differ in "
                "benchmark: kernels in A, step in B")
        refused(lambda result: result.update(rows=[]),
                f"expected a row that measures the same as one of {good}, found none: 3 rows there, 0 here")

    def test_rates_are_what_plan_reads(self):
        for ranks in (1, 2):
            result = self.bench("rates", *SMALL, "--train.dtype=bf16", *(("--sizes", "4KiB,64KiB") if ranks > 1 else ()), ranks=ranks)
            self.assertEqual(result["device"], "cpu")
            names = {row["name"] for row in result["rows"]}
            self.assertEqual({row["dtype"] for row in result["rows"] if "flops" in row}, {"bf16"})
            self.assertLess({"gemm.qkv.forward", "gemm.head.weight_gradient", "attention.backward", "gelu.forward", "adamw"},
                            names)
            self.assertEqual("all_gather" in names, ranks > 1)
            self.assertFalse([name for name in names if "decode" in name or "documents" in name])
            plan = program.run("plan", *SMALL, "--train.dtype=bf16", "--ranks", ranks, "--rates", self.folder / "out.json",
                               "--json")
            estimate = json.loads(plan.stdout)["step_ms_estimate"]
            self.assertEqual(estimate["rates"], [str(self.folder / "out.json")])
            self.assertGreater(estimate["total"], 0)
            self.assertEqual(estimate["exposed_comm"] > 0, ranks > 1)
            if ranks == 1:  # a name that is no UTF-8
                other = self.write(os.fsdecode(b"r\xff.json"), (self.folder / "out.json").read_bytes())
                plan = program.run("plan", *SMALL, "--train.dtype=bf16", "--rates", other, "--json")
                self.assertEqual(json.loads(plan.stdout)["step_ms_estimate"]["rates"], [f"{self.folder}/r\ufffd.json"])

            if ranks == 1:  # the other file has collectives, which have no dtype
                self.assert_error(program.run("plan", *SMALL, "--train.dtype=f32", "--rates", self.folder / "out.json"), 2,
                                  f"[plan] rates (--rates): expected rates in f32, found none in {self.folder}/out.json",
                                  "ltrain bench rates measures those of the configured train.dtype")
        # Estimates of f16 on the CPU take the rates of f32.
        result = self.bench("rates", *SMALL, "--train.dtype=f16")
        self.assertEqual({row["dtype"] for row in result["rows"] if "flops" in row}, {"f32"})

    def test_a_value_that_looks_like_a_key_is_the_value_of_its_option(self):
        for command in (("bench", "step", "--out", "--none/a.json"), ("plan", "--svg", "--none/a.svg")):
            self.assert_error(program.run(*command), 2, f"[usage] {command[-2]}: expected a file in an existing folder, got {command[-1]}")

    def test_usage(self):
        self.assert_error(program.run("bench", "stap"), 2,
                          "[usage] unknown command stap: expected one of kernels, comm, rates, step, scaling, tune, compare",
                          "did you mean step? `ltrain bench --help` lists them")
        self.assert_error(program.run("bench", "comm"), 2, "[bench] comm: expected at least two ranks, got 1",
                          "start it as `ltrain launch -n 2 -- bench comm`, or under mpirun -n 2")
        self.assert_error(program.run("bench", "comm", "--sizes", "1Mb", ranks=2), 2,
                          '[usage] --sizes: expected bytes such as 80GiB or 500MB, at most 2^60, got "1Mb"')
        self.assert_error(program.run("bench", "comm", "--sizes", "64KiB,,1MiB", ranks=2), 2,
                          '[usage] --sizes: expected bytes such as 80GiB or 500MB, at most 2^60, got ""')
        for what in ("comm", "rates"):  # before anything is measured
            self.assert_error(program.run("bench", what, "--sizes", "64KiB,6", ranks=2), 2,
                              "[bench] comm: --sizes: expected multiples of 4 bytes, got 6")
        self.assert_error(program.run("bench", "rates", "--sizes", "64KiB"), 2,
                          "[usage] --sizes: expected at least two ranks, because it sets the sizes of their collectives, got 1")
        for given, source in ((("--train.device=gpu",), "command line"), ((), "environment variable LTRAIN_TRAIN_DEVICE")):
            self.assert_error(program.run("bench", "comm", *given, ranks=2, environment=None if given else {"LTRAIN_TRAIN_DEVICE": "gpu"}),
                              2, f'[config] train.device: expected one of auto, cpu, cuda, got "gpu" (from the {source})')
        self.assert_error(program.run("bench", "comm", "--train.device=cpu", "--train.seq=8", ranks=2), 2,
                          "[usage] unknown option --train.seq", "the options: ltrain bench comm --help")
        self.assert_error(program.run("bench", "kernels", ranks=2), 2, "[bench] kernels: expected one rank, got 2")
        self.assert_error(program.run("bench", "tune", ranks=2), 2, "[bench] tune: expected one rank, got 2")
        self.assert_error(program.run("bench", "tune", "--train.device=cpu"), 2,
                          "[bench] tune: train.device: expected cuda, got cpu", "only matmuls on GPUs have a choice of algorithms")
        self.assert_error(program.run("bench", "scaling", "--parallel.shard_size=2", ranks=2), 2,
                          "[bench] scaling: parallel.shard_size: expected 0, all ranks of each count, got 2")
        self.assert_error(program.run("bench", "step", "--iterations", "0"), 2,
                          '[usage] --iterations: expected an integer from 1 to 2147483647, got "0"')
        for option in ("--out=x.json", "--iterations=5"):
            self.assert_error(program.run("bench", "step", "--serve", option), 2,
                              f"[usage] {option.partition('=')[0]} excludes --serve", "ltrain bench step --help")
        for what in ("kernels", "comm", "step", "scaling", "tune", "compare"):
            help_text = program.run("bench", what, "--help")
            self.assertEqual((help_text.returncode, help_text.stderr), (0, ""))
            self.assertEqual("--model.preset" in help_text.stdout,
                             what in ("kernels", "step", "scaling", "tune"), what)


if __name__ == "__main__":
    program.main()
