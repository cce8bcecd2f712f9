#!/usr/bin/env python3
"""Draws SVG pictures for the documents from bench/results: speed compared with PyTorch, scaling over GPUs, losses in FP8.

python3 bench/pictures.py [FOLDER]    default: docs. The same results give the same bytes.
"""
import json
import pathlib
import sys

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
FOUR = ["2026-11-27-h200-4x-gpt2-124m-64x1024", "2026-11-28-h200-4x-gpt2-1.5b-16x1024", "2026-11-28-h200-4x-llama-1b-4x4096"]
# A title, the strategy that is compared, and files.
BESIDE = [("one H200, GPT-2 tuned", "ddp", ["2026-11-28-h200-1x-gpt2-124m-64x1024-tuned",
                                            "2026-11-28-h200-1x-gpt2-1.5b-16x1024-tuned",
                                            "2026-11-28-h200-1x-llama-1b-4x4096"]),
          ("four H200, beside DDP", "ddp", FOUR),
          ("four H200, ZeRO-3 beside FSDP2", "zero3", [*FOUR, "2026-11-28-h200-4x-llama-8b-2x4096"]),
          ("eight H200, ZeRO-3 beside FSDP2", "zero3", ["2026-11-26-h200-8x-llama-8b-2x4096"])]
LEARNING = "2026-11-27-h200-1x-learning-llama-1b"
SCALING = "2026-11-26-h200-8x-scaling-gpt2-1.5b"  # all its numbers are from one call on one machine
COLOURS = ["#0072b2", "#d55e00", "#008f68", "#b4588f"]
STYLE = """<style>text { fill: #1b1f24; } .soft { fill: #59636e; } .paper { fill: #ffffff; } .rule { stroke: #d5dae0; }
@media (prefers-color-scheme: dark) { text { fill: #e6eaef; } .soft { fill: #9aa5b1; } .paper { fill: #14181d; }
.rule { stroke: #333b45; } }</style>"""


def result(file, strategy):
    return next(row for row in json.loads((RESULTS / f"{file}.json").read_text())["results"] if row["strategy"] == strategy)


def tokens_per_s(row, program):
    return row["settings"]["libtrain"]["tokens_per_step"] / row[program]["median_ms"] * 1e3


def drawing(width, height, title, parts):
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
                      f'font-size="13" role="img" aria-label="{title}">', STYLE,
                      f'<rect class="paper" width="{width}" height="{height}"/>',
                      f'<text x="16" y="26" font-weight="bold">{title}</text>', *parts, "</svg>\n"])


def legend(names, y):
    parts = []
    for i, (name, colour) in enumerate(zip(names, COLOURS)):
        parts.append(f'<rect x="{16 + 150 * i}" y="{y - 10}" width="11" height="11" fill="{colour}"/>'
                     f'<text class="soft" x="{32 + 150 * i}" y="{y}">{name}</text>')
    return parts


def axes(left, right, bottom, rows, columns, name):
    """Rules with their values, values below them, and what these are. Rows and columns: position, text."""
    parts = [f'<line class="rule" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
             f'<text class="soft" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>' for y, text in rows]
    parts += [f'<text class="soft" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{text}</text>' for x, text in columns]
    return [*parts, f'<text class="soft" x="{(left + right) / 2}" y="{bottom + 36}" text-anchor="middle">{name}</text>']


def beside_pytorch():
    """Bars from zero: tokens per second in units of PyTorch's, of medians of the same call."""
    parts, y, scale = legend(["libtrain", "PyTorch 2.11"], 48), 76, 330
    for where, strategy, files in BESIDE:
        parts.append(f'<text class="soft" x="16" y="{y}">{where}</text>')
        y += 10
        for file in files:
            row = result(file, strategy)
            ratio = tokens_per_s(row, "libtrain") / tokens_per_s(row, "torch")
            parts.append(f'<text x="16" y="{y + 18}">{row["model"]}</text>')
            for i, (value, text) in enumerate([(ratio, f"{ratio:.2f} x"), (1, "")]):
                parts.append(f'<rect x="110" y="{y + 4 + 11 * i}" width="{value * scale:.1f}" height="10" '
                             f'fill="{COLOURS[i]}"/><text x="{116 + value * scale:.1f}" y="{y + 14}">{text}</text>')
            y += 32
        y += 22
    return drawing(640, y - 8, "Training speed beside PyTorch, bf16, tokens per second", parts)


def scaling():
    """Lines: speed of each GPU / that of the slowest alone, by strategy."""
    rows = json.loads((RESULTS / f"{SCALING}.json").read_text())["rows"]
    strategies = list(dict.fromkeys(row["strategy"] for row in rows if row["ranks"] > 1))
    counts = sorted({row["ranks"] for row in rows})
    left, right, top, bottom, least, most = 64, 480, 70, 330, 94, 100  # percent
    x = lambda gpus: left + counts.index(gpus) / (len(counts) - 1) * (right - left)
    y = lambda percent: bottom - (percent - least) / (most - least) * (bottom - top)
    parts = legend(strategies, 48)
    parts += axes(left, right, bottom, [(y(tick), f"{tick} %") for tick in range(least, most + 1)],
                  [(x(gpus), gpus) for gpus in counts], "GPUs")
    ends = []
    for strategy, colour in zip(strategies, COLOURS, strict=True):
        percents = {1: 100.0, **{row["ranks"]: 100 * row["efficiency"] for row in rows if row["strategy"] == strategy}}
        points = [(x(gpus), y(percent)) for gpus, percent in sorted(percents.items())]
        parts.append(f'<path fill="none" stroke="{colour}" stroke-width="2" d="M' +
                     "L".join(f"{px:.1f} {py:.1f}" for px, py in points) + '"/>')
        parts += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3.5" fill="{colour}"/>' for px, py in points]
        ends.append((points[-1][1], f"{strategy}: {percents[counts[-1]]:.1f} %"))
    at = 0
    for py, text in sorted(ends):
        at = max(at + 16, py + 4)
        parts.append(f'<text x="{right + 10}" y="{at:.1f}">{text}</text>')
    return drawing(640, 380, "Scaling of gpt2-1.5b, bf16, over H200 GPUs: speed of a GPU / that of the slowest alone", parts)


def learning():
    """Lines: losses by step of llama-1b in bf16 and in FP8, of two seeds each."""
    runs = json.loads((RESULTS / f"{LEARNING}.json").read_text())["runs"]
    left, right, top, bottom, most = 52, 600, 70, 330, 3
    x = lambda step: left + step / 2000 * (right - left)
    y = lambda loss: bottom - min(loss, most) / most * (bottom - top)
    parts = legend(list(runs), 48)
    parts += axes(left, right, bottom, [(y(loss), loss) for loss in range(most + 1)],
                  [(x(step), step) for step in range(0, 2001, 500)], "step")
    for run, colour in zip(runs.values(), COLOURS):
        points = "L".join(f"{x(step):.1f} {y(loss):.1f}" for step, loss in run["training"])
        parts.append(f'<path fill="none" stroke="{colour}" stroke-width="1.5" d="M{points}"/>')
        parts += [f'<circle cx="{x(step):.1f}" cy="{y(loss):.1f}" r="3.5" fill="{colour}"/>' for step, loss in run["evaluations"]]
    return drawing(640, 380, "llama-1b in bf16 and FP8: training loss, and validation loss as points", parts)


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else RESULTS.parents[1] / "docs")
    for name, text in (("beside_pytorch.svg", beside_pytorch()), ("scaling.svg", scaling()),
                       ("fp8_learning.svg", learning())):
        (folder / name).write_text(text)


if __name__ == "__main__":
    main()
