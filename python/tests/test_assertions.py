"""assert_within_rounding and the plugin of pytest."""

import numpy as np
import pytest

import driftbound
from driftbound import assertions

pytest_plugins = ["pytester"]
RANDOM = np.random.default_rng(0)
A, B = RANDOM.standard_normal((8, 16)).astype(np.float32), RANDOM.standard_normal((16, 5)).astype(np.float32)


class Verdict:
    def __init__(self, holds):
        self.holds = holds
        self.statement = "violated: 3 of 40 results of gemm"


@pytest.fixture
def seen(monkeypatch):
    """What a call records; the verdict is that of the program's double."""
    from conftest import Run

    runs = []

    def report(path, **options):
        runs.append(Run(path))
        return Verdict(holds=True)

    monkeypatch.setattr(assertions, "report", report)
    return runs


def test_records(seen):
    c = np.zeros(5, np.float32)
    driftbound.assert_within_rounding(A @ B, "gemm", A, B, bias=c)
    (run,) = seen
    record = run.of("Gemm")
    assert len(record["operands"]) == 3 and record["name"] == "gemm" and record["arithmetic"] == "fp32"
    declared = run.arithmetics["fp32"]
    assert declared["accumulator"] == "fp32" and declared["input"] == "fp32" and declared["functions"] == "cuda"
    np.testing.assert_array_equal(run.number(record["results"][0]), A @ B)


@pytest.mark.parametrize(
    "op, operands, given, name, attributes, opset",
    [
        ("softmax", [A], {}, "Softmax", {"axis": -1}, None),
        ("log_softmax", [A], {"dim": 0}, "LogSoftmax", {"axis": 0}, None),
        ("layer_norm", [A, A[0], A[0]], {"eps": 1e-6}, "LayerNormalization", {"axis": -1, "epsilon": 1e-6}, None),
        ("rms_norm", [A], {}, "RMSNormalization", {"axis": -1, "epsilon": 1e-5}, 23),
        ("gelu", [A], {"approximate": "tanh"}, "Gelu", {"approximate": "tanh"}, None),
        ("silu", [A], {}, "aten::silu", None, None),
        ("linear", [A, B.T], {}, "aten::linear", None, None),
        ("attention", [A[None, None]] * 3, {"causal": True}, "Attention", {"is_causal": 1}, 23),
        ("aten::rsqrt", [A], {}, "aten::rsqrt", None, None),
        ("conv2d", [A[None, None], A[None, None, :3, :3]], {"padding": 1}, "Conv",
         {"strides": [1, 1], "pads": [1, 1, 1, 1], "dilations": [1, 1], "group": 1}, None),
    ],
)
def test_names(seen, op, operands, given, name, attributes, opset):
    driftbound.assert_within_rounding(A, op, *operands, **given)
    record = seen[0].of(name)
    assert record.get("attributes") == attributes and record.get("opset") == opset
    assert len(record["operands"]) == len(operands) + (op == "rms_norm")


def test_arithmetics(seen):
    half = A.astype(np.float16)
    driftbound.assert_within_rounding(half, "exp", half)
    driftbound.assert_within_rounding(A @ B, "matmul", A, B, accumulate="tf32")
    driftbound.assert_within_rounding(A @ B, "matmul", A, B, accumulate=None)
    first, second, third = seen
    assert first.arithmetics["fp32"]["input"] == "fp16" and first.arithmetics["fp32"]["accumulator"] == "fp32"
    assert second.arithmetics["tf32"]["input"] == "tf32" and second.arithmetics["tf32"]["accumulator"] == "fp32"
    assert "arithmetic" not in third.records[0]


def test_failures_and_bad_calls(monkeypatch):
    monkeypatch.setattr(assertions, "report", lambda path, **options: Verdict(holds=False))
    with pytest.raises(AssertionError, match="^violated: 3 of 40 results of gemm$"):
        driftbound.assert_within_rounding(A @ B, "gemm", A, B)
    for call, message in (
        (("gem", A, B), "there is no op 'gem'"),
        (("gemm", A), "takes 2 to 3 operands, not 1"),
    ):
        with pytest.raises(driftbound.Error, match=message):
            driftbound.assert_within_rounding(A, *call)
    with pytest.raises(driftbound.Error, match="takes no bias"):
        driftbound.assert_within_rounding(A, "add", A, A, bias=A)
    with pytest.raises(driftbound.Error, match="accumulate='fp31'"):
        driftbound.assert_within_rounding(A, "add", A, A, accumulate="fp31")


def test_the_plugin_shows_the_verdict_alone(pytester):
    pytester.makeconftest('pytest_plugins = ["driftbound.pytest_plugin"]')
    pytester.makepyfile("""
        from driftbound import assertions

        class Verdict:
            holds, statement = False, "violated: 3 of 40 results of gemm"

        def test_product(within_rounding, monkeypatch):
            monkeypatch.setattr(assertions, "report", lambda path, **options: Verdict())
            within_rounding([[2.0]], "gemm", [[1.0]], [[1.0]])
    """)
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    lines = ["*test_the_plugin*.py:8: not within rounding", "", "violated: 3 of 40 results of gemm"]
    result.stdout.fnmatch_lines(lines)
    assert "assertions.py" not in result.stdout.str() and "Traceback" not in result.stdout.str()


def test_the_program_tells_right_from_wrong(judge):
    bias = RANDOM.standard_normal(5).astype(np.float32)
    driftbound.assert_within_rounding(A @ B + bias, "gemm", A, B, bias=bias)
    wrong = A @ B + bias
    wrong[3, 2] += 1e-3
    with pytest.raises(AssertionError):
        driftbound.assert_within_rounding(wrong, "gemm", A, B, bias=bias)


SOFTMAX = np.exp(A - A.max(-1, keepdims=True))
SOFTMAX /= SOFTMAX.sum(-1, keepdims=True)


@pytest.mark.parametrize(
    "op, actual, operands",
    [
        ("add", A + A, [A, A]),
        ("matmul", A @ B, [A, B]),
        ("linear", A @ B, [A, np.ascontiguousarray(B.T)]),
        ("softmax", SOFTMAX, [A]),
        ("layer_norm", (A - A.mean(-1, keepdims=True)) / np.sqrt(A.var(-1, keepdims=True) + np.float32(1e-5)), [A]),
        ("rms_norm", A / np.sqrt((A * A).mean(-1, keepdims=True) + np.float32(1e-5)), [A]),
        ("silu", A / (1 + np.exp(-A)), [A]),
    ],
)
def test_the_program_judges_ops(judge, op, actual, operands):
    driftbound.assert_within_rounding(actual, op, *operands)
