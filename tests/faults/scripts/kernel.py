"""Executes the file that its argument names as a kernel does it: while a loop runs, in a namespace of its own."""

import asyncio
import sys


async def kernel():
    space = {"__name__": "__main__"}
    with open(sys.argv[1]) as file:
        exec(file.read(), space)
    return space["results"]


print(len(asyncio.run(kernel())))
