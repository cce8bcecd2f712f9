"""Which state a run resumes from, what it refuses before it writes or moves anything, and which checkpoints stay."""

import json
import re
import shutil
import struct

import program
from training import LAYERS, TrainingTest


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


class Resume(TrainingTest):
    def steps(self, run="run"):
        return sorted(path.name for path in (self.folder / run / "checkpoints").glob("step-*"))

    def damage(self, step, run="run"):
        """Flips a bit in the middle of the payload, so that sizes stay right."""
        shard = self.folder / run / f"checkpoints/step-{step:08}/rank-00000.h5"
        content = bytearray(shard.read_bytes())
        content[len(content) // 2] ^= 1
        shard.write_bytes(content)

    def test_a_damaged_checkpoint_takes_no_place_of_a_good_one(self):
        self.trained("--checkpoint.every=1", "--checkpoint.keep=2", steps=3)
        self.damage(3)
        out = self.trained("--checkpoint.every=1", "--checkpoint.keep=2", steps=4)
        self.assertRegex(out, r"(?m)^passed over: step-00000003: .*crc32c")
        self.assertIn("resuming from", out)
        # Step 3 is written again beside the damaged one. The newest two undamaged checkpoints stay.
        self.assertEqual(self.steps(), ["step-00000003", "step-00000003.corrupt-1", "step-00000004"])

    def test_a_damaged_checkpoint_is_kept_beside_the_good_ones(self):
        self.trained("--checkpoint.every=2", "--checkpoint.keep=2", steps=4)
        self.damage(4)
        self.trained("--checkpoint.every=3", "--checkpoint.keep=2", steps=3)
        self.assertEqual(self.steps(), ["step-00000002", "step-00000003", "step-00000004"])

    def test_checkpoints_that_cannot_be_read_are_not_given_up(self):
        self.trained(steps=1)
        shard = self.folder / "run/checkpoints/step-00000001/rank-00000.h5"
        shard.rename(self.folder / "shard")
        shard.symlink_to(shard)  # as root, permissions refuse nothing
        refused = self.train(steps=2)
        self.assert_error(refused, 3, f"[checkpoint] checkpoint.dir {self.folder}/run/checkpoints: expected files that can be "
                          f"read, found {shard}: Too many levels of symbolic links",
                          "the checkpoint may be whole; a run with another --run.dir, and another --checkpoint.dir if given, "
                          "starts over")
        shard.unlink()
        (self.folder / "shard").rename(shard)
        self.assertIn("resuming from", self.trained(steps=2))

    def test_a_start_removes_the_samples_of_the_steps_that_it_supersedes(self):
        options = ("--checkpoint.every=2", "--train.sample_every=2")
        samples = lambda: sorted(path.name for path in (self.folder / "run/samples").iterdir())
        self.trained(*options)
        (self.folder / "run/samples/notes.txt").write_text("mine")
        self.assertEqual(samples(), ["notes.txt", "step-00000002.txt", "step-00000004.txt", "step-00000006.txt"])
        shutil.rmtree(self.folder / "run/checkpoints/step-00000006")
        self.assertEqual(self.train(*options, environment={"LTRAIN_FAULT": "step:0:5:kill"}).returncode, -9)
        self.assertEqual(samples(), ["notes.txt", "step-00000002.txt", "step-00000004.txt"])

    def test_a_run_killed_after_its_last_save_gets_its_end_from_the_next_start(self):
        killed = self.train("--checkpoint.every=2", environment={"LTRAIN_FAULT": "save-gc:0:6:kill"})
        self.assertEqual(killed.returncode, -9)
        before = self.lines()
        self.assertEqual([row["step"] for row in before if row.get("event") == "checkpoint"], [2, 4])
        for _ in range(2):
            self.assertIn("complete: 6 steps are done", self.trained("--checkpoint.every=2"))
        added = [(row["event"], row["step"]) for row in self.lines()[len(before):]]
        self.assertEqual(added, [("checkpoint", 6), ("end", 6)])
        self.assertEqual(self.lines()[-1]["reason"], "steps")
        program.run("report", self.folder / "run")
        self.assertNotIn("The record ends", (self.folder / "run/report.md").read_text())

    def test_a_record_that_goes_beyond_the_last_save_gets_no_end(self):
        killed = self.train("--checkpoint.every=2", environment={"LTRAIN_FAULT": "step:0:6:kill"})
        self.assertEqual(killed.returncode, -9)
        before = self.lines()
        self.assertIn("complete: 4 steps are done", self.trained(steps=4))
        self.assertEqual(self.lines(), before)

    def test_a_run_begun_from_another_begins_there_again(self):
        self.trained(run="first", steps=3)
        began = self.folder / "first/checkpoints/step-00000003"
        for run in ("run", "late"):
            killed = self.train(f"--checkpoint.resume={self.folder}/first", run=run, environment={"LTRAIN_FAULT": "forward:0:5:kill"})
            self.assertEqual((killed.returncode, self.steps(run)), (-9, []))
        self.assert_error(self.train(steps=3), 2, f"[config] train.steps: expected more than the 3 of {began}, got 3")
        again = self.trained()
        self.assertIn(f"starting over at step 4: {self.folder}/run/checkpoints holds no valid checkpoint, metrics.jsonl has ", again)
        self.assertIn(f"resuming from {began} at step 4", again)
        self.assertEqual([row["resumed_from"] for row in self.lines() if row.get("event") == "start"], 2 * [str(began)])
        self.trained(f"--checkpoint.resume={self.folder}/first", run="whole")
        losses = [[row["loss_hex"] for row in self.lines(run) if "loss_hex" in row][-3:] for run in ("run", "whole")]
        self.assertEqual(*losses)
        self.assertEqual(self.steps(), ["step-00000006"])
        shutil.rmtree(began)
        self.assert_error(self.train(run="late"), 3, f"[checkpoint] {self.folder}/late/run.json: begun_from {began}: no such file "
                          "or folder", "--run.force with --checkpoint.resume=FOLDER begins anew, from another checkpoint")

    def test_a_run_that_goes_on_from_itself_is_not_moved_aside(self):
        self.trained("--checkpoint.every=1", steps=2)
        inside = self.folder / "run/checkpoints/step-00000001"
        for key, more in (("checkpoint.resume", ()), ("model.from", ("--checkpoint.resume=never",))):
            options = (f"--{key}={inside}", *more)
            for force in ((), ("--run.force=true",)):
                refused = self.train(*options, *force)
                self.assert_error(refused, 2, f"[config] {key} {inside}: expected a folder outside of run.dir "
                                  f"{self.folder}/run, which would be moved aside", "choose another --run.dir for the new run")
        self.assertEqual(self.steps(), ["step-00000001", "step-00000002"])
        self.assertEqual([path.name for path in self.folder.glob("run*")], ["run"])
        self.trained(f"--checkpoint.resume={inside}", run="elsewhere", steps=2)

    def test_an_old_run_is_moved_aside_under_any_spelling_of_its_folder_but_not_with_the_data(self):
        self.trained(steps=1)
        anew, hint = ("--checkpoint.resume=never", "--run.force=true"), "choose another --run.dir for the new run"
        inside = shutil.copy(self.folder / "data/train.bin", self.folder / "run/own.bin")
        self.assert_error(self.train(*anew, f"--data.train={inside}"), 2, f"[config] data.train {inside}: expected files outside "
                          f"of run.dir {self.folder}/run, which would be moved aside", hint)
        within = program.run("train", *LAYERS, f"--data.train={self.folder}/data/train.bin", "--run.dir=.", *anew,
                             cwd=self.folder / "run")
        self.assert_error(within, 2, "[config] run.dir .: expected a new or empty folder with checkpoint.resume=never, found a run, "
                          "and the program's working directory in it", hint)
        self.trained(*anew, f"--run.dir={self.folder}/run/", steps=1)
        self.assertEqual(sorted(path.name for path in self.folder.glob("run*")), ["run", "run.old-1"])

    def test_a_folder_that_no_checkpoint_can_be_written_to_is_refused_before_the_first_step(self):
        for folder in (self.write("notes.txt", "mine") / "checkpoints", "/proc/nowhere/checkpoints"):
            refused = self.train(f"--checkpoint.dir={folder}", ranks=2)
            self.assertEqual((refused.returncode, refused.stdout), (3, ""), refused.stderr)
            self.assertIn(f"checkpoint.dir {folder}: expected a folder to write to, found: ", refused.stderr)
            self.assertFalse((self.folder / "run").exists())
        self.trained(f"--checkpoint.dir={self.folder}/new/deep", steps=1)
        self.assertEqual(sorted(path.name for path in (self.folder / "new/deep").glob("*")), ["LATEST", "step-00000001"])

    def test_older_weights_are_not_taken_in_silence(self):
        self.trained("--checkpoint.every=1", steps=2)
        self.damage(2)
        passed_over = r"(?m)^passed over: step-00000002: rank-00000\.h5: .*crc32c"
        out = self.trained(f"--model.from={self.folder}/run", run="other", steps=1)
        self.assertRegex(out, passed_over)
        self.assertIn(f"initial weights from {self.folder}/run/checkpoints/step-00000001\n", out)
        sampled = program.run("sample", "--checkpoint", self.folder / "run", "--prompt", "The", "--tokens", 0)
        evaluated = program.run("eval", "--checkpoint", self.folder / "run", "--data", self.folder / "data/val.bin")
        for done in (sampled, evaluated):
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, passed_over)
        self.assertEqual(sampled.stdout, "The\n")

    def test_every_option_of_the_optimizer_resumes_from_disk_and_memory_to_the_same_bytes(self):
        options = ("--parallel.strategy=zero3", "--train.dtype=bf16", "--optim.name=muon", "--optim.schedule=constant", "--optim.state_dtype=bf16",
                   "--optim.master=none", "--optim.ema=0.9", "--model.freeze=embedding*,blocks.0.ffn*", "--checkpoint.keep=9",
                   '--optim.groups=[{"match": "*norm*", "lr_scale": 2, "weight_decay": 0.1}]')
        self.assertIn('warning: optim.groups: "*norm*": weight_decay 0.1 acts on none of its tensors: they have one dimension\n',
                      self.trained(*options, ranks=2, run="whole"))
        self.trained(*options, ranks=2, steps=3)
        self.trained(*options, ranks=2)
        killed = self.train(*options, "--checkpoint.memory_every=1", ranks=2, run="memory",
                            environment={"LTRAIN_FAULT": "step:1:5:kill"})
        self.assertNotEqual(killed.returncode, 0)
        # The copy of the last finished step may not have been sealed.
        self.assertRegex(self.trained(*options, "--checkpoint.memory_every=1", ranks=2, run="memory"),
                         "resuming from memory of the hosts at step [45]")
        shards = {run: [(self.folder / run / f"checkpoints/step-00000006/rank-0000{rank}.h5").read_bytes() for rank in (0, 1)]
                  for run in ("whole", "run", "memory")}
        self.assertEqual(shards["run"], shards["whole"])
        self.assertEqual(shards["memory"], shards["whole"])
        # Another rank count resumes with the same values, not the same bytes.
        self.trained(*options, ranks=3, steps=7)
        checkpoint = ("--checkpoint", self.folder / "run", "--prompt", "The", "--tokens", 0)
        for weights in ("master", "ema"):
            sampled = program.run("sample", *checkpoint, "--weights", weights)
            self.assertEqual((sampled.returncode, sampled.stdout), (0, "The\n"), sampled.stderr)
            exported = program.run("checkpoint", "export", self.folder / "run", "--out", self.folder / weights, "--weights", weights)
            self.assertEqual(exported.returncode, 0, exported.stderr)
        files = [(self.folder / weights / "model.safetensors").read_bytes() for weights in ("master", "ema")]
        self.assertEqual(len(files[0]), len(files[1]))
        self.assertNotEqual(*files)

    def exported(self, run):
        """The bits of the f32 embedding in the run's last checkpoint."""
        out = self.folder / f"{run}-exported"
        done = program.run("checkpoint", "export", self.folder / run, "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        content = (out / "model.safetensors").read_bytes()
        header, = struct.unpack("<Q", content[:8])
        entry = json.loads(content[8:8 + header])["transformer.wte.weight"]
        self.assertEqual(entry["dtype"], "F32")
        begin, end = entry["data_offsets"]
        return struct.unpack(f"<{(end - begin) // 4}I", content[8 + header + begin:8 + header + end])

    def test_a_copy_in_memory_goes_on_in_another_dtype(self):
        self.trained(run="initial", steps=0)
        initial = self.exported("initial")
        in_bf16 = tuple(bits + 0x7fff + (bits >> 16 & 1) & 0xffff0000 for bits in initial)  # to nearest, ties to even
        self.assertNotEqual(in_bf16, initial)
        options = ("--model.freeze=embedding*", "--checkpoint.memory_every=1")
        for before, after in (("bf16", "f32"), ("f32", "bf16")):
            killed = self.train(f"--train.dtype={before}", *options, run=after, environment={"LTRAIN_FAULT": "step:0:5:kill"})
            self.assertNotEqual(killed.returncode, 0)
            self.assertRegex(self.trained(f"--train.dtype={after}", *options, run=after),
                             "resuming from memory of the hosts at step [45]")
            self.assertTrue(self.exported(after) == in_bf16, (before, after))

    def test_a_run_keeps_the_dtype_of_its_checkpoint(self):
        self.trained("--train.dtype=bf16", steps=2)
        for steps, options, dtype in ((3, (), "bf16 (as in the checkpoint)"), (4, ("--train.dtype=f32",), "f32"),
                                      (5, (), "f32 (as in the checkpoint)")):
            out = self.trained("--checkpoint.keep=9", *options, steps=steps)
            self.assertRegex(out, rf"(?m)^strategy: ddp, recompute none, {re.escape(dtype)}; ")
        plan = program.run("plan", *LAYERS, f"--run.dir={self.folder}/run").stdout
        self.assertIn(", f32\n", plan)
        bf16 = self.folder / "run/checkpoints/step-00000002"
        out = self.trained(f"--checkpoint.resume={bf16}", run="other", steps=3)
        self.assertIn(", bf16 (as in the checkpoint); ", out)
        plan = program.run("plan", *LAYERS, f"--run.dir={self.folder}/other").stdout
        self.assertIn(", bf16\n", plan)
        self.assertIn(", f32 (auto); ", self.trained(run="new", steps=1))
        # Copies in memory are newer than the checkpoints.
        options = ("--train.dtype=bf16", "--checkpoint.memory_every=1")
        self.train(*options, run="new", steps=5, environment={"LTRAIN_FAULT": "step:0:4:kill"})
        out = self.trained("--checkpoint.memory_every=1", run="new", steps=5)
        self.assertIn("resuming from memory of the hosts", out)
        self.assertIn(", bf16 (as in the checkpoint); ", out)
        # Nothing is kept of a start that saved nothing.
        self.train("--train.dtype=bf16", run="lost", environment={"LTRAIN_FAULT": "step:0:2:kill"})
        self.assertIn(", f32 (auto); ", self.trained(run="lost", steps=1))

    def test_a_run_that_starts_over_says_so(self):
        self.trained("--checkpoint.every=1", steps=2)
        self.damage(1)
        self.damage(2)
        folder = self.folder / "run/checkpoints"
        self.assertIn(f"starting over at step 1: {folder} holds no valid checkpoint (2 damaged), metrics.jsonl has steps up to 2\n",
                      self.trained(steps=2))
        self.damage(2)
        spelled = f"../{self.folder.name}/run"
        self.assertIn("starting over", self.trained(run=spelled, steps=2))
        self.assert_error(self.train(f"--checkpoint.dir={self.folder}/other", steps=3), 2,
                          f"[config] checkpoint.dir {self.folder}/other: expected the run's checkpoints, found none; the newest is "
                          f"{folder}/step-00000002", "name that folder, or move its checkpoints to the new one; another --run.dir starts over")
        folder.rename(self.folder / "other")
        self.assertIn("step-00000002 at step 3\n", self.trained(f"--checkpoint.dir={self.folder}/other", steps=3))
        self.assertNotIn("starting over", self.trained(run="fresh", steps=1))

    def test_a_run_goes_on_without_the_model_that_it_began_from(self):
        base, sizes = self.folder / "base", ("--train.seq=16",)
        self.trained("--model.dropout=0.25", run="base", steps=1)
        printed = program.run("train", "--print-config", f"--model.from={base}", *sizes)
        planned = [program.run("plan", "--json", *options).stdout
                   for options in ((f"--model.from={base}", *sizes), ("--config", self.write("printed.toml", printed.stdout)))]
        self.assertIn('"dropout": 0.25', planned[0])
        self.assertEqual(planned[0], planned[1])
        self.trained(f"--model.from={base}", model=sizes, steps=2)
        self.assertIn("step-00000002 at step 3\n", self.trained(f"--model.from={self.folder}/./base/", model=sizes, steps=3))
        base.rename(self.folder / "moved")
        self.assertIn("step-00000003 at step 4\n", self.trained(f"--model.from={base}", model=sizes, steps=4))
        spelled = program.run("train", "--model.from=base/.", *sizes, f"--data.train={self.folder}/data/train.bin", "--train.steps=5",
                              "--train.micro_batch=2", "--run.dir=run", cwd=self.folder)
        self.assertEqual(spelled.returncode, 0, spelled.stderr)

    def test_what_a_run_started_from_may_not_change(self):
        self.trained(steps=1)
        refused = self.train("--train.seed=7", f"--model.from={self.folder}/run", steps=2)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn(f'model.from: "" there, "{self.folder}/run" now; train.seed: 1337 there, 7 now', refused.stderr)
        self.trained("--train.dtype=bf16", "--train.deterministic=true", "--parallel.reduce_dtype=bf16",
                     f"--data.val={self.folder}/data/val.bin", steps=2)

    def test_data_is_known_by_its_bytes_however_its_files_are_spelled(self):
        self.trained("--checkpoint.every=2", steps=2)
        data = self.folder / "data"
        elsewhere = self.folder / "elsewhere"
        data.rename(elsewhere)
        hash_of = lambda: json.loads((self.folder / "run/checkpoints" / self.steps()[-1] / "manifest.json").read_text())["config_hash"]
        earlier = hash_of()
        for steps, spelling in enumerate((f"{elsewhere}/train.bin", f"{elsewhere}/./train.bin", f"{elsewhere}/tr*.bin"), 3):
            self.trained(f"--data.train={spelling}", steps=steps)
            self.assertEqual(hash_of(), earlier)
        source = f'--data.sources=[{{"files": ["{elsewhere}/train.bin"], "weight": 7}}]'
        self.trained("--data.train=", source, steps=6)
        self.assertEqual(len(self.steps()), 3)

        changed = bytearray((elsewhere / "train.bin").read_bytes())
        changed[1024 + 10] ^= 1
        (elsewhere / "train.bin").write_bytes(changed)
        refused = self.train(f"--data.train={elsewhere}/train.bin", steps=7)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        # The configuration names another file than the one before it, and their bytes differ.
        self.assertIn("data.sources: ", refused.stderr)
        self.assertRegex(refused.stderr, "(?m)^hint: choose another --run.dir, ")
        refused = self.train("--data.train=", source, steps=7)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertRegex(refused.stderr, rf"data\.sources: expected {elsewhere}/train\.bin with 5884 bytes of digest [0-9a-f]{{16}}, as when "
                         rf".*step-00000006 was saved, found {elsewhere}/train\.bin with 5884 bytes of digest [0-9a-f]{{16}}\n"
                         "hint: another --run.dir begins a new run")

    def test_data_is_known_by_its_bytes_before_the_first_checkpoint_too(self):
        killed = self.train(environment={"LTRAIN_FAULT": "step:0:3:kill"})
        self.assertNotEqual(killed.returncode, 0)
        self.assertIn("starting over", self.trained(f"--data.train={self.folder}/data/../data/train.bin"))

    def test_data_without_a_digest_is_known_by_its_names(self):
        self.trained(steps=1)
        text = self.folder / "run/run.json"
        text.write_text(json.dumps({key: value for key, value in json.loads(text.read_text()).items() if key != "data"}))
        manifest = self.folder / "run/checkpoints/step-00000001/manifest.json"
        fields = re.sub(r' "data_files": \[\n.*\],\n', "", manifest.read_text())
        self.assertNotIn("data_files", fields)
        fields = fields[:fields.rindex(' "crc32c": ')]
        manifest.write_text(f'{fields} "crc32c": "{crc32c(fields.encode()):08x}"\n}}\n')
        other = self.folder / "data/other.bin"
        other.write_bytes((self.folder / "data/train.bin").read_bytes())
        refused = self.train(f"--data.train={other}", steps=2)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn(f'data.train: ["{self.folder}/data/train.bin"] there, ["{other}"] now', refused.stderr)
        self.trained(steps=2)
        self.trained(f"--data.train={other}", steps=3)

    def test_a_global_batch_stays_at_every_rank_count(self):
        batch = "--train.global_batch=8"
        self.trained(batch, "--checkpoint.every=4", ranks=2, steps=8)
        self.assertIn("accum = 1  # = 2\n", (self.folder / "run/config.toml").read_text())
        unbroken = {row["step"]: row["loss"] for row in self.lines() if "event" not in row}
        begin = f"--checkpoint.resume={self.folder}/run/checkpoints/step-00000004"
        for ranks in (1, 4):
            out = self.trained(batch, begin, run=f"on-{ranks}", ranks=ranks, steps=8)
            self.assertNotIn("global batch", out)
            losses = [row["loss"] for row in self.lines(f"on-{ranks}") if "event" not in row]
            for step, loss in enumerate(losses, 5):
                self.assertLess(abs(loss / unbroken[step] - 1), 1e-6, (ranks, step))
            self.assertEqual(len(losses), 4)
        out = self.trained(begin, "--optim.lr=0.01", run="other", steps=5)
        for line in ("global batch: 8 samples before, 2 now; --train.global_batch=8 keeps it",
                     "tokens a step: 128 before, 32 now",
                     "train.steps: 8 before, 5 now, of which 1 remain; the schedule of the learning rate ends with them",
                     "optim.lr: 0.0003 before, 0.01 now"):
            self.assertIn(line + "\n", out)
        self.assertIn("\nlearning rate: 1.65e-04 at step 4, 2.97e-04 at step 5\n", self.trained(batch, begin, run="longer", steps=80))
        self.assertNotIn("learning rate: ", self.trained(batch, begin, run="as-long", steps=8))
        out = self.trained(begin, "--train.micro_batch=4", "--optim.clip=0.5", "--train.seed=3", run="four", ranks=4, steps=5)
        for line in ("global batch: 8 samples before, 16 now; --train.global_batch=8 --train.micro_batch=2 keeps it",
                     "optim.clip: 1.0 before, 0.5 now", "train.seed: 1337 before, 3 now"):
            self.assertIn(line + "\n", out)
        self.assertIn("global batch: 8 samples before, 6 now; 3 ranks cannot keep it\n",
                      self.trained(begin, run="three", ranks=3, steps=5))

    def test_an_elastic_run_keeps_its_global_batch_and_says_whether_bits_continue(self):
        elastic, steps = "--train.deterministic=elastic", {"steps": 6}

        def bits(out):
            return [line for line in out.splitlines() if line.startswith(("the bits ", "deterministic: ", "global batch: "))]

        def killed(*options, ranks, at):
            done = self.train(elastic, "--checkpoint.every=1", *options, ranks=ranks, environment={"LTRAIN_FAULT": f"step:0:{at}:kill"},
                              **steps)
            self.assertNotEqual(done.returncode, 0)
            return bits(done.stdout)

        same = "deterministic: elastic; the same bits on 1, 2 and 4 ranks, with 1 thread a rank"
        continues = "the bits continue at step {}, as in a run without a stop, if build and kind of device are the same".format
        self.assertEqual(killed(ranks=4, at=3), [same])
        for key, at in (("config.toml", "run"), ("manifest.json", "run/checkpoints/step-00000002")):
            self.assertIn("global_batch = 8", (self.folder / at / key).read_text())
        self.assertEqual(json.loads((self.folder / "run/checkpoints/step-00000002/manifest.json").read_text())["threads_per_rank"], 1)
        # A given accum yields. The planner agrees.
        self.assertEqual(killed("--train.accum=3", ranks=2, at=4),
                         [same, "global batch: 8 (as in the checkpoint), so accum 2 on 2 ranks; train.accum=3 is not used", continues(3)])
        plan = program.run("plan", *LAYERS, elastic, "--train.micro_batch=2", "--ranks", 2, f"--run.dir={self.folder}/run")
        self.assertIn(", 128 tokens a step on 2 ranks\n", plan.stdout, plan.stderr)
        config = ("--config", self.folder / "run/config.toml")
        self.assertEqual(killed(*config, ranks=1, at=5), [same, continues(4)])
        # Another run begins with the batch of the checkpoint, and with another one ends the bits.
        begin = f"--checkpoint.resume={self.folder}/run/checkpoints/step-00000004"
        self.assertEqual(bits(self.trained(elastic, begin, "--parallel.strategy=zero2", "--parallel.recompute=full", run="branch", ranks=4,
                                           **steps)),
                         [same, "global batch: 8 (as in the checkpoint), so accum 1 on 4 ranks", continues(5)])
        out = self.trained(elastic, begin, "--train.global_batch=16", "--optim.clip=0.5", run="more", **steps)
        self.assertIn("\nthe bits end after step 4: optim.clip: 1.0 before, 0.5 now; train.global_batch: 8 before, 16 now\n", out)
        done = self.train(elastic, begin, run="threads", environment={"OMP_NUM_THREADS": "2"}, **steps)
        self.assertIn("\nthe bits end after step 4: threads a rank: 1 before, 2 now; OMP_NUM_THREADS=1 keeps them\n", done.stdout, done.stderr)
        out = self.trained("--train.deterministic=true", "--train.global_batch=8", begin, run="other", **steps)
        self.assertIn('\nthe bits end after step 4: train.deterministic: "elastic" before, "true" now\n', out)
        # More steps change the rates of the earlier ones, unless the schedule is constant.
        self.assertIn("the bits end after step 4: train.steps: 6 before, 7 now\n", self.trained(elastic, begin, run="longer", steps=7))
        self.trained(elastic, "--optim.schedule=constant", run="constant", steps=1)
        self.assertIn("the bits continue at step 2, ", self.trained(elastic, "--optim.schedule=constant", run="constant", steps=2))
        self.assertNotIn("the bits ", self.trained(run="plain", steps=1) + self.trained(run="plain", steps=2))
        # The checkpoint's batch has no micro-batch for each of 8 ranks.
        self.assert_error(self.train(elastic, begin, run="eight", ranks=8, **steps), 2, "[config] train.global_batch: expected a multiple "
                          "of 8 ranks x micro_batch 2, got 8 (from the checkpoint)", "the nearest that works is 16; 8 works on 4 ranks")

    def test_an_elastic_run_moves_between_rank_counts(self):
        """4 -> 2 -> 1 -> 4 ranks, each with another strategy, is bit for bit the unbroken run on 2 ranks."""
        options = ("--model.preset=gpt-tiny", "--train.seq=32", "--train.deterministic=elastic", "--train.global_batch=16",
                   "--model.dropout=0.1", "--checkpoint.every=1")
        self.trained(*options, model=(), run="whole", ranks=2, steps=8)
        for ranks, strategy, killed_at in ((4, "zero3", 3), (2, "zero1", 5), (1, "ddp", 7), (4, "zero2", 0)):
            kill = {"LTRAIN_FAULT": f"step:0:{killed_at}:kill"} if killed_at else None
            done = self.train(*options, f"--parallel.strategy={strategy}", model=(), run="moved", ranks=ranks, steps=8, environment=kill)
            self.assertEqual(done.returncode == 0, not killed_at, done.stderr)
            if ranks != 4 or not killed_at:
                self.assertRegex(done.stdout, "(?m)^the bits continue at step [0-9]+, ")
        self.assertEqual(sorted({row["step"] for row in self.lines("moved") if "loss_hex" in row}), list(range(1, 9)))
        self.assert_same_bits("moved", "whole")

    def test_an_elastic_run_continues_from_copies_in_memory(self):
        options = ("--train.accum=2", "--checkpoint.memory_every=1")
        kill = {"LTRAIN_FAULT": "step:0:5:kill"}
        # train.deterministic of the first start, options of the second one, and what it says.
        for i, (before, more, said) in enumerate((
                ("elastic", (), "the bits continue at step [45], "),
                ("elastic", ("--train.global_batch=8",), "the bits end after step [34]: train.global_batch: 4 before, 8 now\n"),
                ("true", ("--train.accum=2",), 'the bits end after step [34]: train.deterministic: "true" before, "elastic" now\n'))):
            done = self.train(f"--train.deterministic={before}", *options, run=f"r{i}", environment=kill)
            self.assertNotEqual(done.returncode, 0)
            out = self.trained("--train.deterministic=elastic", "--checkpoint.memory_every=1", *more, run=f"r{i}")
            self.assertRegex(out, "resuming from memory of the hosts at step [45]")
            self.assertRegex(out, said)
            self.assertEqual("global batch: 4 (as in the checkpoint), so accum 2 on 1 rank" in out, not more)

    def test_an_elastic_run_takes_a_power_of_two_of_ranks(self):
        error = "[config] train.deterministic: expected a power of two of at most 64 ranks with elastic, got "
        given, nearest = " (from the command line)", "the nearest that work are {} and {}"
        elastic = ("--train.deterministic=elastic", "--train.device=cpu", "--data.train=none.bin", f"--run.dir={self.folder}/run")
        self.assert_error(self.train(*elastic, ranks=3), 2, error + "3 ranks" + given, nearest.format(2, 4))
        self.assert_error(program.run("launch", "-n", 3, "--", "train", *elastic), 2, error + "3 ranks" + given, nearest.format(2, 4))
        self.assert_error(program.run("bench", "step", *LAYERS, elastic[0], ranks=3), 2, error + "3 ranks" + given, nearest.format(2, 4))
        self.assert_error(program.run("plan", *LAYERS, elastic[0], "--ranks", 6), 2, error + "6 ranks" + given, nearest.format(4, 8))
        self.assert_error(program.run("plan", *LAYERS, elastic[0], "--gpu", "h200", "--nodes", "1,3"), 2, error + "24 ranks" + given,
                          nearest.format(16, 32))
        self.assertFalse((self.folder / "run").exists())

    def test_a_global_batch_that_no_accum_makes_is_refused(self):
        for options, error, hint in (
                (("--train.global_batch=10",), "train.global_batch: expected a multiple of 2 ranks x micro_batch 2, got 10",
                 "the nearest that work are 8 and 12"),
                (("--train.global_batch=3",), "train.global_batch: expected a multiple of 2 ranks x micro_batch 2, got 3",
                 "the nearest that works is 4"),
                (("--train.global_batch=8", "--train.accum=3"),
                 "train.accum: expected 2, which follows from train.global_batch 8 on 2 ranks with micro_batch 2, got 3",
                 "leave one of them out; --train.accum=1 counts as left out")):
            self.assert_error(self.train(*options, ranks=2), 2, f"[config] {error} (from the command line)", hint)
        wrong = self.write("wrong.toml", "[train]\nmicro_batch = 2\nglobal_batch = 24\naccum = 5\n")
        self.assert_error(program.run("plan", *LAYERS, "--config", wrong), 2, "[config] train.accum: expected 12, which follows from "
                          f"train.global_batch 24 on 1 ranks with micro_batch 2, got 5 (from {wrong}:4)",
                          "leave one of them out; --train.accum=1 counts as left out")
        written = self.write("run.toml", "[train]\nmicro_batch = 2\nglobal_batch = 24\naccum = 12\n")  # as one rank wrote it
        planned = program.run("plan", *LAYERS, "--ranks", 4, "--config", written)
        self.assertIn(", 384 tokens a step on 4 ranks\n", planned.stdout, planned.stderr)
        planned = program.run("plan", *LAYERS, "--ranks", 4, "--train.micro_batch=2", "--train.global_batch=24")
        self.assertIn(", 384 tokens a step on 4 ranks\n", planned.stdout, planned.stderr)

    def test_weights_are_taken_from_one_place(self):
        self.trained(steps=1)
        step = self.folder / "run/checkpoints/step-00000001"
        self.assert_error(self.train(f"--model.from={self.folder}/run", f"--checkpoint.resume={step}", run="other"), 2,
                          f"[config] model.from: expected none with checkpoint.resume={step}, whose weights count, "
                          f"got {self.folder}/run (from the command line)")


if __name__ == "__main__":
    program.main()
