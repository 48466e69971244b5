"""Plugin of pytest: fixtures for assertions, and failures that show the verdict and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture
def within_rounding() -> Callable[..., None]:
    """``within_rounding(actual, "gemm", a, b)`` fails unless the result is within rounding of the exact one."""
    from .assertions import assert_within_rounding

    return assert_within_rounding


@pytest.fixture
def rows_independent() -> Callable[..., None]:
    """``rows_independent(function, batch)`` fails if a row of the batch answers to other rows."""
    from .assertions import assert_rows_independent

    return assert_rows_independent


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    """Shows of such a failure the line of the test and the verdict, without the frames in between."""
    outcome: Any = yield
    if call.excinfo is None:
        return
    from .assertions import LeakError, RoundingError

    if call.excinfo.errisinstance((LeakError, RoundingError)):
        own = [entry for entry in call.excinfo.traceback if str(entry.path) == str(item.path)]
        where = f"{own[-1].path}:{own[-1].lineno + 1}: " if own else ""
        what = "not within rounding" if call.excinfo.errisinstance(RoundingError) else "rows are not independent"
        outcome.get_result().longrepr = f"{where}{what}\n\n{call.excinfo.value}"
