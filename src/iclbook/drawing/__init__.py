"""Drawing: the style that every figure of the book shares, and what a page keeps of a figure."""
