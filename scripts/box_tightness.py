#!/usr/bin/env python3
"""How much larger bounds for boxes (T-77) are than bounds at their middles; docs/campaigns.md has the results.

Usage: scripts/box_tightness.py PROGRAM MODEL... [--points N] [--seed S] [--scalar TEXT]
Middles are drawn evenly from [-1, 1]; --segment: from the line on which the oscillators were trained, which is the box
then. For each half side 2^-4, 2^-6, ... the median and the largest ratio of what no float32 run exceeds at any point of
the box to adjoint/order-aware at its middle, the median share of the remainder, and how many boxes have no bound.
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import tempfile

HALF_SIDES = [-4, -6, -8, -10, -12, -14]
SEGMENT = ((-0.2, 0.3, -0.2), (0.2, 0.3, -0.2))  # the oscillators' line of inputs


def bounds_of(arguments, model, middle, half_sides, folder):
    """What the program says of the last number it was asked for: the scalar, else the output."""
    inputs = pathlib.Path(folder) / "middle.csv"
    inputs.write_text(",".join(map(repr, middle)) + "\n", encoding="utf-8")
    ranges = ",".join(f"{x - half!r}:{x + half!r}" for x, half in zip(middle, half_sides))
    command = [arguments.program, "report", model, str(inputs), "--box", ranges, "--bounds", "adjoint/order-aware",
               "--threads", "1", "--fail-on", "never", "--json", "-"]
    if arguments.scalar:
        command += ["--scalar", arguments.scalar]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    number = json.loads(done.stdout)["end_to_end"]["outputs"][-1]  # scalars come last
    return number["box"], number["bounds"][0]["max_bound"]


def middles(arguments, count):
    draw = random.Random(arguments.seed)
    if not arguments.segment:
        return [[draw.uniform(-1.0, 1.0) for _ in range(3)] for _ in range(count)]
    places = [draw.random() for _ in range(count)]
    return [[a + t * (b - a) for a, b in zip(*SEGMENT)] for t in places]


def row_of(arguments, model, exponent, folder):
    half = 2.0**exponent
    half_sides = [half, 0.0, 0.0] if arguments.segment else [half] * 3
    ratios, shares, missing = [], [], 0
    for middle in middles(arguments, arguments.points):
        box, at_middle = bounds_of(arguments, model, middle, half_sides, folder)
        if box["error"] is None or not box["error"] < float("inf"):
            missing += 1
            continue
        ratios.append(box["error"] / at_middle)
        shares.append(box["remainder_share"])
    if not ratios:
        return f"| 2^{exponent} | none | | {missing} |"
    return (f"| 2^{exponent} | {statistics.median(ratios):.3g}, {max(ratios):.3g} | "
            f"{100 * statistics.median(shares):.1f} % | {missing} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--points", type=int, default=10)
    parser.add_argument("--seed", type=int, default=20261123)
    parser.add_argument("--scalar", default="")
    parser.add_argument("--segment", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for model in arguments.models:
            print(f"{pathlib.Path(model).stem}\n| half side | ratio: median, largest | remainder | none |\n|---|---|---|---|")
            for exponent in HALF_SIDES:
                print(row_of(arguments, model, exponent, folder), flush=True)


if __name__ == "__main__":
    main()
