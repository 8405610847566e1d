"""Closed forms and deterministic evaluations, one family of files per document; no plotting and no training."""
