"""Rows that are unlike those that were learned: how strange, how probable, which columns.

>>> from kernelstream.novelty import KernelNovelty
>>> KernelNovelty(alpha=0.01).alpha
0.01
"""

from kernelstream.novelty.estimator import KernelNovelty

__all__ = ["KernelNovelty"]
