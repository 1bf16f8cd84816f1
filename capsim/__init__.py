"""Capacity planning for LLM inference: from a demand and a configuration to a replica count.

Folders import downwards only: cli, report, plan, scenario, measure, fleet, engine, then cost, memory and
workload side by side, then catalog. ``setup.cfg`` holds the rules, import-linter checks them.
"""

__version__ = "0.1.0"
