"""Data shipped with capsim: models, GPUs, profiles, traces and scenarios."""
