"""Measures the rates of `ltrain prepare` and of the tokenizers package's encode_batch, on the same JSON lines and
threads.

    python3 speed.py LTRAIN --tokenizer FILE.json --input FILE.jsonl [--threads 2] [--times 2]

Both read the field "text" of each line. `prepare` also writes its files; the package's ids stay in memory."""

import argparse
import json
import os
import resource
import subprocess
import tempfile
import time


def cpu_seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("ltrain")
    arguments.add_argument("--tokenizer", required=True)
    arguments.add_argument("--input", required=True)
    arguments.add_argument("--threads", default="2")
    arguments.add_argument("--times", type=int, default=2)
    options = arguments.parse_args()
    os.environ |= {"OMP_NUM_THREADS": options.threads, "RAYON_NUM_THREADS": options.threads, "TOKENIZERS_PARALLELISM": "true"}
    import tokenizers  # reads the variables

    tokenizer = tokenizers.Tokenizer.from_file(options.tokenizer)

    def texts():
        with open(options.input, encoding="utf-8") as lines:
            return [json.loads(line)["text"] for line in lines]

    def package():
        return sum(len(each) for each in tokenizer.encode_batch(texts(), add_special_tokens=False))

    def ltrain():
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([options.ltrain, "prepare", "--input", options.input, "--tokenizer", options.tokenizer,
                                   "--out", folder, "--val-fraction", "0"], check=True, capture_output=True, text=True)
        return int(done.stdout.split()[1]) - documents  # without those that end documents

    documents, size = len(texts()), sum(len(text.encode()) for text in texts())
    for _ in range(options.times):
        for name, run in [("ltrain prepare", ltrain), (f"tokenizers {tokenizers.__version__}", package)]:
            begin, cpu = time.monotonic(), cpu_seconds()
            tokens = run()
            wall, cpu = time.monotonic() - begin, cpu_seconds() - cpu
            print(f"{name}: {tokens} tokens, {wall:.2f} s, {size / wall / 1e6:.1f} MB/s; {cpu:.2f} s of processors, "
                  f"{size / cpu / 1e6:.1f} MB/s of each", flush=True)


main()
