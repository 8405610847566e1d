"""Probes of language models (nagy2026, sections 8, 8.2 to 8.5, 9.3 and 9.4), and a ladder of small models of our own to try them on."""
