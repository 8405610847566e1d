"""What the trainer does most of the time, in C: numbers by counter, gradients of attention, Adam. Compiled where it is first needed."""
