"""What goes wrong, as one exception with one message."""

from __future__ import annotations


class Error(RuntimeError):
    """Something that driftbound cannot do: the message says what, where, and what to do.

    ``exit_status`` is that of the program where the program said it, else ``None``.
    """

    def __init__(self, message: str, exit_status: int | None = None):
        super().__init__(message)
        self.exit_status = exit_status


class DriftboundWarning(UserWarning):
    """Something that a recording or a report does not cover."""
