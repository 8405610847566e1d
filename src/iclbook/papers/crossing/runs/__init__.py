"""The models that the crossing puts on one footing."""
