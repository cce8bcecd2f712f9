"""A run on a CUDA device that is stopped or killed and then resumed has the same bits as an uninterrupted run. Skipped
without a device."""

import json
import os
import signal
import subprocess

import program
from training import CudaTest

CUDA = ("--train.device=cuda", "--train.deterministic", "--optim.schedule=constant")
# Each step is saved while the next one runs.
BESIDE = ("--checkpoint.async=true", "--checkpoint.every=1", "--checkpoint.memory_every=1")


class CudaResume(CudaTest):
    def losses(self, run):
        """Loss and gradient norm of each step, from its last row."""
        return {row["step"]: (row["loss_hex"], row["grad_norm"]) for row in self.lines(run) if "loss_hex" in row}

    def test_a_resumed_run_has_the_bits_of_one_that_was_not_stopped(self):
        for options in (("--train.dtype=f32",), ("--train.dtype=bf16", "--train.cuda_graph=true"), ("--train.dtype=f16",),
                        ("--train.dtype=fp8",)):
            whole, parts = "whole" + options[0], "parts" + options[0]
            with self.subTest(options):
                self.trained(*CUDA, *options, run=whole, steps=9)
                self.trained(*CUDA, *options, run=parts, steps=4)
                said = self.trained(*CUDA, *options, run=parts, steps=9)
                self.assertIn("step-00000004", said)
                self.assertEqual(self.losses(parts), self.losses(whole))

    def test_attention_that_falls_back_to_libtrains_kernels_is_named(self):
        said = self.trained(*CUDA, "--train.dtype=bf16", "--model.head_dim=20", run="slow", steps=2)
        notice = "attention in bf16 with heads of 20 channels runs on libtrain's kernels, which are slower, since cuDNN: "
        self.assertEqual(said.count("warning: " + notice), 1, said)
        env = json.loads((self.folder / "slow/env.json").read_text())
        self.assertEqual([text.startswith(notice) for text in env["notices"]], [True])
        self.assertNotIn("libtrain's kernels", self.trained(*CUDA, "--train.dtype=bf16", run="fast", steps=2))

    def test_copies_beside_the_next_step_are_of_their_step(self):
        graph = ("--train.dtype=bf16", "--train.cuda_graph=true", "--checkpoint.every=4", "--checkpoint.memory_every=2")
        for options in (("--train.dtype=bf16",), graph, ("--train.dtype=f16",)):
            whole, killed = f"whole{len(options)}{options[0]}", f"killed{len(options)}{options[0]}"
            with self.subTest(options):
                self.trained(*CUDA, *options, run=whole, steps=9)
                # The rank dies before its save of step 4 to disk ends, so the copy in memory is newer.
                fault = {"LTRAIN_FAULT": "save-begin:0:4:sleep=60,step:0:6:kill"}
                done = self.train(*CUDA, *BESIDE, *options, run=killed, steps=9, environment=fault)
                self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
                self.assertTrue(self.memory_folder(killed).exists())
                said = self.trained(*CUDA, *BESIDE, *options, run=killed, steps=7)
                self.assertIn("resuming from memory of the hosts", said)
                self.assertFalse(self.memory_folder(killed).exists())
                said = self.trained(*CUDA, *options, run=killed, steps=9)
                self.assertIn("step-00000007 at step 8", said)
                self.assertEqual(self.losses(killed), self.losses(whole))

    def test_a_load_takes_little_memory_of_the_host(self):
        """Host memory does not grow with the state, here 640 MB."""
        def peak_bytes(steps):
            command = program.launched(
                program.ltrain(), "train", "--model.layers=4", "--model.width=1024", "--model.heads=16", "--model.ffn=4096",
                "--train.seq=16", "--train.micro_batch=1", "--train.device=cuda", f"--train.steps={steps}",
                "--optim.schedule=constant", f"--data.train={self.folder}/data/train.bin", f"--run.dir={self.folder}/large")
            process = subprocess.Popen(command, env=program.clean_environment(), stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0)
            return usage.ru_maxrss << 10
        first, resumed = peak_bytes(1), peak_bytes(2)
        self.assertLess(resumed - first, 200 << 20)

    def test_a_step_that_is_not_finite_is_not_kept(self):
        done = self.train(*CUDA, *BESIDE, steps=9, environment={"LTRAIN_FAULT": "forward:0:5:nan"})
        self.assertEqual(done.returncode, 5, done.stderr)
        saved = sorted(path.name for path in (self.folder / "run/checkpoints").glob("step-*"))
        self.assertEqual(saved[-1], "step-00000004")
        self.assertFalse(self.memory_folder("run").exists())

    def test_a_run_goes_on_from_the_cpu_to_a_device(self):
        self.trained("--train.device=cpu", "--optim.schedule=constant", run="cpu", steps=8)
        self.trained("--train.device=cpu", "--optim.schedule=constant", run="both", steps=4)
        self.trained("--train.device=cuda", "--optim.schedule=constant", run="both", steps=8)
        on_cpu, on_both = self.losses("cpu"), self.losses("both")
        self.assertEqual(sorted(on_cpu), sorted(on_both))
        for step, (loss, _) in on_cpu.items():
            self.assertAlmostEqual(float.fromhex(loss), float.fromhex(on_both[step][0]), delta=1e-4)


if __name__ == "__main__":
    program.main()
