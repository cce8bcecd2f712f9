"""Ranks with one CUDA device each take no memory of each other's devices. Skipped without two devices."""

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


if __name__ == "__main__":
    program.main()
