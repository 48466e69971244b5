"""Tables and numbers in text and HTML."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence


def short(number: float) -> str:
    """A number with two digits: ``6.0e-8``."""
    if number == 0 or not math.isfinite(number):
        return "0" if number == 0 else str(number)
    return re.sub(r"e([+-])0*(\d)", lambda found: f"e{found[1].replace('+', '')}{found[2]}", f"{number:.1e}")


def some(numbers: Sequence[int], most: int = 8) -> str:
    """Numbers with commas, cut after ``most``: ``0, 2, 5 …``."""
    listed = ", ".join(str(number) for number in numbers[:most])
    return listed + (" …" if len(numbers) > most else "")


def ranges(numbers: Sequence[int], among: Sequence[int]) -> str:
    """Numbers as ranges, where ``among`` says which ones follow each other: 2, 3, 5 among 2, 3, 5 are ``2–5``."""
    places = {number: place for place, number in enumerate(among)}
    parts: list[list[int]] = []
    for number in numbers:
        if parts and places[number] == places[parts[-1][-1]] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}–{part[-1]}" for part in parts)


def text_table(headings: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """A table in text: these columns to the left, the others to the right."""
    widths = [max(len(row[column]) for row in [headings, *rows]) for column in range(len(headings))]
    lines = ["  ".join(cell.ljust(width) if column in left else cell.rjust(width)
                       for column, (cell, width) in enumerate(zip(row, widths))) for row in [headings, *rows]]
    return "\n".join(line.rstrip() for line in lines)


def html_table(paragraphs: Sequence[str], headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first paragraph, the table, and the other paragraphs, as HTML."""
    head = "".join(f"<th>{html.escape(one)}</th>" for one in headings)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    first, *others = [f"<p>{html.escape(one)}</p>" for one in paragraphs]
    return f"{first}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{''.join(others)}"
