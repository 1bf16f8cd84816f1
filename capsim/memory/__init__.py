"""What a replica's memory holds, and how many KV blocks remain."""

from capsim.memory.additions import Additions, Draft, LoraSlots
from capsim.memory.budget import MemoryFit, fit_memory
from capsim.memory.images import Images
from capsim.memory.kv import KvLayout
from capsim.memory.question import MemoryLine
from capsim.memory.weights import weight_bytes

__all__ = [
    "Additions",
    "Draft",
    "Images",
    "KvLayout",
    "LoraSlots",
    "MemoryFit",
    "MemoryLine",
    "fit_memory",
    "weight_bytes",
]
