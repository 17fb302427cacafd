"""A driver that may have few files open: the run ends, no trial is to blame, and a resume finishes it."""

from pathlib import Path

import pytest

RUN = Path(__file__).with_name("scripts") / "few_descriptors.py"


@pytest.mark.parametrize(
    ("limit", "worker", "start_method"),
    [(14, "fresh", "zygote"), (40, "fresh", "zygote"), (40, "reused", "zygote"), (14, "fresh", "interpreter")],
)
def test_too_many_open_files_end_the_run_and_a_resume_finishes_it(script, limit, worker, start_method):
    options = {"MINITUNE_NUM_CPUS": "24", "MINITUNE_START_METHOD": start_method}
    driver = script.start(RUN, str(limit), "24", worker, **options)
    stdout, stderr = script.finish(driver)
    assert (driver.returncode, stdout) == (1, ""), stderr
    last = stderr.splitlines()[-1]
    assert "Too many open files" in last
    assert f"ulimit -n, now {limit}" in last
    assert "Tuner.restore(" in last
    driver = script.start(RUN, "1024", "24", worker, **options)
    stdout, stderr = script.finish(driver)
    assert stdout == "24 0\n", stderr
