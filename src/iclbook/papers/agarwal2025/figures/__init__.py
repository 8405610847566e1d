"""Figures of agarwal2025."""
