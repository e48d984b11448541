"""What these tests share with those of the library: profiles of Hypothesis, and a fixture."""

from tests.conftest import ctrl_c_is_heard

__all__ = ["ctrl_c_is_heard"]
