"""Command lines with parameters."""

import pytest

from minitune.trainable.command_line import argument_of, read_command


def filled(words, config):
    command, _ = read_command(words)
    return command.filled(config, "/run/trial", 7)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a b", "a b"),
        (0.1, "0.1"),
        (3, "3"),
        (True, "True"),
        (None, "None"),
        ([1, "a", None], '[1, "a", null]'),
        ((1, 2), "[1, 2]"),
        ({"a": True}, '{"a": true}'),
    ],
)
def test_a_value_is_an_argument_as_programs_expect_it(value, text):
    assert argument_of(value) == text


def test_slots_are_filled_and_other_braces_stay():
    words = [
        "train.py",
        "--lr={lr: uniform(0, 1)}",
        "{lr}{n: choice([2])}",
        "{trial_dir}/m-{seed}",
        '{"a": {"b": 1}}',
        "{{lr}}",
        "{{n: 1}}",
        "",
        "{}",
    ]
    assert filled(words, {"lr": 0.1, "n": 2}) == [
        "train.py",
        "--lr=0.1",
        "0.12",
        "/run/trial/m-7",
        '{"a": {"b": 1}}',
        "{lr}",
        "{n: 1}",
        "",
        "{}",
    ]


def test_a_parameter_hides_what_the_trial_would_give():
    assert filled(["{seed: choice([3])}", "{seed}", "{trial_dir}"], {"seed": 3}) == ["3", "3", "/run/trial"]


def test_domains_in_the_words_make_the_space():
    command, space = read_command(["{lr: uniform(0, 1)}", "{act: choice(['a}', \"b\"])}x", "{lr}"])
    assert sorted(space) == ["act", "lr"]
    assert space["act"].categories == ["a}", "b"]
    assert command.filled({"lr": 0.5, "act": "b"}, "/d", 0) == ["0.5", "bx", "0.5"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "a command is needed"),
        (["{lr: uniform(0, 1)}", "{lr: uniform(0, 2)}"], "parameter lr has two domains"),
        (["{rates}{rate: uniform(0, 1)}"], r"parameter rates has no domain \(did you mean 'rate'\?\)"),
        (["{seet}"], r"parameter seet has no domain \(did you mean 'seed'\?\)"),
        (["{lr: uniform(0, 1)"], "the brace is not closed"),
    ],
)
def test_a_command_that_cannot_be_read_is_refused(words, message):
    with pytest.raises(ValueError, match=message):
        read_command(words)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.1", "expected a domain such as"),
        ("uniform", "expected a domain such as"),
        ("a.uniform(0, 1)", "expected a domain such as"),
        ("unifrom(0, 1)", r"there is no domain 'unifrom' \(did you mean 'uniform'\?\)"),
        ("sample_from(1)", "there is no domain 'sample_from'"),
        ("uniform(a, 1)", "arguments of a domain are literals"),
        ("uniform(lower=a, upper=1)", "arguments of a domain are literals"),
        ("choice([open('x')])", "arguments of a domain are literals"),
        ("quniform(0, 1, 2)", r"parameter lr: quniform\(0, 1, 2\): "),
        ("uniform(0)", r"parameter lr: uniform\(0\): "),
        ("uniform(0, 1, mode=3)", r"parameter lr: uniform\(0, 1, mode=3\): "),
        ("uniform(**{'lower': 1})", r"parameter lr: "),
    ],
)
def test_a_domain_that_cannot_be_read_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        read_command([f"{{lr: {text}}}"])


def test_a_domain_takes_arguments_by_place_and_by_name():
    for text in ("uniform(0, 2)", " uniform(lower=0, upper=2) ", "uniform(0, upper=2)"):
        domain = read_command([f"{{lr: {text}}}"])[1]["lr"]
        assert (domain.lower, domain.upper) == (0, 2)
