"""Pages of docs/ of which several scripts write a part."""

PAIRS = "## Faults between two runs (drift)"  # in docs/power.md, by drift_pairs.py; power.py writes what is above


def split(path, heading):
    """The text of a page above a line with a heading, and the text from it on: all of it, and nothing, where it has none."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    above, found, below = text.partition(f"\n{heading}\n")
    return (above.rstrip() + "\n", f"{heading}\n{below}") if found else (text, "")


def join(*parts):
    """Parts of a page with an empty line between them."""
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"
