"""Prints the configurations of a space."""

import json

from kit import basic, configs

from minitune.space import choice, grid_search, lograndint, randn

space = {"a": grid_search([1, 2]), "b": choice({"x", "y", "z"}), "c": randn(), "d": lograndint(1, 10**6)}
print(json.dumps(configs(basic(space, 4))))
