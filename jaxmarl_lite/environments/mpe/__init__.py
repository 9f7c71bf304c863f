"""Multi-agent particle environments, equal step for step to mpe2 1.1.1."""
