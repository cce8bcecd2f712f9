"""One rank dies or stops while the other rank waits for its device: over NCCL's sockets, where NCCL notices the lost
peer, and during a copy between the devices, where only the watchdog notices it. Skipped without two CUDA devices."""

import os
import pathlib
import signal
import socket
import subprocess
import time

import program
from training import LAYERS, CudaTest

SOCKETS = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_WIN_ENABLE": "0"}
DEADLINE_S = 60


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class NcclFailure(CudaTest):
    def ranks(self, *options, environment, run="run"):
        """Starts both ranks of a run that meets over TCP, so no launcher ends one rank because the other ended."""
        port, started = str(free_port()), []
        for rank in range(2):
            place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
            meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            command = program.launched(program.ltrain(), "train", *LAYERS, f"--data.train={self.folder}/data/train.bin",
                                       "--train.device=cuda", "--parallel.strategy=zero3", "--train.steps=10000000",
                                       "--train.micro_batch=2", f"--run.dir={self.folder}/{run}", *options)
            errors, output = (open(self.folder / f"{name}-{rank}.txt", "w") for name in ("errors", "output"))
            self.addCleanup(errors.close)
            self.addCleanup(output.close)
            process = subprocess.Popen(command, env=program.clean_environment({**environment, **place, **meeting}),
                                       stdout=output, stderr=errors, text=True)
            self.addCleanup(process.kill)
            started.append(process)
        return started

    def errors(self, rank):
        return (self.folder / f"errors-{rank}.txt").read_text()

    def steps_done(self):
        metrics = pathlib.Path(self.folder / "run/metrics.jsonl")
        return metrics.read_text().count('"loss_hex"') if metrics.exists() else 0

    def check_end(self, *options):
        first, second = self.ranks(*options, environment=SOCKETS)
        deadline = time.monotonic() + DEADLINE_S
        while self.steps_done() < 20 and first.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        if first.poll() == 2:
            self.skip_without_device(self.errors(0) + self.errors(1))
        self.assertIsNone(first.poll(), self.errors(0))
        self.assertGreaterEqual(self.steps_done(), 20, self.errors(0))
        os.kill(second.pid, signal.SIGKILL)
        self.assertNotEqual(first.wait(DEADLINE_S), 0)
        # The watchdog and NCCL both notice; whichever is first reports it.
        self.assertRegex(self.errors(0), r"error: \[(watchdog|comm)\] ")

    def test_a_rank_that_dies_ends_the_other_with_the_reason(self):
        self.check_end()

    def test_steps_that_are_no_graphs(self):
        self.check_end("--train.cuda_graph=false")

    def test_in_the_middle_of_a_copy(self):
        for action in ("kill", "stop"):
            with self.subTest(action=action):
                # The stream of rank 1 sleeps before each part of a copy, and the rank ends meanwhile.
                fault = {"LTRAIN_FAULT": f"hand-over:1:6:device-sleep,collective:1:6:{action}"}
                first, second = self.ranks(environment=fault, run=action)
                code = first.wait(DEADLINE_S)
                self.skip_without_device(self.errors(0) + self.errors(1))
                output = (self.folder / "output-0.txt").read_text()
                if "peer memory: no symmetric windows" in output:
                    self.skipTest("these devices cannot copy into each other")
                self.assertIn("peer memory: symmetric windows", output)
                self.assertEqual(code, 75, self.errors(0))
                self.assertRegex(self.errors(0), r"error: \[watchdog\] .*rank 1")
                second.kill()
                second.wait()


if __name__ == "__main__":
    program.main()
