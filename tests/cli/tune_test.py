"""Tests `ltrain bench tune` on a CUDA device. Skipped without a device."""

import json

import program
from training import CudaTest

# Matmuls of few shapes, because each is searched.
SMALL = ("--model.layers=1", "--model.width=64", "--model.heads=2", "--model.ffn=64", "--model.vocab=64", "--train.seq=32",
         "--train.micro_batch=2", "--train.device=cuda", "--train.dtype=f32", "--warmup=1", "--iterations=5")
SHORTER = "later runs take what was found: {}"
NOT_SHORTER = "steps are not shorter with what was found, so runs take the present algorithms"


class Tune(CudaTest):
    def tune(self, cache):
        return program.run("bench", "tune", *SMALL, "--out", self.folder / "out.json", environment={"XDG_CACHE_HOME": str(cache)})

    def test_a_search_says_what_it_found_and_keeps_it_if_steps_are_shorter(self):
        cache = self.folder / "cache"
        done = self.tune(cache)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads((self.folder / "out.json").read_text())
        self.assertEqual((result["benchmark"], result["dtype"]), ("tune", "f32"))
        # Rows of 2 x 32 tokens: the matmul for q, k and v with its bias.
        self.assertIn("f32 64 x 192 x 64, B transposed, bias", [matmul["name"] for matmul in result["matmuls"]])
        for matmul in result["matmuls"]:
            self.assertLess(0, matmul["found_ms"], matmul)
            self.assertLessEqual(matmul["found_ms"], matmul["present_ms"], matmul)
        present, found = result["rows"]
        self.assertEqual((present["implementation"], found["implementation"]), ("present", "found"))
        file, = (cache / "libtrain").glob("cublaslt-*.txt")
        shorter = max(found["ms"]["blocks"]) < min(present["ms"]["blocks"])
        self.assertEqual(result["kept_in"], str(file) if shorter else None)
        self.assertEqual(done.stderr.splitlines()[-1], SHORTER.format(file) if shorter else NOT_SHORTER)
        # The first choice of each matmul has a line, and what is kept another one.
        problems = [line.split()[1] for line in file.read_text().splitlines()]
        self.assertEqual(len(problems) > len(set(problems)), shorter)

    def test_a_file_that_cannot_be_written_ends_it_before_the_search(self):
        done = self.tune(self.write("no folder", ""))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, r"(?m)^error: \[kernels\] .*/no folder/libtrain/cublaslt-.*\.txt: "
                                      r"expected a writable file, found: Not a directory$")
        self.assertNotIn("present ms", done.stderr)  # the table's head, which comes with the first matmul
        self.assertFalse((self.folder / "out.json").exists())


if __name__ == "__main__":
    program.main()
