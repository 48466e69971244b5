"""Reports and certificates of the program as objects of Python."""

from __future__ import annotations

import html
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .arrays import is_torch_tensor
from .errors import Error
from .program import run_program


class Content:
    """An object of JSON: fields as attributes and by ``[]``; numbers that are not finite are floats."""

    def __init__(self, fields: dict[str, Any]):
        self._fields = fields

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return _wrap(self._fields[name])
        except KeyError:
            known = ", ".join(self._fields)
            raise AttributeError(f"there is no field '{name}'; there are: {known}") from None

    def __getitem__(self, name: str) -> Any:
        return _wrap(self._fields[name])

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._fields]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Content) and self._fields == other._fields

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._fields!r})"

    def to_dict(self) -> dict[str, Any]:
        """The JSON as it is in the file."""
        return self._fields


class Result(Content):
    """What the program answered: the JSON's content and, beside it, ``exit_status`` and ``text``."""

    def __init__(self, fields: dict[str, Any], exit_status: int, text: str, page: str | None):
        super().__init__(fields)
        self.exit_status = exit_status
        self.text = text
        self._page = page

    @property
    def holds(self) -> bool:
        """Whether everything asked for holds: exit status 0."""
        return self.exit_status == 0

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """What a notebook shows. The program's page is one document, so it gets a frame of its own."""
        if self._page is None:
            return f"<pre>{html.escape(self.text)}</pre>"
        return (f'<iframe srcdoc="{html.escape(self._page, quote=True)}" sandbox="" '
                'style="width: 100%; height: 40em; border: 0"></iframe>')


class Report(Result):
    """A report: ``.verdict``, ``.layers``, ``.run`` … as docs/schema/report-1.json says."""

    @property
    def statement(self) -> str:
        """The verdict in words: the first paragraph that the program prints."""
        return self.text.strip().split("\n\n", 1)[0]

    def to_pandas(self) -> Any:
        """The layers as a table of pandas, one row a layer; nested fields are columns such as ``local.max_error``.

        Raises ``Error`` where pandas is not installed.
        """
        return table_of([layer.to_dict() for layer in self.layers])


class Certificate(Result):
    """A certificate: ``.points``, ``.positive``, ``.zeros`` … as docs/schema/certify-1.json says."""

    def to_pandas(self) -> Any:
        """The stages as a table of pandas. Raises ``Error`` where pandas is not installed."""
        return table_of([stage.to_dict() for stage in self.stages])


class Drift(Result):
    """Runs compared: ``.verdict``, ``.reason``, ``.drifts`` … as docs/schema/drift-1.json says."""

    def to_pandas(self) -> Any:
        """The values that both runs computed as a table of pandas, one row a value, of all runs.

        Raises ``Error`` where pandas is not installed.
        """
        return table_of([op.to_dict() for one in self.drifts for op in one.ops])


class Tolerance(Result):
    """A tolerance: ``.parts[0].proven``, ``.formula`` … as docs/schema/tolerance-1.json says.

    ``.parts[i].kernels`` says which kernels a part is about: sums as they were asked for, the matrix unit of ``device``,
    or, behind these, the weakest matrix unit that reads such operands, where no device is named. Arrays of the kernels
    that were asked for, element by element, of the data given or of normal data, in float64: ``.exact``, the exact
    results; ``.proven``, the tolerances that none of these kernels exceeds; ``.by_chance``, those that an honest one
    exceeds with the failure probability.
    """

    exact: np.ndarray
    proven: np.ndarray
    by_chance: np.ndarray

    def to_pandas(self) -> Any:
        """The parts as a table of pandas, one row a kind of data. Raises ``Error`` where pandas is not installed."""
        return table_of([part.to_dict() for part in self.parts])


def report(run_or_model: str | Path, *files: str | Path, **options: Any) -> Report:
    """Judges a recorded run, or the run of a model: ``driftbound report``.

    Arguments:
        run_or_model: a recording (``RUN.safetensors``), or a model (``.onnx``, ``.npz``).
        files: inputs of a model.
        options: those of the program (docs/command-line.md) with ``_`` for ``-``: ``trace="t.safetensors"``,
            ``failure_probability=1e-12``, ``explain=True``, ``scalar=["y[0]", "y[1]"]`` for an option given twice.

    Returns a ``Report``, whatever the verdict is. Raises ``Error`` with the program's message and exit status for bad
    input, or where there is no program.
    """
    return _call("report", (run_or_model, *files), options, Report, page=True)


def certify(model: str | Path, *files: str | Path, **options: Any) -> Certificate:
    """Certifies signs of the exact network: ``driftbound certify``.

    ``certify("field.onnx", grid="64x64x64", box="-1:1")``: options as ``report`` takes them. Returns a
    ``Certificate``; raises ``Error`` as ``report`` does.
    """
    return _call("certify", (model, *files), options, Certificate, page=False)


def drift(first: str | Path, *others: str | Path, **options: Any) -> Drift:
    """Compares runs of one model with the first of them: ``driftbound drift``.

    ``drift("a.safetensors", "b.safetensors")`` compares recorded runs, ``drift("m.onnx", orders=["sequential",
    "pairwise"])`` runs that are made here. Options are those of the program (docs/drift.md), as ``report`` takes them.
    Returns a ``Drift``, whatever the verdict is; raises ``Error`` for runs of other models or inputs.
    """
    return _call("drift", (first, *others), options, Drift, page=True)


def tolerance(op: str, *data: Any, **options: Any) -> Tolerance:
    """What the results of a kernel may be off by: ``driftbound tolerance``.

    ``tolerance("gemm", k=4096, in_="bf16", out="bf16")``, or ``tolerance("gemm", a, b)`` with operands: arrays of numpy
    or PyTorch, for ``attention`` also a mask. Options are those of the program (docs/tolerances.md), ``in_`` for
    ``--in``. Returns a ``Tolerance``; raises ``Error`` for bad input.
    """
    if "in_" in options:
        options["in"] = options.pop("in_")
    with tempfile.TemporaryDirectory(prefix="driftbound-") as folder:
        files = [Path(folder) / f"{number}.npy" for number in range(len(data))]
        for file, one in zip(files, data):
            np.save(file, _as_array(one))
        if files:
            options["data"] = [str(file) for file in files]
        elements = Path(options.setdefault("elements", Path(folder) / "elements.npy"))
        found = _call("tolerance", (op,), options, Tolerance, page=False)
        found.exact, found.proven, found.by_chance = np.load(elements)
        return found


def _as_array(one: Any) -> np.ndarray:
    if is_torch_tensor(one):
        is_mask = str(one.dtype) == "torch.bool"
        one = (one.detach().cpu() if is_mask else one.detach().cpu().double()).numpy()
    return np.asarray(one)


def _call(verb: str, files: tuple, options: dict[str, Any], kind: type, page: bool) -> Any:
    for taken in ("json", "quiet"):
        if taken in options:
            raise Error(f"option '{taken}': the object that {verb} returns has the content; leave the option out")
    with tempfile.TemporaryDirectory(prefix="driftbound-") as folder:
        json_file, page_file = Path(folder) / "out.json", Path(options.get("html") or Path(folder) / "out.html")
        arguments = [verb, *(str(file) for file in files), "--json", str(json_file)]
        if page and "html" not in options:
            arguments += ["--html", str(page_file)]
        done = run_program(arguments + options_of(options))
        try:
            fields = json.loads(json_file.read_text())
        except (OSError, ValueError) as error:
            raise Error(f"driftbound {verb} wrote no JSON that can be read: {error}", done.returncode) from None
        return kind(fields, done.returncode, done.stdout, page_file.read_text() if page else None)


def options_of(options: dict[str, Any]) -> list[str]:
    """Options as the program takes them: ``max_precision=256`` is ``--max-precision 256``."""
    arguments: list[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            arguments.append(flag)
        elif value is None or value is False:
            continue
        else:
            for one in value if isinstance(value, (list, tuple)) else [value]:
                arguments += [flag, str(one)]
    return arguments


def _wrap(value: Any) -> Any:
    if isinstance(value, dict):
        return Content(value)
    if isinstance(value, list):
        return [_wrap(one) for one in value]
    return float(value) if value in ("inf", "-inf", "nan") else value


def _flat(fields: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = _wrap(value)
    return flat


def table_of(rows: list[dict[str, Any]]) -> Any:
    try:
        import pandas
    except ImportError:
        raise Error("tables need pandas, which is not installed: pip install pandas") from None
    return pandas.DataFrame([_flat(row) for row in rows])
