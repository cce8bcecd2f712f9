"""In-memory checkpoints: what a killed run finds in host memory when it restarts, and when that memory is freed."""

import json

import program
from training import LAYERS, TrainingTest

ALWAYS = ("--optim.schedule=constant", "--checkpoint.memory_every=1")


class Memory(TrainingTest):
    def copies(self, run="run"):
        folder = self.memory_folder(run)
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []

    def losses(self, run="run"):
        return {row["step"]: row["loss_hex"] for row in self.lines(run) if "loss_hex" in row}

    def starts(self, run="run"):
        return [(row["step"], row["resumed_from"]) for row in self.lines(run) if row.get("event") == "start"]

    def killed(self, *options, step=5, rank=1, point="forward", ranks=2, **more):
        done = self.train(*ALWAYS, *options, ranks=ranks, steps=8,
                          environment={"LTRAIN_FAULT": f"{point}:{rank}:{step}:kill"}, **more)
        self.assertNotEqual(done.returncode, 0)
        self.addCleanup(program.run, "checkpoint", "free", self.folder / more.get("run", "run"))

    def test_a_killed_run_loses_one_step_at_most(self):
        for strategy in ("ddp", "zero3"):
            options = (f"--parallel.strategy={strategy}", "--checkpoint.every=2")
            self.trained(*ALWAYS[:1], *options, run=strategy, ranks=2, steps=8)
            run = strategy + "-killed"
            self.killed(*options, run=run, step=6, point="backward")
            self.assertEqual(len(self.copies(run)), 4)
            self.trained(*ALWAYS, *options, run=run, ranks=2, steps=8)
            self.assertIn(self.starts(run)[1], [(5, "memory"), (4, f"{self.folder}/{run}/checkpoints/step-00000004")])
            self.assertEqual(self.losses(run), self.losses(strategy))
            for rank in range(2):
                name = f"checkpoints/step-00000008/rank-{rank:05}.h5"
                self.assertEqual((self.folder / run / name).read_bytes(), (self.folder / strategy / name).read_bytes())
            self.assertEqual(self.copies(run), [])

    def test_kills_before_a_newer_copy_lose_nothing_more(self):
        self.killed()
        again = self.train(*ALWAYS, ranks=2, steps=8, environment={"LTRAIN_FAULT": "data:1:4:kill,data:1:5:kill"})
        self.assertNotEqual(again.returncode, 0)
        (first, origin), = self.starts()[1:]
        # As if rank 1 had moved to a host that lacks its older copy. What it has then makes room for new copies.
        (self.memory_folder() / ("rank-00001-a" if first % 2 == 0 else "rank-00001-b")).unlink()
        full = self.train(*ALWAYS, ranks=2, steps=8, environment={"LTRAIN_FAULT": f"save-begin:0:{first}:eio"})
        self.assertEqual(full.returncode, 3)
        self.assertIn("hint: the copies in memory stay; make room and start the same command again to resume from them\n", full.stderr)
        out = self.trained(*ALWAYS, ranks=2, steps=8)
        self.assertEqual((origin, self.starts()[3]), ("memory", (first, "memory")))
        self.assertIn("copies in memory: other ranks or hosts hold other parts now; the state is saved to disk first\n", out)
        saved = [row["step"] for row in self.lines() if row.get("event") == "checkpoint"]
        self.assertEqual(saved, [first, 8])

    def test_other_ranks_go_on_from_the_disk(self):
        self.killed("--checkpoint.every=2", "--train.global_batch=4")
        self.trained(*ALWAYS, "--train.global_batch=4", steps=8)
        self.assertEqual(self.starts()[1][0], 4)
        self.assertNotEqual(self.starts()[1][1], "memory")
        self.assertEqual(self.copies(), [])

    def test_copies_that_a_later_start_went_on_without_do_not_count(self):
        self.killed("--checkpoint.every=3", step=6)                              # memory has step 4, the disk step 3
        self.killed("--checkpoint.every=9", "--checkpoint.memory_every=0", step=5)  # computes step 4 again
        self.trained(*ALWAYS, ranks=2, steps=8)
        saved = f"{self.folder}/run/checkpoints/step-00000003"
        self.assertEqual(self.starts(), [(0, None), (3, saved), (3, saved)])

    def test_a_save_that_is_made_up_has_the_loss_of_its_evaluation(self):
        options = ("--checkpoint.every=4", "--train.eval_every=4", f"--data.val={self.folder}/data/val.bin")
        self.killed(*options, step=4, point="save-shard")
        self.trained(*ALWAYS, *options, ranks=2, steps=8)
        self.assertIn(self.starts()[1], [(4, "memory"), (3, "memory")])  # the copy of step 4 may have been in flight
        manifest = json.loads((self.folder / "run/checkpoints/step-00000004/manifest.json").read_text())
        losses = [row["loss"] for row in self.lines() if row.get("event") == "eval" and row["step"] == 4]
        self.assertEqual({*losses, manifest["eval_loss"]}, {losses[0]})

    def test_a_save_that_was_interrupted_is_made_up(self):
        for background in ("false", "true"):
            options = ("--checkpoint.every=2", "--checkpoint.keep=2", "--checkpoint.keep_every=4", f"--checkpoint.async={background}")
            self.killed(*options, run=background, step=4, point="save-shard")
            self.trained(*ALWAYS, *options, run=background, ranks=2, steps=8)
            step, origin = self.starts(background)[1]
            self.assertEqual(origin, "memory")
            events = [row for row in self.lines(background) if "event" in row]
            begin = [row["event"] for row in events].index("start", 1)  # that of the second start
            saved = [row["step"] for row in events[begin:] if row["event"] == "checkpoint"]
            made_up = [step] if step >= 4 else []  # the copy of step 4 may have been in flight
            self.assertEqual(saved, [*made_up, *range(step // 2 * 2 + 2, 9, 2)])

    def test_a_last_step_that_only_memory_has_is_saved(self):
        self.killed(step=8, point="save-begin")
        self.assertEqual(list((self.folder / "run").glob("checkpoints/step-*/manifest.json")), [])
        out = self.trained(*ALWAYS, ranks=2, steps=8)
        self.assertRegex(out, "resuming from memory of the hosts at step [89]")
        self.assertEqual(len(list((self.folder / "run").glob("checkpoints/step-00000008/manifest.json"))), 1)

    def test_memory_is_given_back_by_command(self):
        self.killed()
        freed = program.run("checkpoint", "free", self.folder / "run")
        self.assertEqual(freed.returncode, 0)
        self.assertIn("of memory given back", freed.stdout)
        self.assertEqual(self.copies(), [])
        self.assertEqual(program.run("checkpoint", "free", self.folder).returncode, 3)

    def test_the_plan_counts_the_copies(self):
        def host_bytes(*options):
            return json.loads(program.run("plan", *LAYERS, "--ranks", 4, "--json", *options).stdout)["host_bytes"]
        self.assertEqual(host_bytes("--checkpoint.memory_every=1"), host_bytes("--checkpoint.async=true"))
        self.assertEqual(host_bytes("--checkpoint.memory_every=1", "--ranks-per-node", 2),
                         2 * host_bytes("--checkpoint.async=true"))


if __name__ == "__main__":
    program.main()
