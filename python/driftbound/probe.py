"""The order of summation and the arithmetic of a function that multiplies matrices or adds up rows."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .arrays import is_torch_tensor
from .errors import Error
from .program import find_program
from .report import Result, options_of


class Probe(Result):
    """What was found: ``.shapes[0].findings.order``, ``.agrees`` … as docs/schema/probe-1.json says.

    ``.holds`` says whether everything is confirmed on random data, and the order is the expected one if one is.
    """

    @property
    def findings(self) -> Any:
        """What was found of the first shape."""
        return self.shapes[0].findings

    @property
    def words(self) -> str:
        """The tree of most elements, in words."""
        return self.findings.classes[0].tree.words


def probe(function: Callable[[Any, Any], Any], shape: tuple[int, int, int] = (64, 512, 8), *,
          convert: Callable[[np.ndarray], Any] | None = None, **options: Any) -> Probe:
    """Finds in which order, and in which arithmetic, a function forms the sums of a matrix product.

    ``driftbound.probe(lambda a, b: a @ b, (64, 512, 8))``; of PyTorch with ``convert=torch.from_numpy``, on any device
    with a function that moves its arguments there and rounds them as it likes.

    Arguments:
        function: called with float32 arrays [m, k] and [k, n]; returns their product [m, n], in float32 or narrower.
        shape: m, k, n. Masks lie in the rows, or in the columns where there are more: many of them make few calls.
        convert: makes of an array of numpy what the function takes.
        options: of the program (docs/probe.md), with ``_`` for ``-``: ``expect="pairwise"``, ``batch="1,16,256"``,
            ``export="arithmetic.json"``, ``html="tree.html"``.

    Raises ``Error`` for a function that returns another shape or numbers that are not finite, and where no tree
    explains its results; exceptions of the function itself reach the caller.
    """
    m, k, n = _extents(shape, 3, "m, k, n")
    return _probe(lambda a, b: function(a, b), f"{m},{k},{n}", [], convert, options, function)


def probe_sum(function: Callable[[Any], Any], shape: tuple[int, int] = (64, 512), *,
              convert: Callable[[np.ndarray], Any] | None = None, **options: Any) -> Probe:
    """The same of a function that adds up the rows of a float32 array [m, k]: ``lambda x: x.sum(axis=1)``."""
    m, k = _extents(shape, 2, "m, k")
    return _probe(lambda x: function(x), f"{m},{k}", ["--sum"], convert, options, function)


def _extents(shape: Any, count: int, names: str) -> tuple[int, ...]:
    extents = tuple(shape)
    if len(extents) != count or any(not isinstance(one, (int, np.integer)) or one < 1 for one in extents):
        raise Error(f"shape={shape!r}: give {names}, integers from 1 on")
    return extents


def _probe(function: Callable[..., Any], shape: str, flags: list[str], convert: Callable[[np.ndarray], Any] | None,
           options: dict[str, Any], named: Any) -> Probe:
    for taken in ("json", "quiet", "exchange", "shape", "sum"):
        if taken in options:
            raise Error(f"option '{taken}' is set by driftbound.probe itself; leave it out")
    options.setdefault("name", getattr(named, "__name__", type(named).__name__))
    with tempfile.TemporaryDirectory(prefix="driftbound-") as folder:
        json_file, page_file = Path(folder) / "out.json", Path(options.setdefault("html", Path(folder) / "out.html"))
        command = [str(find_program()), "probe", "--exchange", "--shape", shape, *flags, "--json", str(json_file)]
        status, text = _exchange(command + options_of(options), lambda *given: _numbers(function, given, convert))
        if status not in (0, 1):
            raise Error(text.strip().removeprefix("driftbound: ") or f"ended with status {status}", status)
        return Probe(json.loads(json_file.read_text()), status, text, page_file.read_text())


def _exchange(command: list[str], answer: Callable[..., np.ndarray]) -> tuple[int, str]:
    """Answers the program's requests until it makes no more; its exit status, and what it said."""
    with tempfile.TemporaryFile() as said:
        program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said)
        assert program.stdin is not None and program.stdout is not None
        try:
            while line := program.stdout.readline():
                request = json.loads(line)
                m, k, n = request["m"], request["k"], request.get("n")
                given = [_read(program.stdout, m, k)] + ([] if n is None else [_read(program.stdout, k, n)])
                program.stdin.write(answer(*given).tobytes())
                program.stdin.flush()
        except BrokenPipeError:
            pass  # it says itself why it reads no more
        except BaseException:
            program.kill()
            raise
        finally:
            program.stdout.close()
            try:
                program.stdin.close()
            except BrokenPipeError:
                pass
            status = program.wait()
        said.seek(0)
        return status, said.read().decode(errors="replace")


def _read(pipe: BinaryIO, rows: int, columns: int) -> np.ndarray:
    data = pipe.read(4 * rows * columns)
    if len(data) < 4 * rows * columns:
        raise Error("the program ended within a request")
    return np.frombuffer(bytearray(data), "<f4").reshape(rows, columns)


def _numbers(function: Callable[..., Any], given: tuple[np.ndarray, ...],
             convert: Callable[[np.ndarray], Any] | None) -> np.ndarray:
    """What the function returns for these arrays, as float32."""
    shape = (given[0].shape[0], given[1].shape[1]) if len(given) == 2 else (given[0].shape[0],)
    found = function(*(given if convert is None else map(convert, given)))
    if is_torch_tensor(found):
        if str(found.dtype) in ("torch.bfloat16", "torch.float16"):
            found = found.float()
        found = found.detach().cpu().numpy()
    found = np.asarray(found)
    if found.shape != shape:
        raise Error(f"the function returned shape {list(found.shape)} instead of {list(shape)}; give one that "
                    "returns one number for each row and column of the product (each row of a sum)", exit_status=3)
    if found.dtype.name not in ("float32", "float16", "bfloat16"):
        raise Error(f"the function returned {found.dtype.name}; give one that returns float32, or a narrower type",
                    exit_status=3)
    return np.ascontiguousarray(found, "<f4")
