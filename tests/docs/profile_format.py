from __future__ import annotations

import inspect
import re
import textwrap

from capsim.cost import profile_file


def profile_format() -> list[str]:
    """What the reader's own module says of the format, as Markdown."""
    described = inspect.cleandoc(profile_file.__doc__ or "")
    intended, _, after = described.partition("::\n\n")
    example, _, rules = after.partition("\n\n``")
    opening = intended.splitlines()[-1]
    block = textwrap.dedent(example).splitlines()
    text = re.sub(r"\s\(see `\w+`\)", "", f"``{rules}".replace("``", "`"))
    return ["", f"{opening}:", "", "```text", *block, "```", "", *text.splitlines(), ""]
