"""Closed forms of "On Understanding Attention-Based In-Context Learning for Categorical Data", one file per subject, float64 torch."""
