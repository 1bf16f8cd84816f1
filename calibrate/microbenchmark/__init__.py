"""Microbenchmarks of one GPU (or CPU): a decoder step with a model's true shapes, its parts timed one by one.

`plan` chooses what to measure, `runner` measures it through a `bench.Bench` and writes each result as a row of a raw
file (`raw_file`), and `fit` makes a profile of the rows. All of that needs no torch. What measures does: `torch_bench`
with `decoder`, `attention`, `kernels` and `operator_calls` on a `device` (`cuda`, or `cpu` with `held`), and
`all_reduce`.
"""
