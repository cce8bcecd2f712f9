"""A failed program prints one message and returns its exit code, whether one rank failed, all ranks failed, or all
learnt of one rank's failure."""

import re

import program


class Failure(program.CliTest):
    def test_alone(self):
        self.assert_error(program.run("all"), 2, "[ops] x: expected y, got z", "say y")
        self.assert_error(program.run("memory"), 1, "[internal] out of memory")
        self.assertEqual(program.run("none").returncode, 0)
        self.assertEqual(program.run("descriptors", closed=(0, 1, 2)).returncode, 0)

    def test_all_ranks_fail_alike(self):
        self.assert_error(program.run("all", ranks=3), 2, "[ops] x: expected y, got z", "say y")
        self.assert_error(program.run("memory", ranks=2), 1, "[internal] rank 0: out of memory")

    def test_one_rank_fails_while_the_others_wait_for_it(self):
        self.assert_error(program.run("one", ranks=3), 3, "[data] rank 1: b.bin: expected c, found d")
        self.assert_error(program.run("number", ranks=2), 5,
                          "[train] rank 1: step 7: loss: expected a finite number, got nan")

    def test_communication_that_breaks_in_a_run_asks_for_a_restart(self):
        done = program.run("broken", ranks=2)
        self.assertEqual(done.returncode, 75, done.stderr)
        self.assertRegex(done.stderr, r"(?m)^error: \[comm\] rank 1: MPI_Waitall")
        alone = program.run("none", environment={"WORLD_SIZE": "2"})  # while it is set up
        self.assertEqual(alone.returncode, 4, alone.stderr)

    def test_an_exception_of_the_program_s_own_is_the_program_s(self):
        self.assert_error(program.run("thrown"), 1, "[program] an exception that is no std::exception")
        self.assert_error(program.run("program", ranks=2), 1, "[program] rank 1: no sample 3")
        self.assert_error(program.run("collectively", ranks=2), 1, "[program] rank 0: no sample 3")

    def test_no_thread_that_ends_waits_outlives_the_devices(self):
        result = program.run("windows", ranks=2)
        none = r"device cuda:\d|expected a CUDA device for each|no windows: NCCL maps no memory|no windows: NCCL_\w+=0"
        if re.search(none, result.stderr):
            self.skipTest("too few CUDA devices, or none that copy into each other")
        self.assert_error(result, 2, "[ops] x: expected y, got z")

    def test_all_ranks_know_of_one_failure(self):
        self.assert_error(program.run("shared", ranks=3), 3, "[data] rank 1: b.bin: expected c, found d")


if __name__ == "__main__":
    program.main()
