#!/usr/bin/env python3
"""Judges runs of the bundled networks on this machine's GPU by every bound: all modes, several batch sizes and domains.

  python3 scripts/gpu_campaign.py [--program build/carry/bin/driftbound] [--samples 1000] [--seed 1] [--jobs N]
                                  [--batches 1,7,64,1000] [--domains -1:1,-8:8] [--time-limit 240]

Prints a row of a table (Markdown) a mode: numbers held against bounds that are proven or conditional, violations, numbers
that were not decided, and how products were seen to read their operands. Exit status 1 where a bound was violated or a
run failed, 4 without a GPU.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODES = [("fp32", "cublas"), ("fp32", "ordered"), ("tf32", "cublas"), ("tf32", "ordered"), ("bf16", "cublas"),
         ("fp16", "cublas"), ("fp64", "cublas")]


def scopes_of(report):
    for layer in report["layers"]:
        yield layer["local"]
        yield layer["accumulated"]
    yield from report["end_to_end"]["outputs"]


class Tally:
    def __init__(self):
        self.runs = 0
        self.counts = collections.Counter()
        self.readings = collections.Counter()

    def add(self, report):
        self.runs += 1
        for scope in scopes_of(report):
            for bound in scope["bounds"]:
                if bound["guarantee"] in ("proven", "conditional"):
                    for key in ("checked", "violations", "undecided"):
                        self.counts[key] += bound[key]
        for layer in report["layers"]:
            if layer["reading"]:
                self.readings[layer["reading"]] += 1

    def row(self, name):
        readings = ", ".join(f"{count} {reading}" for reading, count in sorted(self.readings.items()))
        return (f"| {name} | {self.runs} | {self.counts['checked']} | {self.counts['violations']} | "
                f"{self.counts['undecided']} | {readings} |")


def run(options, model, mode, batch, domain, deadline):
    if time.time() > deadline:
        return None
    arithmetic, product = mode
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        command = [options.program, "report", str(model), "--backend", "cuda", "--arithmetic", arithmetic, "--gemm",
                   product, "--samples", str(options.samples), "--batch", str(batch), "--seed", str(options.seed),
                   "--domain", domain, "--threads", "1", "--quiet", "--json", str(report)]
        result = subprocess.run(command, capture_output=True, text=True)
        if not report.exists():
            return result.returncode, " ".join(command), result.stderr.strip()
        return result.returncode, " ".join(command), json.loads(report.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/carry/bin/driftbound"))
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--batches", default="1,7,64,1000")
    parser.add_argument("--domains", default="-1:1,-8:8")
    parser.add_argument("--time-limit", type=float, default=240.0)
    options = parser.parse_args()
    deadline = time.time() + options.time_limit
    models = sorted((ROOT / "examples/models").glob("*.onnx"))
    cases = [(model, mode, int(batch), domain) for model in models for mode in MODES
             for batch in options.batches.split(",") for domain in options.domains.split(",")]
    random.Random(options.seed).shuffle(cases)  # what is left out for time is left out everywhere
    tallies, failures, left_out = collections.defaultdict(Tally), [], 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = [(mode, pool.submit(run, options, model, mode, batch, domain, deadline))
                for model, mode, batch, domain in cases]
        for mode, future in runs:
            outcome = future.result()
            if outcome is None:
                left_out += 1
                continue
            status, command, report = outcome
            if status == 4:
                print(report, file=sys.stderr)
                return 4
            if status != 0:
                failures.append(f"{command}: exit status {status} {report if isinstance(report, str) else ''}")
            if not isinstance(report, str):
                tallies[mode].add(report)
    print("| mode | runs | numbers judged | violations | undecided | products by reading |\n|---|--:|--:|--:|--:|---|")
    for mode in MODES:
        print(tallies[mode].row("-".join(mode)))
    total = sum(tally.counts["checked"] for tally in tallies.values())
    violations = sum(tally.counts["violations"] for tally in tallies.values())
    print(f"\n{total} numbers, {violations} violations, seed {options.seed}, {options.samples} samples a run; "
          f"{left_out} runs left out for time")
    for failure in failures[:20]:
        print(f"FAILED: {failure}")
    return 1 if failures or violations else 0


if __name__ == "__main__":
    sys.exit(main())
