"""Measured step costs: from the tables of others or from your own GPU to a profile that capsim reads.

A source (one of `calibrate.importers`) is read into a `calibrate.draft.Draft`, which is checked and written as the
JSON file that `capsim.cost.load_profile` reads.
"""
