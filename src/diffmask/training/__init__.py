"""⑥ Finding the mask. Start reading at step.py."""
