"""`ltrain report`: pages of real runs load nothing from elsewhere, and the texts in their drawings do not overlap."""

import html.parser
import itertools
import json
import re
import shutil
import signal
import statistics
import subprocess
import time
import unittest

import program

LAYERS = ("--model.layers=2", "--model.width=32", "--model.heads=2", "--model.ffn=48", "--train.seq=16")
LOADS = ("src", "href", "xlink:href", "srcset", "data", "action", "background", "poster", "formaction", "ping")
VOID = ("meta", "br", "hr", "img", "input", "link", "source", "base", "embed")
CHARACTER = 0.55  # mean character width of a sans-serif font, as a fraction of its size
SMALL, LARGE = 12.0, 28.0  # text sizes: LARGE is that of an arena on a narrow screen, SMALL that of all other texts


class Page(html.parser.HTMLParser):
    """The resources that a page loads, and the texts of its drawings as (drawing, x, y, width, height, text)."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.texts, self.sizes, self.open = [], [], [], []
        self.drawing, self.group, self.pending = 0, "", None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.loads += [f"{tag} {name}={values[name]}" for name in LOADS
                       if name in values and not (tag == "a" and values[name].startswith("#"))]
        self.loads += [f"{tag} {name}" for name in values if name.startswith("on")]
        self.loads += [tag] if tag in ("link", "iframe", "object", "embed", "img", "base", "foreignobject") else []
        if tag == "svg":
            self.drawing += 1
            self.sizes.append([float(v) for v in values["viewbox"].split()[2:]])
        if tag not in VOID:
            self.open.append((tag, values.get("class") or ""))
        if tag == "text":
            self.pending = [float(values["x"]), float(values["y"]), values.get("class") or "", ""]

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if tag == "text":
            x, y, anchor, text = self.pending
            narrow = any("arena-narrow" in name for _, name in self.open)
            size = LARGE if narrow else SMALL
            width = CHARACTER * size * len(text)
            left = x - width if "end" in anchor else x - width / 2 if "mid" in anchor else x
            layer = (self.drawing, narrow)
            self.texts.append((layer, left, y - 0.75 * size, width, size, text))
            self.pending = None
        if tag not in VOID:
            self.open.pop()

    def handle_data(self, data):
        if self.pending:
            self.pending[3] += data


def overlap(a, b):
    return (a[0] == b[0] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3] and a[2] < b[2] + b[4] and b[2] < a[2] + a[4])


class Report(program.CliTest):
    def setUp(self):
        super().setUp()
        text = self.write("text.txt", "The quick brown fox jumps over the lazy dog. " * 60)
        self.assertEqual(program.run("prepare", "--input", text, "--out", self.folder / "data").returncode, 0)

    def trained(self, run, *options, ranks=1):
        done = program.run("train", *LAYERS, f"--data.train={self.folder}/data/train.bin", "--train.steps=12",
                           f"--data.val={self.folder}/data/val.bin", "--train.eval_every=4", "--train.micro_batch=2",
                           f"--run.dir={self.folder / run}", *options, ranks=ranks)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return self.folder / run

    def checked(self, *runs):
        """Makes a report, checks what holds for every page, and returns the page and the Markdown."""
        out = self.folder / "out.html"
        done = program.run("report", *runs, "--out", out)
        self.assertEqual((done.returncode, done.stderr, done.stdout), (0, "", f"{out}\n"))
        text = out.read_text()
        page = Page(text)
        self.assertEqual(page.open, [])
        self.assertEqual(page.loads, [])
        self.assertEqual(set(re.findall(r"[a-z]+://[^\s\"'<]*", text)), {"http://www.w3.org/2000/svg"})
        self.assertNotRegex(text, r"url\(|@import|fetch\(|XMLHttpRequest|import\(|<script [^>]")
        self.assertGreater(len(page.texts), 20)
        for a, b in itertools.combinations(page.texts, 2):
            self.assertFalse(overlap(a, b), (a, b))
        for (drawing, _), left, top, width, height, text_ in page.texts:
            across, down = page.sizes[drawing - 1]
            self.assertTrue(left >= -1 and left + width <= across + 1 and top >= -1 and top + height <= down + 1,
                            (text_, left, top, width))
        return text, (self.folder / "out.md").read_text()

    def test_one_run_on_two_ranks(self):
        run = self.trained("two", "--parallel.strategy=zero3", "--parallel.recompute=full", "--checkpoint.every=5", ranks=2)
        page, markdown = self.checked(run)
        self.assertIn("| Model | gpt2, 2 layers x width 32 |", markdown)  # LAYERS override the preset
        self.assertIn((run / "arena.svg").read_text(), page)
        self.assertEqual((run / "arena.svg").read_text().count("<script"), 0)
        for heading in ("Findings", "Key figures", "Training", "Time", "Ranks compared",
                        "Collectives", "Memory", "Record", "Words"):
            self.assertIn(f"\n## {heading}\n", markdown)
            self.assertRegex(page, f'<h2 id="[a-z-]+">{heading}</h2>')
        self.assertRegex(markdown, r"\nA step takes [\d.]+ ms on average, bound by [a-z ]+ \(\d+%\): ")
        phases = re.search(r"\nA step takes .*\)\.\n", markdown)[0]
        step, *parts = map(float, re.findall(r"([\d.]+) ms", phases))
        self.assertAlmostEqual(sum(parts), step, delta=0.1)
        rows = [row for row in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()) if "event" not in row]
        mean = statistics.mean(row["ranks"]["step_ms_mean"] for row in rows[1:])  # without the warm-up
        self.assertAlmostEqual(step, mean, delta=0.02 * mean)
        self.assertRegex(markdown, r"\| \d\.\d{4} nats \(evaluation \d\.\d{4} at step 12\) \|")
        self.assertRegex(markdown, r"\| all gather \| \d+ \| [\d.]+ [KM]iB \| [\d.]+ \| [\d.]+ \| [\d.e-]+ \|")
        self.assertRegex(markdown, r"(No rank is slow throughout|Rank [01] is slower than the others): over all these steps the mean own time of a rank is ")
        self.assertRegex(markdown, r"\| rank [01] \| [\d.]+ \| \d+ \| [\d.]+% \|")
        self.assertRegex(markdown, r"Gather and reduce exposed are [\d.]+ ms together(: about [\d.]+ ms|, all) because a rank was late")
        self.assertRegex(markdown, r"\| own time \| [\d.]+ \| [\d.]+ \| [\d.]+ \| [01] \|")
        self.assertEqual(len(re.findall(r"\| eval \| \d+ \| loss", markdown)), 3)

    def test_strategies_are_compared(self):
        runs = [self.trained("single", "--train.micro_batch=4")]
        runs += [self.trained(name, f"--parallel.strategy={name}", ranks=2) for name in ("ddp", "zero1", "zero2", "zero3")]
        page, markdown = self.checked(*runs)
        for row in ("single | single | 1", "ddp | ddp | 2", "zero1 | zero1 | 2", "zero2 | zero2 | 2", "zero3 | zero3 | 2"):
            self.assertRegex(markdown, rf"\| {re.escape(row)} \| [\d.]+k? \| [\d.]+k? \| \d+% \|")
        self.assertIn("Efficiency is tokens per second and rank, relative to", markdown)
        self.assertIn("All process the same number of tokens per step", markdown)
        self.assertEqual(page.count("<figcaption>Scaling</figcaption>"), 1)
        self.assertEqual(page.count("<figcaption>Arena of a training step</figcaption>"), 5)

    def test_a_run_resumed_with_other_ranks(self):
        run = self.trained("run", "--parallel.strategy=zero3", "--parallel.recompute=full", ranks=2)
        self.trained("run", "--parallel.strategy=ddp", "--train.steps=18")
        page, markdown = self.checked(run)
        self.assertIn("speed and memory cover steps 13 to 18, losses cover all steps.", markdown)
        self.assertIn("\n| steps | ranks | strategy | recompute | tokens / step | tokens/s |\n", markdown)
        self.assertRegex(markdown, r"\| 1 to 12 \| 2 \| zero3 \| full \| 64 \| [\d.]+k? \|\n"
                                   r"\| 13 to 18 \| 1 \| ddp \| none \| 32 \| [\d.]+k? \|\n")
        self.assertIn('<td data-name="recompute">full</td>', page)  # on a phone, each segment of the run becomes a card
        rows = [row for row in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()) if "event" not in row]
        median = statistics.median(row["step_ms"] for row in rows[13:])  # without the warm-up step 13
        self.assertIn(f"| Step, median | {median:.{1 if median >= 9.995 else 2 if median >= 0.1 else 3}f} ms |", markdown)
        self.assertIn(f"| Training loss at the first step | {rows[0]['loss']:.4f} nats |", markdown)
        self.assertNotIn("## Ranks compared", markdown)  # the last segment has only one rank

    def test_a_killed_run_goes_on_from_what_is_on_disk(self):
        run = self.trained("run", "--checkpoint.every=4")
        metrics = run / "metrics.jsonl"
        recorded = [line for line in metrics.read_text().splitlines(keepends=True) if json.loads(line).get("event") != "end"]
        def status():
            return re.search(r" (\d+) of 12 steps · [^·]*\n\nThe record has no end event.* it (.*): \S+ train ", self.checked(run)[1]).groups()
        # The events of the last two checkpoints are missing, as after a kill beside asynchronous saves.
        metrics.write_text("".join(line for line in recorded if json.loads(line).get("step", 0) <= 7))
        shutil.rmtree(run / "checkpoints/step-00000012")
        self.assertEqual(status(), ("7", "continues from step 8"))
        shutil.rmtree(run / "checkpoints/step-00000004")
        (run / "checkpoints/step-00000008/manifest.json").unlink()
        self.assertEqual(status(), ("7", "begins again at step 1"))
        shutil.rmtree(run / "checkpoints")  # a record that was copied without them
        self.assertEqual(status(), ("7", "continues from step 4"))
        config = run / "config.toml"
        config.write_text(config.read_text().replace("memory_every = 0", "memory_every = 1"))
        self.assertEqual(status(), ("7", "continues from step 4, or from a newer copy in memory of the hosts"))

    def test_a_comparison_does_not_take_the_place_of_a_report(self):
        runs = [self.trained("a", "--run.name=By night"), self.trained("b")]
        for run in runs:
            self.assertEqual(program.run("report", run).stdout, f"{run}/report.html\n")
        own = [(run / name).read_bytes() for run in runs for name in ("report.html", "report.md")]
        done = program.run("report", *runs, cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr, done.stdout), (0, "", "comparison.html\n"))
        self.assertIn("Training report: 2 runs", (self.folder / "comparison.html").read_text())
        self.assertIn("# Training report: 2 runs\n", (self.folder / "comparison.md").read_text())
        self.assertTrue((runs[0] / "report.md").read_text().startswith("# Training report: By night (a)\n"))
        self.assertEqual([(run / name).read_bytes() for run in runs for name in ("report.html", "report.md")], own)

    def test_a_followed_run_stays_current_until_it_ends(self):
        run = self.trained("run")
        metrics = run / "metrics.jsonl"
        lines = metrics.read_text().splitlines(keepends=True)
        rows = [line for line in lines if json.loads(line).get("event", "start") == "start"]
        metrics.write_text("".join(rows[:6]))  # start and 5 steps
        data = run / "report.live.js"
        missing = program.run("report", "--follow", self.folder / "missing")
        self.assertEqual((missing.returncode, missing.stdout), (3, ""))
        follower = program.started("report", "--follow", run)
        try:
            self.wait_for(data, "running", "5 of 12")
            page = (run / "report.html").read_text()
            self.assertEqual(page.count("const live = \"report.live.js\";"), 1)
            self.assertNotRegex(page, r"https?://(?!www.w3.org/2000/svg)|fetch\(")
            with metrics.open("a") as file:
                file.write("".join(rows[6:9]))
            self.wait_for(data, "8 of 12")
            restart = {"event": "restart", "attempt": 2, "step": 8, "lost_steps": 0, "cause": "rank 1 died"}
            with metrics.open("a") as file:
                file.write(rows[9] + json.dumps(restart) + "\n")
                file.write('{"event":"checkpoint","step":9,"path":"x","seconds":1}\n')
            self.wait_for(data, "9 of 12", "1, the last after: rank 1 died", "step 9")
            with metrics.open("a") as file:
                file.write("".join(rows[10:]) + lines[-1])
            output, errors = follower.communicate(timeout=60)
        finally:
            follower.kill()
            follower.communicate()
        self.assertEqual((follower.returncode, output, errors), (0, f"{run}/report.html\n", ""))
        self.assertIn("12 of 12 steps · complete", data.read_text())  # what an open page shows last
        self.assertNotIn("report.live.js", (run / "report.html").read_text())

    @unittest.skipUnless(shutil.which("chromium"), "chromium is not installed")
    def test_an_open_page_takes_over_what_the_script_beside_it_brings(self):
        run = self.folder / "run"
        run.mkdir()
        rows = [json.dumps({"step": step, "loss": 4 - step / 8, "step_ms": 10, "tokens": 32, "tokens_per_s": 3200})
                for step in range(1, 9)]
        (run / "metrics.jsonl").write_text('{"event":"start","step":0,"ranks":1}\n' + "\n".join(rows[:4]) + "\n")
        follower = program.started("report", "--follow", run)
        try:
            follower.stdout.readline()
            with open(run / "metrics.jsonl", "a") as metrics:
                metrics.write("\n".join(rows[4:]) + "\n")
            self.wait_for(run / "report.live.js", " · 8 steps · ")
            self.assertNotIn(" · 8 steps · ", (run / "report.html").read_text())
            shown = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--dump-dom",
                                    f"file://{run}/report.html"], capture_output=True, text=True, timeout=60).stdout
        finally:
            follower.kill()
            follower.communicate()
        main = shown[shown.index("<main>"):shown.index("</main>")]
        self.assertIn(" · 8 steps · ", main)
        self.assertIn("Read at 20", shown[:shown.index("<main>")])

    def test_a_followed_run_outlives_its_terminal_under_nohup(self):
        run = self.folder / "run"
        run.mkdir()
        (run / "metrics.jsonl").write_text('{"event":"start","step":0,"ranks":1}\n')
        follower = subprocess.Popen(["sh", "-c", 'trap "" HUP; exec "$@"', "sh", program.ltrain(), "report", "--follow", run],
                                    env=program.clean_environment(), stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(follower.stdout.readline(), f"{run}/report.html\n")
            follower.send_signal(signal.SIGHUP)
            with self.assertRaises(subprocess.TimeoutExpired):
                follower.wait(1)
            follower.send_signal(signal.SIGTERM)
            self.assertEqual(follower.wait(60), 0)
        finally:
            follower.kill()
            follower.communicate()

    def test_a_signal_ends_following_with_a_page_that_needs_no_other_file(self):
        run = self.trained("run")
        metrics = run / "metrics.jsonl"
        metrics.write_text("".join(metrics.read_text().splitlines(keepends=True)[:6]))
        follower = program.started("report", "--follow", run)
        try:
            self.assertEqual(follower.stdout.readline(), f"{run}/report.html\n")
            follower.send_signal(signal.SIGINT)
            output, errors = follower.communicate(timeout=60)
        finally:
            follower.kill()
            follower.communicate()
        self.assertEqual((follower.returncode, output, errors), (0, "", ""))
        self.assertNotIn("report.live.js", (run / "report.html").read_text())

    def wait_for(self, path, *texts):
        end = time.monotonic() + 60
        while not (path.exists() and all(text in path.read_text() for text in texts)):
            self.assertLess(time.monotonic(), end, path.read_text()[:2000] if path.exists() else path)
            time.sleep(0.05)

    def test_an_arena_that_is_not_ours_is_left_out(self):
        run = self.trained("run")
        (run / "arena.svg").write_text('<svg class="arena"><script src="https://example.org/x.js"></script></svg>\n')
        page, _ = self.checked(run)
        self.assertNotIn("example.org", page)


if __name__ == "__main__":
    program.main()
