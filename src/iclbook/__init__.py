"""Executable reproductions of five papers on how attention learns in context."""
