#!/usr/bin/env python3
"""Writes the tables of docs/benchmarks.md from bench/results, between `<!-- table: NAME -->` and `<!-- end -->`.

tables.py [FILE]...    default: docs/benchmarks.md. `--check` changes nothing and fails where a table would change.
"""

import os
import pathlib
import re
import statistics
import sys
import time

import measured
from measured import GIB, STRATEGIES

ROOT = pathlib.Path(__file__).resolve().parents[1]
PEERS = {"ddp": "DDP", "zero1": "DDP", "zero2": "FSDP2*", "zero3": "FSDP2"}
MEMORY_DAY = "2026-11-28"  # the newest runs beside PyTorch under every strategy


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in rows)]


def link(*names):
    """Links to files, one a line, without the date in their text; one pattern for more than three."""
    names = sorted(dict.fromkeys(names))
    if len(names) > 3:
        return f"`bench/results/{os.path.commonprefix(names)}*.json`"
    return ",\n".join(f"[{name[11:].removesuffix('.json')}](../bench/results/{name})" for name in names)


def caption(date, commit, machine, *names):
    """Date, commit, machine and files, each file on a line."""
    return [f"{date}, commit `{commit[:8]}`, {machine}:", f"{link(*names)}.", ""]


def day(unix_time):
    return time.strftime("%Y-%m-%d", time.gmtime(unix_time))


def by_others(machine="four H200"):
    document = measured.load(measured.INDEPENDENT)
    return [f"{document['date']}, commit `{document['commit']}`, {machine},\n"
            f"[independent](../bench/results/{measured.INDEPENDENT}).", ""]


def thousands(number):
    return f"{number / 1e3:.0f} k" if number >= 1e5 else f"{number / 1e3:.1f} k"


def tokens(row):
    batch, seq = (int(size) for size in measured.ONE_GPU[row["model"]].split("x"))
    return batch * seq / row["libtrain"]["median_ms"] * 1e3


def require_together(table_name, machines):
    if not measured.measured_together(machines):
        raise SystemExit(f"the results in the table of {table_name} were not measured together")


def origin(rows):
    """The caption of rows measured together."""
    names = [row["file"] for row in rows]
    if names[0] == measured.INDEPENDENT:
        return by_others()
    require_together(", ".join(names), [measured.machine_of(row) for row in rows])
    machine = measured.machine_of(rows[0])
    return caption(day(machine["unix_time"]), machine["commit"], f"one {machine['gpu']}", *names)


def one_gpu():
    return one_gpu_rows(measured.one_gpu()["bf16"])


def one_h100():
    return one_gpu_rows(measured.one_h100())


def one_gpu_rows(rows):
    cells = []
    for model, row in rows.items():
        ours, theirs = (row[name]["median_ms"] for name in ("libtrain", "torch"))
        cells.append([f"{model}, {measured.ONE_GPU[model].replace('x', ' x ')}", f"{ours:.1f}", thousands(tokens(row)),
                      f"{theirs:.1f}", f"{theirs / ours:.2f}"])
    return [*origin(list(rows.values())), *table(["model", "libtrain ms", "tokens/s", "PyTorch ms", "ratio"], cells)]


def four_gpus():
    cells = []
    for row in measured.four_gpus():
        if row["dtype"] != "bf16":
            continue
        ours, torch = row["libtrain"]["median_ms"], row.get("torch", {})
        theirs, ratio = torch.get("median_ms"), ""
        if theirs:
            ratio = f"{theirs / ours:.2f}"
        if "min_ms" in torch:
            ratio += f" ({torch['min_ms'] / ours:.2f})"
        cells.append([f"{row['model']}, {row['batch']} x {row['seq']}", row["strategy"], f"{ours:.1f}",
                      thousands(row["batch"] * row["seq"] / ours * 1e3), torch.get("form", "-"), f"{theirs:.1f}" if theirs else "", ratio])
    return [*by_others(), *table(["model", "strategy", "libtrain ms", "tokens/s a GPU", "PyTorch", "ms", "ratio"], cells)]


def fp8_one():
    found = measured.one_gpu()
    if "fp8" not in found:
        return ["Not measured yet."]
    cells = []
    for model, row in found["fp8"].items():
        ours, theirs = (row[name]["median_ms"] for name in ("libtrain", "torch"))
        own, peer = (found["bf16"][model][name]["median_ms"] for name in ("libtrain", "torch"))
        best = min(peer, theirs)
        cells.append([model, f"{ours:.1f}", f"{own / ours:.2f}", f"{theirs:.1f}", f"{theirs / ours:.2f}",
                      f"{best:.1f} {'bf16' if best == peer else 'FP8'}", f"{best / ours:.2f}"])
    rows = list(found["fp8"].values())
    forms = [f"- {model}: {row['settings']['torch']['variant']}" for model, row in found["fp8"].items()]
    head = ["model", "FP8 ms", "own bf16 / FP8", "PyTorch FP8 ms", "ratio", "PyTorch's best ms", "ratio"]
    return [*origin(rows), *table(head, cells), "", "PyTorch's form in FP8:", "", *forms]


def fp8_four():
    rows = measured.four_gpus()
    cells = []
    for row in rows:
        if row["dtype"] != "fp8":
            continue
        same = next(other for other in rows if other["dtype"] == "bf16" and
                    all(other[key] == row[key] for key in ("model", "batch", "seq", "strategy")))
        ours, own = row["libtrain"]["median_ms"], same["libtrain"]["median_ms"]
        theirs = row.get("torch", {}).get("median_ms")
        cells.append([f"{row['model']}, {row['batch']} x {row['seq']}", f"{ours:.1f}",
                      thousands(row["batch"] * row["seq"] / ours * 1e3), f"{own / ours:.2f}",
                      f"{theirs:.1f}" if theirs else "not measured", f"{theirs / ours:.2f}" if theirs else ""])
    return [*by_others(), *table(["model", "FP8 ms", "tokens/s a GPU", "own bf16 / FP8", "FSDP2 bf16 ms", "ratio"], cells)]


def scaling():
    names = measured.scaling()
    machines = [measured.load(name)["machine"] for name in names.values()]
    require_together("scaling", machines)
    machine = machines[0]
    cells = []
    for (model, dtype), name in names.items():
        rows = measured.load(name)["rows"]
        for ranks in (2, 4):
            by = {row["strategy"]: row for row in rows if row["ranks"] == ranks}
            cells.append([f"{model}, {dtype}", str(ranks), f"{rows[0]['ms']['median']:.1f}",
                          *(f"{by[strategy]['efficiency']:.3f}" for strategy in STRATEGIES)])
    return [*caption(day(machine["unix_time"]), machine["commit"], "four H200", *names.values()),
            *table(["model", "GPUs", "one GPU, ms", *STRATEGIES], cells)]


def sequences():
    found = measured.load(measured.INDEPENDENT)["long_sequences"]
    rate = [f"{row['tokens_per_s_per_gpu']:,}" for row in found["rows"]]
    return [*by_others(), *table(["tokens of a sequence", *(f"{row['seq']:,}" for row in found["rows"])],
                                 [["tokens/s a GPU", *rate]])]


def memory():
    """libtrain's peak by plan, which is the run's, and PyTorch's of the newest runs under every strategy on four GPUs."""
    name = measured.newest("plan-4x.json")
    plan = {}
    for row in measured.load(name)["rows"]:
        plan.setdefault((row["model"], row["strategy"]), {})[row["recompute"]] = f"{row['peak_bytes'] / GIB:.1f}"
    files, cells = [], []
    for model, shape, shown in (("gpt2-1.5b", "16x1024", STRATEGIES), ("llama-1b", "4x4096", ("zero3",)),
                                ("llama-8b", "2x4096", ("zero3",))):
        files.append(f"{MEMORY_DAY}-h200-4x-{model}-{shape}.json")
        for row in measured.load(files[-1])["results"]:
            own, torch = plan[model, row["strategy"]], row["settings"]["torch"]
            if f"{row['settings']['libtrain']['peak_bytes'] / GIB:.1f}" != own["none"]:
                raise SystemExit(f"{model} {row['strategy']}: the plan is not what the run took")
            if row["strategy"] not in shown:
                continue
            cells.append([model, row["strategy"], own["none"], own["selective"], own["full"], PEERS[row["strategy"]],
                          f"{torch['peak_bytes'] / GIB:.1f}", f"{torch['reserved_bytes'] / GIB:.1f}"])
    machines = [measured.machine_of(row) for file in files for row in measured.load(file)["results"]]
    require_together("memory", machines)
    plans = f"plans of {name[:10]}: {link(name)}"
    return [*caption(day(machines[0]["unix_time"]), machines[0]["commit"], f"four H200;\n{plans};\nruns", *files),
            *table(["model", "strategy", "none", "selective", "full", "PyTorch", "tensors", "reserved"], cells)]


def restart():
    notice, rest, start, total = measured.restart()
    return [*by_others(), *table(["phase", "seconds"], [
        ["notice: until no process of the attempt is left", f"{notice:.2f}"],
        ["start: from there to the next step's end", f"{start:.2f}"],
        ["rest", f"{rest:.2f}"], ["in all", f"{total:.1f}"]])]


def saves():
    name = measured.newest("h200-1x-saving-gpt2-1.5b.json")
    if name is None:
        return ["Not measured yet."]
    found = measured.load(name)
    cells = []
    for kind, each in found["kinds"].items():
        last = max(save["step"] for save in each["saves"])
        saved = [save for save in each["saves"] if save["step"] < last] or each["saves"]
        steps = each["step_ms"]
        cells.append([kind, *(f"{ms:.1f}" for ms in (statistics.median(steps), statistics.fmean(steps), max(steps))),
                      *(f"{max(save[key] for save in saved):.{digits}f}" for key, digits in (("seconds", 1), ("stall_seconds", 3)))])
    killed = [f"- A killed rank, resumed from {each['from']}: {each['down_seconds']['total']:.1f} s to the next step, "
              f"steps lost: {each['lost_steps']}." for each in found["killed"]]
    return [*caption(found["date"], found["commit"], found["machine"], name),
            *table(["saving", "step, median ms", "mean", "longest", "a save, s", "training waits, s"], cells), "", *killed]


def cpu():
    head = ["model", "dtype", "ratio"]
    name = measured.newest("cpu-2-cores.json")
    if name:
        document = measured.load(name)
        machine = measured.machine_of(document["results"][0])
        return [*caption(day(machine["unix_time"]), machine["commit"], f"two cores of {document['cpu']}", name),
                *table(head, [[row["model"], row["dtype"], f"{row['ratio']:.2f}"] for row in document["results"]])]
    found = measured.load(measured.INDEPENDENT)["cpu"]
    return [*by_others(found["machine"]), *table(head, [[row["model"], found["dtype"], f"{row['ratio']:.2f}"]
                                                        for row in found["rows"]])]


def loss():
    name = measured.newest("h200-1x-loss-gpt2-124m.json")
    if name is None:
        return ["Not measured yet."]
    found = measured.load(name)
    cells = [[each["name"], f"{each['loss'][-1]:.3f}", f"{each['median_step_ms']:.1f}", f"{each['all_seconds']:.0f}"]
             for each in found["series"]]
    first, second = (each["loss"][10:] for each in found["series"])
    apart = max(abs(a - b) for a, b in zip(first, second, strict=True))
    return [*caption(found["date"], found["commit"], found["machine"], name),
            *table(["program", "loss of the last ten steps", "step, ms", "seconds in all"], cells), "",
            f"{len(found['series'][0]['steps']) * 10:,} steps of {found['tokens_per_step']:,} tokens;\n{found['corpus']}.\n"
            f"After step 100 the curves, means of ten steps, differ by at most {apart:.3f}. Seconds in all include start\n"
            "and compilation.", "",
            "![Lines: training loss of libtrain and PyTorch over the steps](pictures/loss.svg)"]


def in_turn(name, title, values):
    """A table of a file of rounds: the medians of each value of train.deterministic, and the cost over the first."""
    found = measured.load(name)
    cells = []
    for row in found["rows"]:
        first, *others = (statistics.median(each[value] for each in row["rounds"]) for value in values)
        model = f"{row['model']}, {row['micro_batch']} x {row['seq']}"
        cells.append([model, *(f"{ms:.1f}" for ms in (first, *others)), *(f"{100 * (ms / first - 1):+.2f} %" for ms in others)])
    machine = found["machine"]
    return [*caption(day(machine["unix_time"]), machine["commit"], f"one {machine['gpu']}", name),
            *table([title, *(f"{value}, ms" for value in values), *(f"{value} costs" for value in values[1:])], cells)]


def determinism():
    return in_turn(measured.newest("h200-1x-determinism.json"), "model, bf16", ("false", "true", "elastic"))


def elastic():
    return in_turn(measured.newest("h200-1x-elastic.json"), "model, bf16", ("true", "elastic"))


TABLES = {"one-gpu": one_gpu, "one-h100": one_h100, "four-gpus": four_gpus, "fp8-one-gpu": fp8_one, "fp8-four-gpus": fp8_four, "scaling": scaling,
          "long-sequences": sequences, "memory": memory, "restart": restart, "saves": saves, "cpu": cpu,
          "loss": loss, "determinism": determinism, "elastic": elastic}


def filled(text):
    def fill(match):
        return "\n".join([match[1], "", *TABLES[match[2]](), "", match[3]])

    return re.sub(r"(<!-- table: ([\w-]+) -->)\n.*?(<!-- end -->)", fill, text, flags=re.DOTALL)


def main():
    check = "--check" in sys.argv
    files = [pathlib.Path(name) for name in sys.argv[1:] if name != "--check"] or [ROOT / "docs/benchmarks.md"]
    changed = 0
    for file in files:
        before = file.read_text()
        after = filled(before)
        changed += before != after
        if before != after:
            print(f"{file}: " + ("its tables are not those of bench/results" if check else "written"))
            if not check:
                file.write_text(after)
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
