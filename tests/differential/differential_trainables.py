"""Trainables whose every step follows from the seed of the experiment, the trial's configuration and its attempt."""

from __future__ import annotations

import concurrent.futures
import datetime
import decimal
import enum
import fractions
import os
import random
import sys
import tempfile
from collections import namedtuple
from dataclasses import dataclass, field

from minitune import Checkpoint, Trainable, get_checkpoint, get_context, report

MAX_LENGTH = 7
MAX_ATTEMPT = 6

# -- what may be reported ----------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


@dataclass(frozen=True)
class Point:
    x: float
    tags: tuple[str, ...] = ()


Pair = namedtuple("Pair", ["first", "second"])
SHARED = [1, 2]

ODD_VALUES = [
    float("nan"),
    float("inf"),
    -float("inf"),
    -0.0,
    1e-320,
    None,
    True,
    Ellipsis,
    NotImplemented,
    (),
    (1, (2.5, (None, ...))),
    [],
    {},
    {1: 2, (3, 4): "x", None: 0},
    {"a/b": {"c/d": 1}},
    {"$": "t", "v": [1]},
    b"\x00\xff",
    "\udc80 lone",
    "\ud83d\ude00 two",
    'text with \'quotes\' "and" {"$": \n',
    10**40,
    -(10**400),
    3 + 4j,
    {1, 2, 3},
    frozenset({4, 5}),
    range(3),
    Colour.RED,
    Level.LOW,
    Point(1.5, ("a",)),
    Pair(1, "two"),
    datetime.date(2020, 1, 2),
    datetime.timedelta(seconds=1.5),
    decimal.Decimal("0.1"),
    fractions.Fraction(1, 3),
    slice(1, 2),
    Point,
    len,
    [SHARED, SHARED],
    bytearray(b"ab"),
    "x" * 20_000,
    ValueError("as a value", 3),
]
KEYS = ["odd", "nested", "a/b", "", "ä", 7, (1, 2), None, "training_iteration", "timesteps_this_iter"]
KEYS += ["timesteps_total", "time_this_iter_s", "timestamp", "trial_id", "config", "pid", "done"]
KEYS += ["should_checkpoint", "experiment_tag", "checkpoint_dir_name"]

# -- how user code may fail --------------------------------------------------------------------------------------------


class OwnError(Exception):
    def __init__(self, code, *, detail=""):
        super().__init__(code)
        self.code, self.detail = code, detail

    def __str__(self):
        return f"own error {self.code} ({self.detail})"


class StubbornError(Exception):
    """Cannot be pickled."""

    def __reduce__(self):
        raise TypeError("no")


class KeywordOnlyError(Exception):
    """Is pickled, but cannot be loaded."""

    def __init__(self, *, reason):
        super().__init__(reason)


class MuteError(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class OwnBaseError(BaseException):
    pass


def _chained():
    try:
        raise KeyError("inner")
    except KeyError as error:
        raise OwnError(7, detail="chained") from error


def _in_context():
    try:
        _ = 1 // 0
    except ZeroDivisionError:
        raise LookupError  # noqa: B904 - the context is what is tested


def _raise(error):
    raise error


FAILURES = {
    "value": lambda: _raise(ValueError("bad value")),
    "own": lambda: _raise(OwnError(3, detail="of ours")),
    "stubborn": lambda: _raise(StubbornError("stays here")),
    "keyword only": lambda: _raise(KeywordOnlyError(reason="why")),
    "mute": lambda: _raise(MuteError()),
    "own base": lambda: _raise(OwnBaseError("base")),
    "chained": _chained,
    "context": _in_context,
    "assertion": lambda: _raise(AssertionError()),
    "memory": lambda: _raise(MemoryError("much")),
    "exit 3": lambda: sys.exit(3),
    "exit text": lambda: sys.exit("with a text"),
    "interrupt": lambda: _raise(KeyboardInterrupt()),
    "cancelled": lambda: _raise(concurrent.futures.CancelledError()),
    "lines": lambda: _raise(RuntimeError("first line\nsecond line\n")),
    "long": lambda: _raise(RuntimeError("y" * 300_000)),
    "os": lambda: os.stat("/does/not/exist"),
    "unicode": lambda: _raise(RuntimeError("\udc80\u2028")),
}
CLEAN_ENDS = {
    "exit 0": lambda: sys.exit(0),
    "exit": lambda: sys.exit(),
    "stop iteration": lambda: _raise(StopIteration("of no interest")),
}


# -- what a trial does -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Failure:
    """Where and how an attempt fails: `where` is a place in the trainable, `step` the number of the step there."""

    where: str
    step: int
    how: str

    def strike(self, where, step=0):
        if where == self.where and step == self.step:
            FAILURES[self.how]()


_NONE = Failure("nowhere", 0, "")


@dataclass(frozen=True)
class Behaviour:
    """What one trial does, in all its attempts."""

    seed: str
    length: int
    checkpoint_every: int
    end: str
    shape: str
    unwinding: str
    odd_share: float
    failures: dict[int, Failure] = field(default_factory=dict)

    @classmethod
    def of(cls, config):
        """Draw the behaviour of the trial with this configuration."""
        habits = config["habits"]
        seed = f"{habits['seed']}/{config['salt']}"
        rng = random.Random(seed)
        length = rng.randint(0 if rng.random() < 0.1 else 1, MAX_LENGTH)
        failures = {}
        for attempt in range(1, MAX_ATTEMPT):
            if rng.random() < habits["failure_share"]:
                step = rng.randint(0, max(0, length - 1))
                failures[attempt] = Failure(rng.choice(habits["places"]), step, rng.choice(sorted(FAILURES)))
        return cls(
            seed=seed,
            length=length,
            checkpoint_every=habits["checkpoint_every"],
            end=rng.choice(habits["ends"]),
            shape=rng.choice(("dict", "directory", "none", "nested")),
            unwinding=rng.choice(("quiet", "quiet", "raises", "reports", "swallows")),
            odd_share=rng.choice((0.0, 0.2, 0.6)),
            failures=failures,
        )

    def failure(self):
        """How the current attempt is to fail."""
        return self.failures.get(get_context().get_attempt() or 0, _NONE)

    def saves(self, step):
        return bool(self.checkpoint_every) and (step + 1) % self.checkpoint_every == 0

    def metrics(self, step, config, extra):
        """What step number `step` has to say."""
        rng = random.Random(f"{self.seed}/{step}")
        context = get_context()
        metrics = {
            "score": rng.choice((rng.gauss(0, 1), rng.gauss(0, 1), rng.gauss(0, 1), float("nan"), 1)),
            "step": step,
            "x": config["x"],
            "extra": extra,
            "attempt": context.get_attempt(),
            "from": os.path.basename(getattr(get_checkpoint(), "path", "")),
            "eval": {"loss": rng.random() + config["x"], "deep": {"tuple": (step, [rng.random()], ...)}},
        }
        while rng.random() < self.odd_share:
            key = rng.choice(KEYS)
            metrics[key] = rng.choice(ODD_VALUES) if rng.random() < 0.5 or not isinstance(key, str) else step + 2
        if rng.random() < 0.05:
            metrics["about"] = (context.get_trial_name(), context.get_trial_seed(), context.get_trial_resources())
        chance = rng.random()
        if chance < 0.03:
            del metrics["score"]
        elif chance < 0.06:
            metrics["score"] = rng.choice(ODD_VALUES)
        elif chance < 0.08:
            metrics["eval"]["loss"] = rng.choice(ODD_VALUES)
        if self.end == "done" and step == self.length - 1:
            metrics["done"] = True
        elif metrics.get("done") is not None and rng.random() < 0.7:
            metrics["done"] = False
        return metrics


def write_state(directory, step, shape):
    with open(os.path.join(directory, "step.txt"), "w") as file:
        file.write(str(step))
    if shape == "nested":
        os.makedirs(os.path.join(directory, "sub", "empty"))
        with open(os.path.join(directory, "sub", "data.bin"), "wb") as binary:
            binary.write(bytes(step for _ in range(1000)))


def read_state(directory):
    with open(os.path.join(directory, "step.txt")) as file:
        return int(file.read())


# -- functions ---------------------------------------------------------------------------------------------------------


def _begin(behaviour, failure):
    """The first step of this attempt."""
    failure.strike("start", failure.step)
    checkpoint = get_checkpoint()
    if checkpoint is None:
        return 0
    failure.strike("load", failure.step)
    return read_state(checkpoint.path) + 1


def _report(behaviour, failure, step, metrics):
    """Report, with a checkpoint if one is due; what a wrong report raises is sometimes caught."""
    failure.strike("step", step)
    if failure.where == "wrong report" and failure.step == step:
        wrong = [["no dict"], {"score": lambda: 0}, {"score": sys.stderr}, None][step % 4]
        try:
            report(wrong)
        except Exception:
            if len(behaviour.seed) % 2:
                raise
    if failure.where == "save" and failure.step == step:
        report(metrics, checkpoint=Checkpoint("/does/not/exist"))
    if behaviour.saves(step):
        with tempfile.TemporaryDirectory() as directory:
            write_state(directory, step, behaviour.shape)
            report(metrics, checkpoint=Checkpoint.from_directory(directory))
    else:
        report(metrics)
    _change(metrics)


def _change(metrics):
    """What the trainable does to its metrics after they were reported must reach no one."""
    metrics["score"] = "changed after the report"
    metrics["eval"]["loss"] = "changed after the report"
    metrics["eval"]["deep"]["tuple"][1].append("changed after the report")


def _unwind(behaviour, failure):
    if behaviour.unwinding == "raises":
        raise RuntimeError("raised while unwinding")
    if behaviour.unwinding == "reports":
        report({"score": 0.0, "late": True})


def _finish(behaviour):
    """How the function ends once it has done all its steps."""
    if behaviour.end in CLEAN_ENDS:
        CLEAN_ENDS[behaviour.end]()
    values = {"number": 0.5, "zero": 0.0, "dict": {"score": 3.5, "last": True}, "empty": {}, "text": "wrong"}
    values |= {"list": [1], "true": True, "done dict": {"score": 1.0, "done": True}, "complex": 2j}
    return values.get(behaviour.end)


def function(config, extra=None):
    behaviour = Behaviour.of(config)
    failure = behaviour.failure()
    try:
        for step in range(_begin(behaviour, failure), behaviour.length):
            config["x"] += 1  # the configuration is the trial's own
            try:
                _report(behaviour, failure, step, behaviour.metrics(step, config, extra))
            except BaseException:
                if behaviour.unwinding != "swallows" or failure.where == "step":
                    raise
    finally:
        if behaviour.unwinding in ("raises", "reports") and sys.exc_info()[0] is not None:
            _unwind(behaviour, failure)
    failure.strike("end", failure.step)
    return _finish(behaviour)


def generator(config, extra=None):
    behaviour = Behaviour.of(config)
    failure = behaviour.failure()
    try:
        for step in range(_begin(behaviour, failure), behaviour.length):
            metrics = behaviour.metrics(step, config, extra)
            if behaviour.saves(step) or failure.where in ("wrong report", "save"):
                _report(behaviour, failure, step, metrics)
            else:
                failure.strike("step", step)
                yield step / 2 if step % 5 == 4 else metrics
                _change(metrics)
    finally:
        if behaviour.unwinding == "raises" and sys.exc_info()[0] is not None:
            _unwind(behaviour, failure)
    failure.strike("end", failure.step)
    if behaviour.end in ("text", "list"):
        yield _finish(behaviour)
    return _finish(behaviour)


# -- classes -----------------------------------------------------------------------------------------------------------


class Unsaved(Trainable):
    """A class that has no checkpoints."""

    def setup(self, config, extra=None):
        config["x"] -= 1  # it is a copy
        self.extra = extra
        self.makings = 1
        self.start()

    def start(self):
        self.behaviour = Behaviour.of(self.config)
        self.failure = self.behaviour.failure()
        self.at = 0
        self.reported = None
        self.failure.strike("start", self.failure.step)

    def step(self):
        step, self.at = self.at, self.at + 1
        if self.reported is not None:
            _change(self.reported)
        self.failure.strike("step", step)
        if self.failure.where == "wrong report" and self.failure.step == step:
            return [None, "text", [1], {"score": lambda: 0}][step % 4]
        if step >= self.behaviour.length:
            self.failure.strike("end", self.failure.step)
            if self.behaviour.end in CLEAN_ENDS:
                CLEAN_ENDS[self.behaviour.end]()
            return {"score": float(step), "done": True}
        metrics = self.behaviour.metrics(step, self.config, self.extra)
        metrics["makings"] = self.makings if self.config["habits"]["counts_makings"] else None
        metrics["seen"] = (self.iteration, self.training_iteration, self.trial_id, self.trial_name, self.logdir)
        if self.behaviour.saves(step):
            metrics["should_checkpoint"] = True
        self.reported = metrics
        return metrics

    def log_result(self, result):
        if self.behaviour.shape == "nested":
            result["logged"] = True

    def cleanup(self):
        if self.behaviour.unwinding == "raises":
            raise RuntimeError("raised by cleanup")


class Saved(Unsaved):
    def save_checkpoint(self, checkpoint_dir):
        step = self.at - 1
        self.failure.strike("save", step)
        if self.failure.where == "wrong save" and self.failure.step == step:
            return ["/somewhere/else", 3, [1], ""][step % 4]
        if self.behaviour.shape == "dict":
            return {"step": step, "values": [0.5] * step}
        write_state(checkpoint_dir, step, self.behaviour.shape)
        return checkpoint_dir if self.behaviour.shape == "directory" else None

    def load_checkpoint(self, checkpoint):
        self.failure.strike("load", self.failure.step)
        self.at = (checkpoint["step"] if isinstance(checkpoint, dict) else read_state(checkpoint)) + 1


class Resettable(Saved):
    """Can be handed on to another trial; refuses now and then, in each of the ways."""

    def reset_config(self, new_config):
        answer = random.Random(f"{new_config['habits']['seed']}/{new_config['salt']}/reset").random()
        if answer < 0.2:
            return False
        if answer < 0.3:
            raise RuntimeError("cannot be reset")
        self.makings += 1
        self.config = new_config
        self.start()
        return True


KINDS = {
    "function": function,
    "generator": generator,
    "unsaved class": Unsaved,
    "class": Saved,
    "resettable class": Resettable,
}
