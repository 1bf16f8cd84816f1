"""A real engine in this process: controlled batches and replayed requests, every step logged.

What depends on an engine and its version stands in one file, `calibrate.engine.vllm_engine`, which alone imports it.
"""
