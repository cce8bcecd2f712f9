"""A rank stops, hangs, ends early or makes other collectives than its peers: the run prints one line on one rank,
within the watchdog's time, and exits with code 75. watched_program does what its arguments say at step 3."""

import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
import program

os.environ["OMPI_MCA_odls_base_sigkill_timeout"] = "1"  # ranks end early: program.KILLS_AT_ONCE

RESTART = 75
HEARTBEAT_S = 1.0
LONG_S = 600  # for limits that are not to be met


class Verdicts(program.CliTest):
    def verdict(self, mode, rank, ranks, heartbeat_s=HEARTBEAT_S, collective_s=LONG_S, environment=None):
        """The line that the run ends with."""
        self.write("log.txt", "")
        process = program.run(mode, rank, heartbeat_s, collective_s, self.folder, ranks=ranks, environment=environment)
        lines = [line for line in process.stderr.splitlines() if line.startswith("error: ")]
        self.assertEqual(len(lines), 1, process.stderr)
        self.assertEqual(process.returncode, RESTART, process.stderr)
        self.stderr = process.stderr
        self.assertRegex(lines[0], r"^error: \[watchdog\] ")
        return lines[0][len("error: [watchdog] "):]

    def assert_found_in_time(self, line):
        self.assertLess(float(re.search(r"for ([\d.]+) s", line)[1]), HEARTBEAT_S + 1)

    def test_a_stopped_rank(self):
        line = self.verdict("stop", 1, ranks=3)
        self.assertRegex(line, r"^rank 1 \(host \S+, pid \d+\): no sign of life for [\d.]+ s at step 3, stopped by a signal; "
                               r'ranks 0, 2 wait for it in all_gather "blocks.3" \(#\d+ of group gather, 256 KiB\)$')
        self.assert_found_in_time(line)
        # What the other ranks did last; the launcher lets the stopped one go on to end it.
        for rank in (0, 2):
            text = (self.folder / f"watchdog-rank-{rank}.txt").read_text()
            self.assertIn(line, text)
            self.assertRegex(text, r"#\d+ of group gather: all_gather \"blocks.3\", \d+ bytes, began [\d.]+ s ago, has not ended")
        self.assertIn(line, (self.folder / "log.txt").read_text())
        self.assertIn("last collectives of rank 0:\n", self.stderr)

    def test_rank_0_is_stopped(self):
        line = self.verdict("stop", 0, ranks=2)
        self.assertRegex(line, r"^rank 0 \(.*\): no sign of life for [\d.]+ s at step 3, stopped by a signal; rank 1 waits")
        self.assert_found_in_time(line)
        self.assertIn("last collectives of rank 1:\n", self.stderr)

    def test_a_rank_hangs(self):
        line = self.verdict("sleep", 1, ranks=2, collective_s=1)
        self.assertRegex(line, r"^rank 1 \(.*\): no progress for [\d.]+ s at step 3, in forward; rank 0 waits for it in "
                               r'all_gather "blocks.3"')

    def test_ranks_make_different_collectives(self):
        line = self.verdict("call", 1, ranks=2)
        self.assertRegex(line, r"^different collectives at step \d: rank 0 \(.*\) reached all_reduce .*, rank 1 .* reached barrier")

    def test_ranks_wait_for_each_other(self):
        line = self.verdict("cross", 1, ranks=2, collective_s=1)
        self.assertRegex(line, r"they wait for each other, rank 0 in barrier .* of group other\), rank 1 in barrier .* of "
                               r"group gather\)$")

    def test_a_rank_ends_early(self):
        line = self.verdict("end", 1, ranks=2)
        self.assertRegex(line, r"^rank 1 \(.*\): has ended its run at step 3; rank 0 waits for it in all_gather")

    def test_both_monitors_end_early(self):
        line = self.verdict("goodbye", "0,1", ranks=4)
        self.assertRegex(line, r"^rank 0 \(.*\): has ended its run at step 3; rank [23] waits for it in all_gather")

    def test_one_monitor_ends_and_the_other_is_stopped(self):
        # The launcher lets the stopped rank continue in order to end it, which takes longer than a lost connection is excused.
        slow_launcher = {"OMPI_MCA_odls_base_sigkill_timeout": "2"}
        line = self.verdict("goodbye,stop", "0,1", ranks=3, environment=slow_launcher)
        self.assertRegex(line, r"^rank 1 \(.*\): no sign of life for [\d.]+ s at step 3; rank 2 waits for it")
        self.assert_found_in_time(line)
        line = self.verdict("stop,goodbye", "0,1", ranks=3, environment=slow_launcher)
        self.assertRegex(line, r"^rank 0 \(.*\): no sign of life for [\d.]+ s at step 3; rank 2 waits for it")

    def test_a_rank_hangs_after_the_monitors_have_ended(self):
        line = self.verdict("linger", 2, ranks=3, collective_s=1)
        self.assertRegex(line, r"^rank 2 \(.*\): no progress for [\d.]+ s at step 5, in forward$")

    def test_a_rank_does_not_come(self):
        for rank in (0, 1):
            process = program.run("late", rank, HEARTBEAT_S, LONG_S, ranks=3)
            self.assertEqual([line for line in process.stderr.splitlines() if line.startswith("error: ")],
                             ["error: [watchdog] the ranks did not meet within 1 s"])
            self.assertEqual(process.returncode, 4)

    def test_a_monitor_cannot_be_reached(self):
        process = program.run("deaf", 0, HEARTBEAT_S, LONG_S, ranks=2)
        self.assertRegex(process.stderr, r"^error: \[comm\] rank 1: the watchdog cannot connect to rank 0 on host \S+, "
                                         r"port \d+; last tried 127.0.0.1: no welcome\nhint: .*\n$")
        self.assertEqual(process.returncode, 4)

    def test_monitors_listen_only_until_all_are_connected(self):
        process = program.run("listen", "0,1", HEARTBEAT_S, LONG_S, ranks=3)
        self.assertEqual((process.returncode, process.stderr), (0, ""))

    def test_a_long_heartbeat_delays_no_start(self):
        for _ in range(3):  # a greeting that comes with its connection, or after it
            process = program.run("none", 0, 86400, LONG_S, ranks=2)
            self.assertEqual((process.returncode, process.stderr), (0, ""))

    def test_long_work_and_clean_ends_are_no_fault(self):
        for mode in ("save", "none"):
            process = program.run(mode, 1, HEARTBEAT_S, 0.5, ranks=3)
            self.assertEqual((process.returncode, process.stderr), (0, ""))
        self.assertEqual(program.run("none", 0, HEARTBEAT_S, 0.5).returncode, 0)

    def test_a_rank_that_fails_speaks_for_itself(self):
        self.assert_error(program.run("throw", 1, HEARTBEAT_S, LONG_S, ranks=2), 3, "[test] rank 1: step 3 fails")


if __name__ == "__main__":
    program.main()
