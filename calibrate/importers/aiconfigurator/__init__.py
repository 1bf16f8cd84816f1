"""Profiles from the kernel tables of NVIDIA aiconfigurator.

The source times single kernels inside a CUDA graph: linear layers, attention of prompts without past, attention of
decodes of equal length, the fused experts of a layer, all-reduces. A step is composed from them. What the source lacks
is filled by rules that the profile's notes state: layers between the table's shapes, past KV, cells that were not
measured, element-wise kernels, the host. Nothing was measured of prefill and decode together: their attention is added
up.

Options of a request: ``release``, ``date`` and ``gpu_name``, where the tables do not say. ``decode_attention`` is a
file of decode attention for heads that the tables lack, ``decode_attention_by`` whose it is (`SupplementedSource`).
For a model with experts also ``routing``, one of the source's (``power_law_1.01`` where it is not given and measured,
else ``balanced``), and ``expert_parallel_size``, the number of ranks where whole experts are dealt out to them, else 1.

``scale_to`` of a request carries the times over to another GPU whose memory alone differs (`Transfer`).
"""

from calibrate.importers.aiconfigurator.compose import read

__all__ = ["read"]
