"""Plain modules, each written for ONE run in the paper's notation; the trainer stacks them."""

from .attention import ACTIVATIONS, Attention, attend
from .recall_transformer import RecallTransformer
from .reduced import ReducedAttention

__all__ = ["ACTIVATIONS", "Attention", "RecallTransformer", "ReducedAttention", "attend"]
