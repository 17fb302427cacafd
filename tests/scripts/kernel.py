"""Executes the file that its argument names as a kernel executes a cell: while a loop runs, from lines of no file."""

import asyncio
import linecache
import sys


async def kernel():
    with open(sys.argv[1]) as file:
        cell = file.read()
    name = "/nowhere/ipykernel_1/23.py"
    linecache.cache[name] = (len(cell), None, cell.splitlines(True), name)
    exec(compile(cell, name, "exec"), globals())


asyncio.run(kernel())
