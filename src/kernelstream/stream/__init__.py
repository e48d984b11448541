"""Stream: buffered rows, learned state, and operations on both."""

from kernelstream.stream.components import Components
from kernelstream.stream.holdout import HeldBack
from kernelstream.stream.scaling import ColumnScales, Scaling, Standardisation
from kernelstream.stream.state import Rows, State
from kernelstream.stream.step import Chain
from kernelstream.stream.stream import Stream

__all__ = [
    "Chain",
    "ColumnScales",
    "Components",
    "HeldBack",
    "Rows",
    "Scaling",
    "Standardisation",
    "State",
    "Stream",
]
