"""Write the golden files anew: ``python -m tests.golden``. Read the difference before it is committed."""

from __future__ import annotations

import json

from capsim.catalog.data import data_path
from capsim.plan.self_test import ANSWER, planned_answer
from tests.golden.golden import golden_path, names, short_plan

for name in names():
    golden_path(name).write_text(json.dumps(short_plan(name), indent=1) + "\n")
data_path(*ANSWER).write_text(json.dumps(planned_answer(), indent=1) + "\n")
