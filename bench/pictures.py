#!/usr/bin/env python3
"""Draws the pictures of the documents from bench/results.

python3 bench/pictures.py [FOLDER]    default: docs/pictures. The same results give the same bytes.

Each is 360 units wide with text of 15 units or more, so that it can be read on a phone, and has colours for light and dark
screens. loss.svg is drawn if a file DATE-h200-1x-loss-gpt2-124m.json is there.
"""

import pathlib
import sys

import measured
from measured import GIB, STRATEGIES

WIDTH = 360
STYLE = """<style>text { fill: #1b1f24; } .soft { fill: #57606a; } .paper { fill: #ffffff; } .rule { stroke: #c9d0d8; }
.c0 { fill: #0969da; } .c1 { fill: #8c959f; } .c2 { fill: #bf5700; } .c3 { fill: #1a7f37; } .c4 { fill: #8250df; }
.l0 { stroke: #0969da; } .l2 { stroke: #bf5700; } .l3 { stroke: #1a7f37; }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .soft { fill: #a5b0bb; } .paper { fill: #0d1117; }
.rule { stroke: #3d444d; } .c0 { fill: #4493f8; } .c1 { fill: #6e7681; } .c2 { fill: #f0883e; } .c3 { fill: #3fb950; }
.c4 { fill: #ab7df8; } .l0 { stroke: #4493f8; } .l2 { stroke: #f0883e; }
.l3 { stroke: #3fb950; } }</style>"""


def drawing(height, title, parts):
    height = round(height)
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH * 7 // 6}" height="{height * 7 // 6}" '
                      f'viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" font-size="15" role="img" '
                      f'aria-label="{title}">', STYLE, f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
                      f'<text x="12" y="26" font-size="17" font-weight="bold">{title}</text>', *parts, "</svg>\n"])


def text(x, y, words, kind="", anchor="start", weight="normal"):
    of_kind = f' class="{kind}"' if kind else ""
    return f'<text{of_kind} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{words}</text>'


def bar(x, y, width, height, colour):
    return f'<rect class="c{colour}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}"/>'


def rule(x1, y1, x2, y2):
    return f'<line class="rule" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def legend(names, y, widths):
    """Squares with names after them; `widths` say how far each is from the next."""
    parts, x = [], 12
    for colour, (name, width) in enumerate(zip(names, widths, strict=True)):
        parts += [bar(x, y - 11, 12, 12, colour), text(x + 17, y, name, "soft")]
        x += width
    return parts


def speed():
    """Bars from zero: speed in units of PyTorch's, of the medians of one run."""
    ones = [(model, row) for model, row in measured.one_gpu()["bf16"].items()]
    fours = [(f"{row['model']}, {how}", row) for strategy, how in (("ddp", "DDP"), ("zero3", "ZeRO-3, FSDP2"))
             for row in measured.four_gpus()
             if row["dtype"] == "bf16" and row["strategy"] == strategy and "torch" in row and "min_ms" not in row["torch"]]
    parts, y, scale = legend(["libtrain", "PyTorch 2.11"], 50, [100, 0]), 80, (WIDTH - 70) / 1.35
    for where, rows in (("one H200", ones), ("four H200", fours)):
        parts.append(text(12, y, f"{where}, bf16", "soft"))
        for name, row in rows:
            ratio = row["torch"]["median_ms"] / row["libtrain"]["median_ms"]
            parts += [text(12, y + 24, name), bar(12, y + 31, ratio * scale, 12, 0), bar(12, y + 43, scale, 6, 1),
                      text(18 + ratio * scale, y + 44, f"{ratio:.2f} x", weight="bold")]
            y += 51
        y += 34
    return drawing(y - 24, "Training speed, PyTorch = 1", parts)


def scaling():
    """Bars from zero: efficiency of two and four GPUs under each strategy."""
    files = measured.scaling()
    parts, y, scale = legend(["two H200", "four H200 (numbers)"], 50, [110, 0]), 80, WIDTH - 160
    for model in ("gpt2-1.5b", "llama-1b"):
        rows = measured.load(files[model, "bf16"])["rows"]
        parts.append(text(12, y, model, "soft"))
        for strategy, name in STRATEGIES.items():
            two, four = (next(row["efficiency"] for row in rows if row["strategy"] == strategy and row["ranks"] == ranks)
                         for ranks in (2, 4))
            parts += [text(12, y + 25, name), bar(76, y + 11, two * scale, 8, 0), bar(76, y + 20, four * scale, 8, 1),
                      text(WIDTH - 12, y + 25, f"{100 * four:.1f} %", anchor="end", weight="bold")]
            y += 26
        y += 40
    return drawing(y - 26, "Speed per GPU, one GPU = 100 %", parts)


def memory():
    """Stacked bars: the peak of llama-8b on eight GPUs by owner."""
    rows = measured.load(measured.newest("plan-llama-8b-8x.json"))["rows"]
    owners = ["parameters", "gradients", "optimizer", "activations", "other"]
    parts = [text(12, 50, "GiB per GPU; 8 GPUs, 1 x 4096, bf16", "soft")]
    parts += legend(owners[:3], 76, [113, 105, 0]) + [bar(12, 87, 12, 12, 3), text(29, 98, "activations", "soft"),
                                                      bar(125, 87, 12, 12, 4), text(142, 98, "other", "soft")]
    y, most = 128, max(row["peak_bytes"] for row in rows) / GIB
    scale = (WIDTH - 24 - 44) / most
    for row in rows:
        how = "" if row["recompute"] == "none" else ", recomputation"
        parts.append(text(12, y, STRATEGIES[row["strategy"]] + how))
        x = 12
        for colour, owner in enumerate(owners):
            own = row["ledger"]
            value = own[owner] if owner in own else sum(own[key] for key in own if key not in owners)
            parts.append(bar(x, y + 6, value / GIB * scale, 14, colour))
            x += value / GIB * scale
        parts.append(text(x + 5, y + 19, f"{row['peak_bytes'] / GIB:.0f}", weight="bold"))
        y += 43
    return drawing(y - 8, "Memory of llama-8b", parts)


def restart():
    """A line of time: from a killed rank to the end of the next step."""
    notice, rest, start, total = measured.restart()
    scale = (WIDTH - 24) / total
    at = lambda seconds: 12 + seconds * scale
    phases = [(2, notice, "rank is missed, others end"), (1, rest, "other"), (0, start, "start, load, first step")]
    parts, begin = [text(12, 50, "gpt2-1.5b on four GPUs", "soft")], 0
    for i, (colour, seconds, words) in enumerate(phases):
        parts += [bar(at(begin), 64, seconds * scale, 26, colour), bar(12, 131 + 26 * i, 12, 12, colour),
                  text(30, 142 + 26 * i, words), text(WIDTH - 12, 142 + 26 * i, f"{seconds:.1f} s", anchor="end")]
        begin += seconds
    for second in range(0, int(total) + 1, 2):
        parts += [rule(at(second), 90, at(second), 96),
                  text(at(second), 113, f"{second} s", "soft", "start" if second == 0 else "end" if at(second) > WIDTH - 40 else "middle")]
    parts += [text(12, 222, "from the kill to the next step", weight="bold"),
              text(WIDTH - 12, 222, f"{total:.1f} s", anchor="end", weight="bold")]
    return drawing(238, "Restart after kill -9", parts)


def loss():
    """Lines: training losses by step; None without a file."""
    name = measured.newest("h200-1x-loss-gpt2-124m.json")
    if name is None:
        return None
    series = measured.load(name)["series"]
    left, right, top, bottom = 40, WIDTH - 14, 76 + 22 * (len(series) - 1), 330
    last = max(each["steps"][-1] for each in series)
    high = int(max(max(each["loss"]) for each in series)) + 1
    low = int(min(min(each["loss"]) for each in series))
    x = lambda step: left + step / last * (right - left)
    y = lambda value: bottom - (value - low) / (high - low) * (bottom - top)
    parts = []
    for i, each in enumerate(series):
        parts += [bar(12, 40 + 22 * i, 12, 12, (0, 2, 3)[i % 3]),
                  text(30, 51 + 22 * i, f"{each['name']}: {each['loss'][-1]:.3f}", weight="bold")]
    for tick in range(low, high + 1):
        parts += [rule(left, y(tick), right, y(tick)), text(left - 8, y(tick) + 5, tick, "soft", "end")]
    for step in range(0, last + 1, max(1, round(last / 4))):
        parts.append(text(x(step), bottom + 20, f"{step:,}", "soft", "end" if x(step) > right - 20 else "middle"))
    parts.append(text((left + right) / 2, bottom + 40, "step", "soft", "middle"))
    for i, each in enumerate(series):  # the first line is wider, so that it can be seen below one that covers it
        points = "L".join(f"{x(step):.1f} {y(value):.1f}" for step, value in zip(each["steps"], each["loss"], strict=True))
        parts.append(f'<path class="l{(0, 2, 3)[i % 3]}" fill="none" stroke-width="{(4, 1.5, 1)[i % 3]}" d="M{points}"/>')
    return drawing(bottom + 52, "Loss of gpt2-124m", parts)


PICTURES = {"speed.svg": speed, "scaling.svg": scaling, "memory.svg": memory, "restart.svg": restart, "loss.svg": loss}


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else measured.RESULTS.parents[1] / "docs/pictures")
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        drawn = draw()
        if drawn is not None:
            (folder / name).write_text(drawn)


if __name__ == "__main__":
    main()
