"""How it is searched and trained: data, trainer, reward, controller, sampler, search."""
