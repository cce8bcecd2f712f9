"""Runs `ltrain` for the command line tests. Each test file is a program: FILE --ltrain PATH --mpiexec PATH."""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

_options = None


def outside_of_launchers():
    """The environment without variables of launchers and of the configuration. What Open MPI needs on this machine stays."""
    return {k: v for k, v in os.environ.items()
            if k.startswith("OMPI_MCA_") or not k.startswith(("LTRAIN_", "OMPI_", "PMIX_", "SLURM_"))}


def clean_environment(changes=None):
    """That of outside_of_launchers(), with one thread per process. Waiting ranks yield, because another test may run
    beside them."""
    return {**outside_of_launchers(), "OMP_NUM_THREADS": "1", "OMPI_MCA_mpi_yield_when_idle": "1", **(changes or {})}


# mpirun kills the other ranks of one that failed at once, not a second after it has asked them to end. Where another rank
# has ended already and waits in MPI_Finalize, Open MPI 4.1 may crash then: a test of that sets a second.
KILLS_AT_ONCE = {"OMPI_MCA_odls_base_sigkill_timeout": "0"}


def launched(*command, ranks=1):
    """The command line that runs `command` on `ranks` ranks."""
    return [str(part) for part in ([*_launcher(), "-n", ranks, *command] if ranks > 1 else command)]


def _launcher():
    return [_options.mpiexec, "--quiet", "--oversubscribe", "--allow-run-as-root"]


def ltrain():
    return pathlib.Path(_options.ltrain).resolve()


def closing(descriptors):
    """For Popen: the parent's descriptors that the program finds closed."""
    return lambda: [os.close(descriptor) for descriptor in descriptors]


def run(*arguments, ranks=1, environment=None, cwd=None, name=None, stdout=subprocess.PIPE, stderr=subprocess.PIPE, closed=()):
    """Runs `ltrain arguments`, or the example `name`; returns the finished process with stdout and stderr as text. Another
    `stdout` or `stderr` is a file. `closed`: descriptors that the program finds closed."""
    command = launched(ltrain().parent / "examples" / name if name else ltrain(), *arguments, ranks=ranks)
    return subprocess.run(command, env={**KILLS_AT_ONCE, **clean_environment(environment)}, cwd=cwd, stdout=stdout,
                          stderr=stderr, text=True, errors="surrogateescape", timeout=120,
                          preexec_fn=closing(closed) if closed else None)


def run_in_folders(folders, *arguments):
    """Runs `ltrain arguments` with a rank in each of these folders. Each rank counts as a host of its own."""
    as_host = "OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 exec \"$@\""
    command = _launcher()
    for folder in folders:
        command += [":", "-n", "1", "-wdir", folder, "bash", "-c", as_host, "rank", ltrain(), *arguments]
    command.remove(":")
    return subprocess.run([str(part) for part in command], env={**KILLS_AT_ONCE, **clean_environment()}, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=120)


def started(*arguments):
    """Starts `ltrain arguments` on one rank and returns the process, with pipes for stdout and stderr."""
    return subprocess.Popen([str(part) for part in (ltrain(), *arguments)], env=clean_environment(),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class CliTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="libtrain-cli-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def assert_error(self, process, code, error, hint=None):
        """Checks for one message, for any number of ranks: `error: <error>` and, if given, `hint: <hint>`."""
        lines = process.stderr.splitlines()
        self.assertEqual([line for line in lines if line.startswith("error: ")], ["error: " + error], process.stderr)
        hints = [line for line in lines if line.startswith("hint: ")]
        if hint is not None:
            self.assertEqual(hints, ["hint: " + hint])
        self.assertEqual(process.returncode, code)
        self.assertEqual(process.stdout, "")


def exit_code(result):
    """Of a test program, for CTest: 77 if each of its tests was skipped, or a subtest of it."""
    if not result.wasSuccessful() or (result.testsRun == 0 and not result.skipped):
        return 1
    skipped = {getattr(test, "test_case", test) for test, _ in result.skipped}
    return 77 if skipped and len(skipped) >= result.testsRun else 0


class SideBySide(unittest.TestSuite):
    """Runs its tests in several threads. For tests that mostly wait, in classes without fixtures."""

    def tests(self):
        for test in self:
            yield from test.tests() if isinstance(test, SideBySide) else [test]

    def run(self, result, debug=False):
        def outcome(test):
            of_test = unittest.TestResult()
            test(of_test)
            return of_test

        tests = list(self.tests())
        with concurrent.futures.ThreadPoolExecutor(_options.jobs) as pool:
            for test, of_test in zip(tests, pool.map(outcome, tests)):
                result.startTest(test)
                for kind in ("errors", "failures", "skipped", "expectedFailures", "unexpectedSuccesses"):
                    getattr(result, kind).extend(getattr(of_test, kind))
                if of_test.wasSuccessful() and not of_test.skipped:
                    result.addSuccess(test)
                result.stopTest(test)
        return result


def main():
    global _options
    parser = argparse.ArgumentParser()
    parser.add_argument("--ltrain", required=True)
    parser.add_argument("--mpiexec", required=True)
    parser.add_argument("--jobs", type=int, default=1, help="how many tests run at a time")
    _options, rest = parser.parse_known_args()
    loader = unittest.TestLoader()
    loader.suiteClass = SideBySide if _options.jobs > 1 else unittest.TestSuite
    tests = unittest.main(module="__main__", argv=[sys.argv[0], *rest], testLoader=loader, exit=False)
    sys.exit(exit_code(tests.result))
