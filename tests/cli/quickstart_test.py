"""Tests which GPUs launch/quickstart.sh uses, which dtype it uses on a CPU, and which CUDA versions launch/deps.sh
accepts."""

import os
import pathlib
import re
import subprocess

import program

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "launch/quickstart.sh"


class Quickstart(program.CliTest):
    def visible(self, devices):
        """Compute capabilities of the GPUs that the script finds while nvidia-smi lists three."""
        tool = self.write("nvidia-smi", "#!/bin/sh\nprintf '0, GPU-aaaa-1, 9.0\\n1, GPU-bbbb-2, 8.0\\n2, GPU-bbcc-3, 12.0\\n'\n")
        tool.chmod(0o755)
        function = re.search(r"^visible_gpus\(\) \{.*?^\}", SCRIPT.read_text(), re.MULTILINE | re.DOTALL)[0]
        environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        environment.pop("CUDA_VISIBLE_DEVICES", None)
        if devices is not None:
            environment["CUDA_VISIBLE_DEVICES"] = devices
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", function + "\nvisible_gpus"], env=environment,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_the_gpus_are_those_that_cuda_sees(self):
        for devices, expected in ((None, ["9.0", "8.0", "12.0"]), ("", []), ("-1", []), ("0", ["9.0"]),
                                  ("2,0", ["12.0", "9.0"]), ("GPU-bbcc", ["12.0"]), ("1,-1,0", ["8.0"]), ("0,7,1", ["9.0"])):
            with self.subTest(devices=devices):
                self.assertEqual(self.visible(devices), expected)

    def test_a_processor_trains_in_bf16_where_it_multiplies_that(self):
        function = re.search(r"^multiplies_bf16\(\) .*", SCRIPT.read_text(), re.MULTILINE)[0]
        for flags, expected in (("fma avx2 avx512f", 1), ("avx512f avx512_bf16 sha_ni", 0), ("amx_bf16 amx_tile", 0),
                                ("avx512_bf16_not_really", 1)):
            with self.subTest(flags=flags):
                cpuinfo = self.write("cpuinfo", f"processor\t: 0\nflags\t\t: {flags}\n")
                done = subprocess.run(["bash", "-c", f"{function}\nmultiplies_bf16 {cpuinfo}"], timeout=60)
                self.assertEqual(done.returncode, expected)

    def test_a_console_that_cannot_be_written_to_ends_nothing(self):
        block = re.search(r"^# The next file would get.*\n((?:\[ -e .*\n)+echo .*)\n", SCRIPT.read_text(), re.MULTILINE)[1]
        script = ["bash", "-euo", "pipefail", "-c", f"{block}\necho said; readlink /proc/$$/fd/{{0,1,2}} > {self.folder}/descriptors"]
        self.assertEqual(subprocess.run(script, preexec_fn=program.closing((0, 1, 2)), timeout=60).returncode, 0)
        self.assertEqual((self.folder / "descriptors").read_text(), "/dev/null\n" * 3)
        with open("/dev/full", "w") as full:
            self.assertEqual(subprocess.run(script, stdout=full, stderr=full, timeout=60).returncode, 0)
        done = subprocess.run(script, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "\nsaid\n", ""))

    def test_a_cuda_that_is_too_old_is_refused_with_its_versions(self):
        for folder in ("bin", "include"):
            (self.folder / folder).mkdir()
        self.write("bin/nvcc", "#!/bin/sh\necho 'Cuda compilation tools, release 12.4, V12.4.131'\n").chmod(0o755)
        # Every package is there, so none is installed.
        self.write("bin/dpkg-query", "#!/bin/sh\nshift 3\nprintf 'installed %s\\n' \"$@\"\n").chmod(0o755)
        self.write("include/nccl.h", "#define NCCL_MAJOR 2\n#define NCCL_MINOR 27\n#define NCCL_PATCH 3\n")
        self.write("include/cudnn_version.h", "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 1\n")
        environment = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}
        done = subprocess.run(["bash", SCRIPT.parent / "deps.sh", "--cuda"], env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(done.stderr.splitlines()[:2],
                         ["error: [deps] expected nvcc of the CUDA toolkit, version 13.0 or newer, found 12.4",
                          "error: [deps] expected NCCL's headers, version 2.28 or newer, found 2.27"])


if __name__ == "__main__":
    program.main()
