#!/usr/bin/env python3
"""Compiles several of PyTorch's forms at the same time, so that comparisons find them in the compiler's cache.

    compile_forms.py --seconds 240 --gib 130 "gpt2-1.5b 16 1024 50 whole model, autocast, float8 tensorwise" ...

Each argument: model, batch, seq, GiB that the form takes of the device, and a variant of torch_gpu.py. Each form trains
two steps in a process of its own, as soon as the GiB of those that run leave enough. Compiling takes one core most of the
time. Afterwards the tile sizes that kernels found while others used the device are deleted, so that the comparison, which
has the device alone, looks for them again. Prints each form with its seconds.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import time


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seconds", type=float, default=300, help="after which what still compiles is ended")
    p.add_argument("--gib", type=float, default=130, help="of the device, for all forms")
    p.add_argument("forms", nargs="+")
    o = p.parse_args()
    waiting = [form.split(maxsplit=4) for form in o.forms]
    if any(len(form) != 5 for form in waiting):
        p.error("forms: expected MODEL BATCH SEQ GIB VARIANT")
    for form in waiting:
        if float(form[3]) > o.gib:
            p.error(f"{' '.join(form)}: expected at most --gib {o.gib:g}")
    begin, running = time.monotonic(), []
    while waiting or running:
        late = time.monotonic() - begin > o.seconds
        for task in list(running):
            process, form, started = task
            code = process.poll()
            if code is None and not late:
                continue
            if code is None:
                process.kill()
                process.wait()
            running.remove(task)
            end = "ended at the time limit" if code is None else "compiled" if code == 0 else f"exit code {code}"
            print(f"{form[0]} {form[4]}: {end} after {time.monotonic() - started:.0f} s", flush=True)
        if late:
            for form in waiting:
                print(f"{form[0]} {form[4]}: not begun before the time limit", flush=True)
            break
        for form in list(waiting):
            if sum(float(other[3]) for _, other, _ in running) + float(form[3]) <= o.gib:
                model, batch, seq, _, variant = form
                peer = str(pathlib.Path(__file__).with_name("torch_gpu.py"))
                command = [sys.executable, peer, "--model", model, "--batch", batch, "--seq", seq, "--variant", variant,
                           "--warmup", "1", "--steps", "1"]
                running.append((subprocess.Popen(command, stdout=subprocess.DEVNULL), form, time.monotonic()))
                waiting.remove(form)
        time.sleep(0.2)
    cache = pathlib.Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR", f"/tmp/torchinductor_{os.environ.get('USER', 'root')}"))
    choices = list(cache.rglob("*.best_config"))
    for choice in choices:
        choice.unlink()
    print(f"{time.monotonic() - begin:.0f} s, {len(choices)} choices of tiles deleted in {cache}", flush=True)


if __name__ == "__main__":
    main()
