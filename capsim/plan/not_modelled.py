from __future__ import annotations

from capsim.cost import ProfileCost
from capsim.plan.deployment import Deployment

UNRECORDED = (
    "prefixes that requests share (the demand has none: it is planned as if no two prompts began alike, which is on "
    "the safe side)"
)
HYBRID = "prefix caching of layers with windows or states: every prompt is computed (on the safe side)"
EAGER = (
    "launching kernels one by one, as enforce_eager makes the engine do (the step cost assumes CUDA graphs)"
)
MIXED = "attention of prompts and decodes in one batch taking longer than its parts (the step cost adds them)"
PADDING = "CUDA graph padding of the batch to captured sizes (the step cost has no captured sizes)"


def not_modelled(deployment: Deployment) -> list[str]:
    """What the engine does, by default or by its command line, and this result does not account for."""
    profile = deployment.cost.profile if isinstance(deployment.cost, ProfileCost) else None
    command = deployment.scenario.command_line
    missing = [] if command is None else [f"WARNING: {warning}" for warning in command.warnings]
    missing += _prefixes_not_modelled(deployment)
    if deployment.scenario.engine.enforce_eager:
        missing.append(EAGER)
    if profile is None or not profile.graph_sizes:
        missing.append(PADDING)
    if profile is None or profile.attention.mixed is None:
        missing.append(MIXED)
    return missing


def _prefixes_not_modelled(deployment: Deployment) -> list[str]:
    """What an engine that caches prefixes would find, and this one does not."""
    if not deployment.scenario.engine.enable_prefix_caching:
        return []
    if not deployment.memory.layout.plain:
        return [HYBRID]
    return [] if deployment.shares_prefixes else [UNRECORDED]
