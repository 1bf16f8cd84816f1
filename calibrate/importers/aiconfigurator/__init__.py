"""Profiles from the kernel tables of NVIDIA aiconfigurator.

The source times single kernels inside a CUDA graph: linear layers, attention of prompts without past, attention of
decodes of equal length, all-reduces. A step of a dense model is composed from them. What the source lacks is filled
by rules that the profile's notes state: layers between the table's shapes, past KV, cells that were not measured,
element-wise kernels, the host. Nothing was measured of prefill and decode together: their attention is added up.

Options of a request: ``release``, ``date`` and ``gpu_name``, where the tables do not say.
"""

from calibrate.importers.aiconfigurator.compose import read

__all__ = ["read"]
