"""Seconds of one step: stated, computed from data sheets, or measured."""

from capsim.cost.constant import ConstantCost
from capsim.cost.efficiency import Efficiency
from capsim.cost.linear import LinearCost
from capsim.cost.profile import ProfileCost
from capsim.cost.profile_file import load_profile
from capsim.cost.profile_tables import Operator, Profile
from capsim.cost.roofline import RooflineCost
from capsim.cost.shape import BatchShape, Chunk
from capsim.cost.step import UNBOUNDED, Factor, Line, StepCost

__all__ = [
    "UNBOUNDED",
    "BatchShape",
    "Chunk",
    "ConstantCost",
    "Efficiency",
    "Factor",
    "Line",
    "LinearCost",
    "Operator",
    "Profile",
    "ProfileCost",
    "RooflineCost",
    "StepCost",
    "load_profile",
]
