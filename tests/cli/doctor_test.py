"""`ltrain doctor`: what it prints here, as text and as JSON, and what it says of things that are missing."""

import json
import os
import resource
import subprocess

import program

NAMES = ["version", "build", "gpus", "driver", "nccl", "windows", "cudnn", "mpi", "processors", "memory", "shared_memory", "limits",
         "run_dir", "clock"]


class Doctor(program.CliTest):
    def doctor(self, *options, environment=None, limit=lambda: None):
        done = subprocess.run([program.ltrain(), "doctor", *options], env=program.clean_environment(environment), cwd=self.folder,
                              capture_output=True, text=True, timeout=60, preexec_fn=limit)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def findings(self, *options, **settings):
        found = json.loads(self.doctor("--json", *options, **settings))
        self.assertEqual(list(found), NAMES)
        for finding in found.values():
            self.assertEqual(list(finding), ["found", "cost"])
            self.assertTrue(finding["found"])
            self.assertNotEqual(finding["cost"], "")
        return found

    def test_one_screen(self):
        lines = self.doctor("--run.dir=run").splitlines()
        self.assertLessEqual(len(lines), 35)
        for line in lines:
            self.assertLessEqual(len(line), 100 if " " in line[15:].strip(" !") else len(line), line)
        self.assertEqual([line[:15].strip().replace(" ", "_") for line in lines if line[:1] != " "], NAMES)
        self.assertEqual(list(self.folder.iterdir()), [])  # the probe of the folder leaves nothing

    def test_as_json(self):
        # It asks for no ranks, whatever a launcher's variables say.
        found = self.findings("--run.dir=run", environment={"WORLD_SIZE": "2"})
        version = program.run("--version").stdout
        self.assertIn(found["build"]["found"], version)
        self.assertIn(found["version"]["found"].split(", commit ")[1], version)
        self.assertTrue(found["run_dir"]["found"].startswith(f"{self.folder.resolve()}/run"), found["run_dir"])
        self.assertNotIn("cannot be written", found["run_dir"]["found"])
        if "CUDA" not in version:
            self.assertIn("no CUDA", found["gpus"]["found"])
            self.assertIn("training runs on the processor", found["gpus"]["cost"])

    def test_what_is_missing_is_named_with_its_cost(self):
        file = self.write("file", "")
        found = self.findings(f"--run.dir={file}/run")["run_dir"]
        self.assertIn("cannot be written", found["found"])
        self.assertEqual(found["cost"], f"{file.resolve()} is no folder: no run can start there; name another folder by --run.dir")
        config = self.write("run.toml", '[run]\ndir = "/proc/run"\n')
        self.assertIn("cannot be written", self.findings("--config", str(config))["run_dir"]["found"])
        without = self.findings(environment={"PATH": str(self.folder)})["mpi"]
        self.assertIn("mpirun: not in PATH", without["found"])
        self.assertIn("tensors of CPU ranks pass through rank 0", without["cost"])
        small = self.findings(limit=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))["limits"]
        self.assertIn("file size 1024 KiB", small["found"])
        self.assertIn("ulimit -f unlimited", small["cost"])
        few = self.findings(limit=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)))["limits"]
        self.assertIn("rank 0 has a connection or two for each rank", few["cost"])
        if os.path.ismount("/dev/shm"):
            in_memory = self.findings("--run.dir=/dev/shm/run")["run_dir"]
            self.assertIn("tmpfs", in_memory["found"])
            self.assertIn("gone after a reboot", in_memory["cost"])


if __name__ == "__main__":
    program.main()
