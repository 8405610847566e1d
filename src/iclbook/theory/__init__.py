"""Closed forms and deterministic evaluations, one package per document; no plotting and no training."""
