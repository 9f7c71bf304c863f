"""Wrappers around environments."""

from jaxmarl_lite.wrappers.batch import BatchWrapper
from jaxmarl_lite.wrappers.log import LogWrapper

__all__ = ["BatchWrapper", "LogWrapper"]
