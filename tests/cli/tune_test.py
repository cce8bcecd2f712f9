"""Tests `ltrain bench tune` on a CUDA device. Skipped without a device."""

import json

import program
from training import CudaTest

# Matmuls of few shapes, because each is searched.
SMALL = ("--model.layers=1", "--model.width=64", "--model.heads=2", "--model.ffn=64", "--model.vocab=64", "--train.seq=32",
         "--train.micro_batch=2", "--train.device=cuda", "--train.dtype=f32", "--warmup=1", "--iterations=5")
LONGER = "{} is not written: steps are longer with what was found"


class Tune(CudaTest):
    def tune(self, table):
        return program.run("bench", "tune", *SMALL, "--out", self.folder / "out.json", "--table", table)

    def test_a_search_says_what_it_found_and_writes_a_table_unless_steps_are_longer(self):
        table = self.folder / "table.txt"
        done = self.tune(table)
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
        is_written = min(found["ms"]["blocks"]) <= min(present["ms"]["blocks"])
        self.assertEqual(result["table"], str(table) if is_written else None)
        self.assertEqual(table.exists(), is_written)
        said = f"--train.algorithms={table} uses what was found" if is_written else LONGER.format(table)
        self.assertEqual(done.stderr.splitlines()[-1], said)
        if is_written:
            self.assertIn("f32 f32 nt 64 192 64 bias id=", table.read_text())

    def test_a_table_that_cannot_be_written_or_read_ends_it_before_the_search(self):
        for table, code, said in ((self.folder / "none/table.txt", 2, "--table: expected a file in an existing folder"),
                                  (self.write("damaged.txt", "libtrain-algorithms 1\ngpu sm_90\n"), 3,
                                   "damaged.txt: line 2: expected gpu sm_90 132 or another kind, found: gpu sm_90")):
            done = self.tune(table)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(said, done.stderr)
            self.assertNotIn("present ms", done.stderr)  # the table's head, which comes with the first matmul
            self.assertFalse((self.folder / "out.json").exists())


if __name__ == "__main__":
    program.main()
