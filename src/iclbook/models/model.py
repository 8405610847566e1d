"""Base class of a new paper's models."""

from torch import Tensor

from ..errors import UserError
from . import module


class Model(module.Model):
    """A module for one run, in the paper's notation: ``add`` its parameters in ``__init__``, in the order in which they are to be drawn."""

    def add(self, name: str, *shape: int, fan_in: float = 0, sd: float = 0, value: float | Tensor = 0.0) -> None:
        """A parameter ``self.name``: uniform within ``1/sqrt(fan_in)``, or normal with deviation ``sd``, or ``value``; two of them are a UserError."""
        if fan_in and sd:
            raise UserError(f"{name} has both fan_in = {fan_in} and sd = {sd}", "Give one distribution.")
        self._add(name, *shape, fan_in=fan_in, sd=sd, value=value)
