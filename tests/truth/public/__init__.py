"""Published serving measurements against simulations of them: ``python -m tests.truth.public``."""
