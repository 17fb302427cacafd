"""A program that prints before and after its report."""

from minitune import report

print("before")
report({"loss": 1})
print("after")
