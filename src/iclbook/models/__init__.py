"""Plain modules, each written for ONE run in the paper's notation; the trainer stacks them."""

from .attention import ACTIVATIONS, Attention, ReducedAttention, attend
from .model import Model
from .recall_transformer import RecallTransformer
