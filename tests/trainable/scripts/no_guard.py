"""A script without a main guard, whose trial uses signals and asyncio."""

print("main runs")
import asyncio
import signal
import threading

from minitune import RunConfig, Tuner


def trainable(config):
    assert threading.current_thread() is threading.main_thread()
    signal.signal(signal.SIGUSR1, lambda *args: None)

    async def answer():
        return 42

    return {"y": asyncio.run(answer())}


print(Tuner(trainable, run_config=RunConfig(verbose=0)).fit()[0].metrics["y"])
