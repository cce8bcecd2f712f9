#!/usr/bin/env python3
"""Writes pytorch.json: PyTorch's CPU results of the general operations in bf16 and f16, forward and gradients.

    pytorch.py > pytorch.json        # needs a Python with torch; the test needs only the file
"""

import json
import math

import torch

INDEX = torch.tensor([[2, 0, 2], [1, 1, 0]])
CONDITION = torch.tensor([[1, 0, 1], [0, 0, 1]])
# name, shapes of the inputs, function
CASES = (
    ("add", ((2, 3), (3,)), lambda a, b: a + b), ("sub", ((2, 3), (3,)), lambda a, b: a - b),
    ("mul", ((2, 3), (2, 1)), lambda a, b: a * b),
    ("x + 0.7", ((2, 3),), lambda x: x + 0.7), ("0.7 - x", ((2, 3),), lambda x: 0.7 - x),
    ("x / 0.7", ((2, 3),), lambda x: x / 0.7), ("0.7 / x", ((2, 3),), lambda x: 0.7 / x),
    ("pow 2.5", ((2, 3),), lambda x: x**2.5), ("pow 2", ((2, 3),), lambda x: x**2),
    ("stack", ((2, 3), (2, 3)), lambda a, b: torch.stack((a, b), 1)),
    ("div", ((2, 3), (3,)), lambda a, b: a / b), ("maximum", ((2, 3), (3,)), torch.maximum),
    ("where", ((2, 3), (3,)), lambda a, b: torch.where(CONDITION.bool(), a, b)),
    ("exp", ((2, 3),), torch.exp), ("log", ((2, 3),), torch.log), ("sqrt", ((2, 3),), torch.sqrt),
    ("tanh", ((2, 3),), torch.tanh), ("relu", ((2, 3),), torch.relu), ("sigmoid", ((2, 3),), torch.sigmoid),
    ("sum", ((2, 40),), lambda x: x.sum(1)), ("mean", ((2, 40),), lambda x: x.mean(1)),
    ("cumulative_sum", ((2, 9),), lambda x: x.cumsum(1)), ("gather", ((2, 3),), lambda x: x.gather(1, INDEX)),
    ("concat", ((2, 3), (2, 2)), lambda a, b: torch.cat((a, b), 1)), ("matmul", ((2, 3, 4), (2, 4, 5)), torch.matmul),
)


def values(shape, key, positive):
    """Distinct numbers near 1, in f32. The caller rounds them to the dtype under test."""
    count = math.prod(shape)
    x = [math.sin(1.7 * i + 0.9 * key + 0.3) * 1.6 + 0.01 * i for i in range(count)]
    return torch.tensor([abs(v) + 0.25 if positive else v for v in x]).reshape(shape)


def run(name, shapes, f, dtype):
    inputs = [values(s, k, name in ("log", "sqrt", "0.7 / x", "pow 2.5") or (name == "div" and k == 1)).to(dtype).requires_grad_()
              for k, s in enumerate(shapes)]
    y = f(*inputs)
    dy = values(tuple(y.shape), 7, False).to(dtype)
    y.backward(dy)
    flat = lambda t: t.detach().float().flatten().tolist()
    return {"op": name, "dtype": str(dtype).removeprefix("torch.").replace("bfloat16", "bf16").replace("float16", "f16"),
            "inputs": [{"shape": list(x.shape), "values": flat(x), "gradient": flat(x.grad)} for x in inputs],
            "output": {"shape": list(y.shape), "values": flat(y)}, "output_gradient": flat(dy)}


def main():
    rows = [json.dumps(run(*case, dtype)) for case in CASES for dtype in (torch.bfloat16, torch.float16)]
    print("[" + ",\n ".join(rows) + "]")


if __name__ == "__main__":
    main()
