"""One replica of a serving engine as a plain state machine: sequences, KV blocks, scheduler, step planning.

No SimPy here: a replica is told the time. It takes many identical steps at once (a leap) and keeps only sums over its
decoding sequences, so that its cost depends neither on output lengths nor on the batch size.
"""

from capsim.engine.configuration import EngineConfiguration
from capsim.engine.observation import Observation
from capsim.engine.replica import Replica
from capsim.engine.sequence import Sequence

__all__ = ["EngineConfiguration", "Observation", "Replica", "Sequence"]
