"""Device memory outside the library's allocator: it is as planned, and no rank uses another rank's device. Skipped
without two devices."""

import json

import program
from training import CudaTest


class CudaRanks(CudaTest):
    def test_a_copy_takes_no_memory_of_another_ranks_device(self):
        done = self.train("--train.device=cuda", "--checkpoint.async=true", "--checkpoint.every=1",
                          "--checkpoint.memory_every=1", ranks=2, steps=30)
        self.skip_without_device(done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        outside = [row["memory_outside_bytes"] for row in self.lines() if "memory_outside_bytes" in row]
        self.assertLess(max(outside) - outside[0], 128 << 20)  # a context of the other rank would take more

    def test_the_plan_knows_the_memory_beside_the_librarys(self):
        model = ("--model.preset=gpt2-124m", "--model.layers=4", "--train.dtype=bf16", "--train.seq=256",
                 "--parallel.strategy=zero1")
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                done = self.train("--train.device=cuda", model=model, ranks=ranks, run=f"run{ranks}")
                self.skip_without_device(done.stderr)
                self.assertEqual(done.returncode, 0, done.stderr)
                plan = program.run("plan", "--gpu", "h200", "--ranks", ranks, "--json", "--train.micro_batch=2", *model)
                planned = json.loads(plan.stdout)["outside_bytes"]
                measured = [row["memory_outside_bytes"] for row in self.lines(f"run{ranks}") if "memory_outside_bytes" in row][-1]
                self.assertLess(abs(measured / planned - 1), 0.05, (measured, planned))


if __name__ == "__main__":
    program.main()
