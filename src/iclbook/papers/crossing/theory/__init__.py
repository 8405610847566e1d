"""What each paper's law predicts on the others' models."""
