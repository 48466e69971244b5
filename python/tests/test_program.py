"""Finding and calling the program, and what its answers look like in Python."""

import json
import stat
import sys

import numpy as np
import pytest

import driftbound
from driftbound import program
from driftbound.report import Report, options_of

REPORT = {
    "verdict": "holds",
    "layers": [{"index": 0, "name": "a", "local": {"max_error": 1e-7, "bound": "inf"}}, {"index": 1, "name": "b"}],
    "run": {"arithmetic": {"name": "fp32"}},
}


@pytest.fixture
def fake_program(tmp_path, monkeypatch):
    """A program that writes its arguments down and answers with a given status."""

    def make(status=0, message="", version=driftbound.__version__, answer=REPORT):
        file = tmp_path / "driftbound"
        file.write_text(f"""#!{sys.executable}
import json, sys
arguments = sys.argv[1:]
if arguments == ["--version"]:
    print("driftbound {version}"); sys.exit(0)
json.dump(arguments, open({str(tmp_path / "arguments.json")!r}, "w"))
if {status} > 2:
    print({message!r}, file=sys.stderr); sys.exit({status})
for flag, text in (("--json", json.dumps({answer!r})), ("--html", "<html>page</html>")):
    if flag in arguments:
        open(arguments[arguments.index(flag) + 1], "w").write(text)
print("holds: 3 of 3\\nof one op\\n\\nmore")
sys.exit({status})
""")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("DRIFTBOUND", str(file))
        program._check_version.cache_clear()
        return lambda: json.loads((tmp_path / "arguments.json").read_text())

    yield make
    program._check_version.cache_clear()


def test_a_report(fake_program):
    arguments = fake_program()
    answer = driftbound.report("run.safetensors", failure_probability=1e-12, explain=True, scalar=["y[0]", "y[1]"])
    assert answer.verdict == "holds" and answer.holds and answer.exit_status == 0
    assert answer.layers[0].local.max_error == 1e-7 and answer.layers[0].local.bound == float("inf")
    assert answer.run["arithmetic"].name == "fp32" and "layers" in answer and "verdict" in list(answer)
    assert str(answer).endswith("more\n") and answer.statement == "holds: 3 of 3\nof one op"
    assert "iframe" in answer._repr_html_() and "&lt;html&gt;" in answer._repr_html_()
    with pytest.raises(AttributeError, match="there is no field 'nothing'"):
        answer.nothing
    given = arguments()
    assert given[:2] == ["report", "run.safetensors"]
    assert given[-7:] == ["--failure-probability", "1e-12", "--explain", "--scalar", "y[0]", "--scalar", "y[1]"]


def test_a_report_that_does_not_hold(fake_program):
    fake_program(status=2)
    answer = driftbound.report("run.safetensors")
    assert not answer.holds and answer.exit_status == 2


def test_a_certificate(fake_program):
    arguments = fake_program(answer={"points": 8, "stages": []})
    answer = driftbound.certify("field.onnx", grid="2x2x2")
    assert answer.points == 8 and answer.holds and answer._repr_html_().startswith("<pre>")
    assert arguments()[0] == "certify" and arguments()[-2:] == ["--grid", "2x2x2"]


def test_errors_of_the_program(fake_program):
    fake_program(status=3, message="driftbound: run.safetensors: record 3: no such value")
    with pytest.raises(driftbound.Error, match="^run.safetensors: record 3") as caught:
        driftbound.report("run.safetensors")
    assert caught.value.exit_status == 3


def test_another_version(fake_program):
    fake_program(version="9.9")
    with pytest.warns(driftbound.DriftboundWarning, match="9.9"):
        driftbound.report("run.safetensors")


def test_no_program(monkeypatch, tmp_path):
    monkeypatch.setenv("DRIFTBOUND", str(tmp_path / "none"))
    with pytest.raises(driftbound.Error, match="DRIFTBOUND names"):
        driftbound.find_program()
    monkeypatch.delenv("DRIFTBOUND")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(program, "checkout", lambda: None)
    with pytest.raises(driftbound.Error, match="there is no program driftbound"):
        driftbound.find_program()


def test_options():
    assert options_of({"max_precision": 256, "csv": None, "explain": False}) == ["--max-precision", "256"]
    with pytest.raises(driftbound.Error, match="leave the option out"):
        driftbound.report("x", json="y")


def test_tables(fake_program):
    pandas = pytest.importorskip("pandas")
    fake_program()
    table = driftbound.report("run.safetensors").to_pandas()
    assert isinstance(table, pandas.DataFrame) and table["local.max_error"][0] == 1e-7


def test_tables_without_pandas(fake_program, monkeypatch):
    fake_program()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(driftbound.Error, match="need pandas"):
        driftbound.report("run.safetensors").to_pandas()


def test_the_program_of_this_checkout_reports_a_model(tmp_path):
    try:
        driftbound.find_program()
    except driftbound.Error as error:
        pytest.skip(str(error))
    model = tmp_path / "model.npz"
    np.savez(model, **{"0000.dense.A": np.eye(2, dtype=np.float32), "0001.tanh._": np.zeros(1)})
    answer = driftbound.report(model, samples=5)
    assert isinstance(answer, Report) and answer.verdict == "holds" and answer.holds
    assert [layer.op for layer in answer.layers] and answer.statement
    with pytest.raises(driftbound.Error) as caught:
        driftbound.report(tmp_path / "none.onnx")
    assert caught.value.exit_status == 3
