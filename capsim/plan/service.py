"""What a replica is, whatever is asked of it."""

from __future__ import annotations

import hashlib
import json

from capsim.catalog.entry import entry_text, gpu_text
from capsim.scenario import Scenario, resolved


def service_fingerprint(scenario: Scenario) -> str:
    """Digest of model, GPU, engine and stated step cost: what a replica is, whatever is asked of it.

    The demand, the objectives, the fleet's size and a fitted overhead do not enter.
    """
    record = resolved(scenario)
    if scenario.gpu_file is not None:
        record["gpu"] = gpu_text(scenario.gpu)
    digest = hashlib.sha256(entry_text(scenario.model).encode())
    path = getattr(scenario.step_cost, "path", None)
    if path is not None:
        record["step_cost"]["path"] = path.name
        digest.update(path.read_bytes())
    kept = {key: record[key] for key in ("gpu", "engine", "step_cost")}
    digest.update(json.dumps(kept, sort_keys=True).encode())
    return digest.hexdigest()[:16]
