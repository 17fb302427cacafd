"""A script without a main guard, whose class is pickled by reference in a worker."""

import pickle
from functools import partial

from actor_driver import Group
from actor_samples import Hosted

from minitune.actor.messages import CallReturned

print("main runs")


class Net:
    def __init__(self, size):
        self.size = size


class Trainer:
    def make(self, size):
        return pickle.loads(pickle.dumps(Net(size)))


group = Group()
group.start_in("a", partial(Hosted, factory=Trainer))
group.wait(None)
group.call("a", "make", 3)
[event] = group.wait(None)
assert isinstance(event, CallReturned), event
print("same class", type(event.value) is Net, event.value.size)
group.shutdown()
