"""The results under bench/results that bench/tables.py and bench/pictures.py show: the newest for each question.

A table is of one commit and one host. So files of a set count only if all are there, of one commit and within two hours;
before that the older set stays. The independent measurement is one file.
"""

import json
import pathlib

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
INDEPENDENT = "2026-11-29-h200-4x-independent.json"
ONE_GPU = {"gpt2-124m": "64x1024", "gpt2-1.5b": "16x1024", "llama-1b": "4x4096"}
TOGETHER_S = 7200
GIB = 2**30
STRATEGIES = {"ddp": "DDP", "zero1": "ZeRO-1", "zero2": "ZeRO-2", "zero3": "ZeRO-3"}


def load(name):
    return json.loads((RESULTS / name).read_text())


def newest(ending):
    """The newest file named DATE-ending; None if there is none."""
    return max((path.name for path in RESULTS.iterdir() if path.name[11:] == ending), default=None)


def measured_together(machines):
    """Whether results are of one commit, on one kind of host, one soon after the other."""
    if any(machine is None for machine in machines):
        return False
    times = [machine["unix_time"] for machine in machines]
    kinds = {(machine["commit"], machine.get("gpu"), machine["processors"]) for machine in machines}
    return len(kinds) == 1 and max(times) - min(times) < TOGETHER_S


def machine_of(row):
    return row["settings"]["libtrain"].get("machine")


def one_gpu():
    """By dtype and model: rows of compare_step.py, or of the independent file for what has none measured together."""
    found = {}
    for dtype in ("bf16", "fp8"):
        names = {model: newest(f"h200-1x-{model}-{shape}{'' if dtype == 'bf16' else '-fp8'}.json")
                 for model, shape in ONE_GPU.items()}
        if None not in names.values():
            found[dtype] = {model: load(name)["results"][0] | {"file": name} for model, name in names.items()}
    if not measured_together([machine_of(row) for row in found.get("bf16", {}).values()] or [None]):
        rows = [row for row in load(INDEPENDENT)["results"] if row["ranks"] == 1]
        return {"bf16": {row["model"]: row | {"file": INDEPENDENT} for row in rows}}
    if not measured_together([machine_of(row) for rows in found.values() for row in rows.values()]):
        found.pop("fp8", None)
    return found


def one_h100():
    """By model: rows of compare_step.py in bf16."""
    names = {model: newest(f"h100-1x-{model}-{shape}.json") for model, shape in ONE_GPU.items()}
    return {model: load(name)["results"][0] | {"file": name} for model, name in names.items()}


def four_gpus():
    """Rows of the independent file on four GPUs."""
    return [row for row in load(INDEPENDENT)["results"] if row["ranks"] == 4]


def scaling():
    """By model and dtype: files of bench scaling on four GPUs."""
    ends = {("gpt2-1.5b", "bf16"): "gpt2-1.5b", ("gpt2-1.5b", "fp8"): "gpt2-1.5b-fp8", ("llama-1b", "bf16"): "llama-1b"}
    return {key: newest(f"h200-4x-scaling-{end}.json") for key, end in ends.items()}


def restart():
    """Seconds from a killed rank to the end of the next step: (notice, what is not recorded, start, all)."""
    found = load(INDEPENDENT)["restart"]
    return found["notice_s"], found["seconds"] - found["notice_s"] - found["start_s"], found["start_s"], found["seconds"]
