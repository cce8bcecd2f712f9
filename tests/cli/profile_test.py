"""Kernels in the trace of a run on a CUDA device. Skipped without a device."""

import json

import program
from training import CudaTest

CUDA = ("--train.device=cuda", "--train.deterministic")
CLOCKS_US = 20  # bounds the distance of the two clocks; the log states a smaller bound


class Profile(CudaTest):
    def trace(self, run="run"):
        """The spans by name, and the kernels. Each has its row and end; all are in order of their begin."""
        events = json.loads((self.folder / run / "trace/all.json").read_text())["traceEvents"]
        named = [event for event in events if event["ph"] == "M"]
        rows = {event["tid"]: event["args"]["name"] for event in named if event["name"] == "thread_name"}
        self.assertEqual(len({0, *rows, *(event["pid"] for event in named)}), 1 + len(named))
        spans, kernels = {}, []
        for event in sorted((event for event in events if event["ph"] == "X"), key=lambda event: event["ts"]):
            event["row"], event["end"] = rows[event["tid"]], event["ts"] + event["dur"]
            if "cat" in event:
                self.assertTrue(event["row"].startswith("stream "), event)
                kernels.append(event)
            else:
                spans.setdefault(event["name"], []).append(event)
        return spans, kernels

    @staticmethod
    def within(kernels, begin, end):
        return [event for event in kernels if begin - CLOCKS_US <= event["ts"] and event["end"] <= end + CLOCKS_US]

    def test_the_kernels_of_the_profiled_steps_are_in_the_trace(self):
        said = self.trained(*CUDA, "--record.profile_steps=2", steps=4)
        self.assertRegex(said, r"kernels: \d+ in the trace, within \d+\.\d us of its spans' clock")
        self.assertNotIn("CUPTI lost", said)
        spans, kernels = self.trace()
        self.assertEqual(len(spans["forward"]), 2)  # of steps 2 and 3
        self.assertIn("kernel", {event["cat"] for event in kernels})
        self.assertFalse([event["name"] for event in kernels if event["name"].startswith("_Z")])
        # A step begins with its batch, before the first span; after its update, loss and norm go to the host.
        first, last = spans["forward"][0]["ts"], max(event["end"] for event in spans["optimizer"])
        inside = self.within(kernels, 0, last)
        self.assertGreater(len(inside), 50)
        self.assertEqual([event for event in kernels if event["ts"] < -CLOCKS_US], [])
        self.assertLess(len(kernels) - len(inside), 10, kernels[-10:])
        self.assertLess(len(kernels) - len(self.within(kernels, first, last)), len(kernels) / 10)
        for part in ("forward", "backward", "optimizer"):
            for span in spans[part]:
                own = self.within(kernels, span["ts"], span["end"])
                self.assertTrue([event for event in own if event["cat"] == "kernel"], span)
        for row in {event["row"] for event in kernels}:
            ordered = [event for event in kernels if event["row"] == row]
            for before, after in zip(ordered, ordered[1:]):
                self.assertLessEqual(before["end"], after["ts"] + 1e-3)

    def test_kernels_end_with_their_steps_and_spans_go_on(self):
        self.trained(*CUDA, "--record.profile_steps=1", "--record.trace_steps=3", steps=6)
        spans, kernels = self.trace()
        self.assertEqual(len(spans["forward"]), 3)
        self.assertGreater(len(kernels), 25)
        self.assertLess(max(event["end"] for event in kernels), spans["forward"][1]["ts"] + CLOCKS_US)

    def test_a_run_that_ends_early_writes_the_kernels_that_there_are(self):
        self.trained(*CUDA, "--record.profile_steps=9", steps=3)
        spans, kernels = self.trace()
        self.assertEqual(len(spans["forward"]), 2)
        self.assertGreater(len(self.within(kernels, spans["forward"][1]["ts"], spans["backward"][-1]["end"])), 10)

    def test_a_profile_changes_no_number(self):
        losses = []
        for run, options in (("plain", ()), ("profiled", ("--record.profile_steps=2",))):
            self.trained(*CUDA, *options, run=run, steps=5)
            losses.append([row["loss_hex"] for row in self.lines(run) if "loss_hex" in row])
        self.assertEqual(len(losses[0]), 5)
        self.assertEqual(losses[0], losses[1])


if __name__ == "__main__":
    program.main()
