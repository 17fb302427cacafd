"""Domains as objects: their types, bounds, samples; spaces that are built by functions."""

import json

from ray import tune
from ray.tune.search.sample import Categorical, Domain, Float, Function, Integer, Normal, Quantized
from ray.tune.search.variant_generator import format_vars, generate_variants

domains = {
    "uniform": tune.uniform(0, 1),
    "loguniform": tune.loguniform(1e-4, 1e-1),
    "quniform": tune.quniform(0, 10, 2),
    "randint": tune.randint(2, 9),
    "lograndint": tune.lograndint(1, 10),
    "qrandint": tune.qrandint(0, 10, 5),
    "choice": tune.choice(["a", "b"]),
    "randn": tune.randn(1, 2),
    "sample_from": tune.sample_from(lambda config: 1),
}
outcome = {
    "types": {name: type(domain).__name__ for name, domain in domains.items()},
    "isinstance": [
        isinstance(domains["uniform"], Float),
        isinstance(domains["randint"], Integer),
        isinstance(domains["choice"], Categorical),
        isinstance(domains["sample_from"], Function),
        all(isinstance(d, Domain) for d in domains.values()),
    ],
    "bounds": [[domains[n].lower, domains[n].upper] for n in ("uniform", "quniform", "randint", "qrandint")],
    "categories": domains["choice"].categories,
    "valid": [domains["uniform"].is_valid(0.5), domains["uniform"].is_valid(2), domains["choice"].is_valid("c")],
    "strings": [domains[n].domain_str for n in ("uniform", "randint", "choice")],
    "samples": [
        len(domains["uniform"].sample(size=3)),
        isinstance(domains["uniform"].sample(), float),
        isinstance(int(domains["randint"].sample()), int),
        domains["choice"].sample() in ("a", "b"),
    ],
    "samplers": [
        isinstance(domains["quniform"].get_sampler(), Quantized),
        isinstance(domains["randn"].get_sampler(), Normal),
    ],
    "chained": [
        Float(0, 1).uniform().quantized(0.5).sample() in (0, 0.5, 1),
        Integer(0, 3).uniform().sample() in (0, 1, 2),
    ],
    "grid": tune.grid_search([1, 2]),
    "variants": [
        [format_vars(resolved), spec]
        for resolved, spec in generate_variants(
            {"a": tune.grid_search([1, 2]), "b": {"c": tune.grid_search(["x", "y"])}, "d": 0}
        )
    ],
}
wrong = {}
for name, call in {
    "log": lambda: tune.loguniform(0, 1),
    "step": lambda: tune.quniform(0, 1, 0.3),
}.items():
    try:
        call()
        wrong[name] = "fine"
    except Exception as error:
        wrong[name] = type(error).__name__
outcome["wrong"] = wrong
print(json.dumps(outcome))
