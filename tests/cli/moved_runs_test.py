"""How each command handles a run's folder that was copied, moved or renamed, or is used from another working folder."""

import json
import shutil

import program
from training import LAYERS, TrainingTest


class MovedRuns(TrainingTest):
    def situations(self):
        """Yields a name, the working folder, the file of --config, the run's folder, and the original of a copy."""
        home = self.folder / "home"

        def begin():
            shutil.rmtree(home, ignore_errors=True)
            shutil.rmtree(self.folder / "house", ignore_errors=True)
            home.mkdir()
            self.checked("train", *LAYERS, f"--data.train={self.folder}/data/train.bin", "--train.steps=4", "--train.micro_batch=2",
                         "--checkpoint.every=2", "--run.dir=r", cwd=home)

        begin()
        shutil.copytree(home / "r", home / "copy")
        yield "copied", home, "copy/config.toml", home / "copy", home / "r"
        begin()
        (home / "r").rename(home / "moved")
        yield "moved", home, "moved/config.toml", home / "moved", None
        begin()
        home.rename(self.folder / "house")
        yield "renamed parent", self.folder / "house", "r/config.toml", self.folder / "house/r", None
        begin()
        yield "other working folder", self.folder, home / "r/config.toml", home / "r", None
        begin()
        shutil.copy(home / "r/config.toml", home / "c.toml")
        yield "the configuration alone", home, "c.toml", home / "r", None

    def checked(self, *arguments, cwd):
        done = program.run(*arguments, cwd=cwd)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def contents(self, folder):
        return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def losses_of(self, run):
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        return [(row["step"], row["loss_hex"]) for row in rows if "event" not in row]

    def test_every_command_in_every_place(self):
        seen = set()
        for name, cwd, config, run, original in self.situations():
            with self.subTest(name):
                before = original and self.contents(original)
                answers = [self.checked("eval", "--checkpoint", run, "--data", self.folder / "data/val.bin", cwd=cwd).split(", checkpoint")[0],
                           self.checked("sample", "--checkpoint", run, "--prompt", "The", "--tokens", 8, "--temperature", 0, cwd=cwd)]
                self.checked("checkpoint", "export", run, "--out", cwd / "hf", cwd=cwd)
                answers.append((cwd / "hf/model.safetensors").read_bytes().hex())
                self.checked("report", run, cwd=cwd)
                self.assertIn(" · 1 rank on CPU · f32 · 4 of 4 steps · complete\n", (run / "report.md").read_text())
                out = self.checked("train", "--config", config, "--train.steps=6", cwd=cwd)
                self.assertRegex(out, r"(?m)^resuming from \S*checkpoints/step-00000004 at step 5$")
                self.assertEqual("this folder is a copy of run " in out, original is not None)
                out = self.checked("launch", "-n", 1, "--", "train", "--config", config, "--train.steps=8", cwd=cwd)
                self.assertRegex(out, r"(?m)^resuming from \S*checkpoints/step-00000006 at step 7$")
                self.assertNotIn("is a copy", out)
                self.assertEqual(sorted(path.name for path in (run / "checkpoints").glob("step-*")),
                                 ["step-00000004", "step-00000006", "step-00000008"])
                losses = self.losses_of(run)
                self.assertEqual([step for step, _ in losses], list(range(1, 9)))
                if original:
                    self.assertEqual(self.contents(original), before)
                    copied = self.contents(run)
                    out = self.checked("train", "--config", "r/config.toml", "--train.steps=6", cwd=cwd)
                    self.assertIn("at step 5\n", out)
                    self.assertEqual(self.contents(run), copied)
                    self.assertEqual(self.losses_of(original)[:6], losses[:6])
                seen.add((*answers, tuple(losses)))
        self.assertEqual(len(seen), 1)

    def test_a_start_finds_the_checkpoints_of_its_run_or_is_refused(self):
        options = ("--checkpoint.every=2", "--checkpoint.dir=saves")
        first, other = self.folder / "first", self.folder / "other"
        for folder in (first, other):
            folder.mkdir()
        everything = (*LAYERS, f"--data.train={self.folder}/data/train.bin", "--train.micro_batch=2", f"--run.dir={self.folder}/run")
        self.checked("train", *everything, *options, "--train.steps=4", cwd=first)
        # A relative checkpoint.dir is another folder there.
        refused = program.run("train", *everything, *options, "--train.steps=6", cwd=other)
        self.assert_error(refused, 2, "[config] checkpoint.dir saves: expected the run's checkpoints, found none; the newest is "
                          f"{first}/saves/step-00000004",
                          "name that folder, or move its checkpoints to the new one; another --run.dir starts over")
        (first / "saves").rename(first / "elsewhere")
        refused = program.run("train", *everything, *options, "--train.steps=6", cwd=first)
        self.assert_error(refused, 2, "[config] checkpoint.dir saves: expected the run's checkpoints, which metrics.jsonl records, "
                          "found no such folder", "name the folder where they are now; another --run.dir starts over")
        (first / "elsewhere").rename(first / "saves")
        # A copy may not share it.
        shutil.copytree(self.folder / "run", self.folder / "copy")
        refused = program.run("train", "--config", self.folder / "copy/config.toml", "--train.steps=6", cwd=first)
        self.assertEqual(refused.returncode, 2)
        self.assertRegex(refused.stderr, r"checkpoint.dir saves: expected checkpoints of run \S+ alone, found step-00000004 of run ")

    def test_copies_of_links_and_of_parents(self):
        options = (*LAYERS, f"--data.train={self.folder}/data/train.bin", "--train.micro_batch=2", "--checkpoint.every=2")
        home, house = self.folder / "home", self.folder / "house"
        home.mkdir()
        # The link leads both runs to one folder.
        (self.folder / "scratch").mkdir()
        (home / "r").mkdir()
        (home / "r/checkpoints").symlink_to(self.folder / "scratch")
        self.checked("train", *options, "--train.steps=4", "--run.dir=r", cwd=home)
        shutil.copytree(home / "r", home / "copy", symlinks=True)
        before = self.contents(self.folder / "scratch")
        refused = program.run("train", "--config", "copy/config.toml", "--train.steps=8", cwd=home)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertRegex(refused.stderr, "expected checkpoints of run .* alone, found step-00000004 of run ")
        self.assertEqual(self.contents(self.folder / "scratch"), before)
        # A parent with everything beside the run: checkpoint.dir, and the checkpoint that a run began from.
        everything = (*options, "--checkpoint.dir=saves", "--run.dir=s")
        self.checked("train", *everything, "--train.steps=4", cwd=home)
        begun = ("--checkpoint.resume=saves/step-00000004", "--run.dir=t", "--train.steps=8")
        done = program.run("train", *options, *begun, cwd=home, environment={"LTRAIN_FAULT": "step:0:5:kill"})
        self.assertNotEqual(done.returncode, 0)
        shutil.copytree(home, house, symlinks=True)
        self.assertIn(f"resuming from saves/step-00000004 at step 5\n",
                      self.checked("train", *everything, "--train.steps=6", cwd=house))
        shutil.rmtree(home)
        out = self.checked("train", "--config", "t/config.toml", cwd=house)
        self.assertIn(f"from {house}/saves/step-00000004 at step 5\n", out)
        # However a run began, the file of its folder continues it.
        self.assertIn("complete: 8 steps are done in ", self.checked("train", "--config", "t/config.toml", cwd=house))


if __name__ == "__main__":
    program.main()
