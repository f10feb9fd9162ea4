import pytest
from pydantic import ValidationError

from invariance.recipes.schedules import Clock, Constant, Decay, Drop, Steps, ramp

STEPS, SWITCH = 100, 40


def at(step: int) -> Clock:
    return Clock(step, STEPS, SWITCH)


def test_the_penalty_is_annealed_from_the_switch_on():
    assert [at(step).annealed for step in (0, SWITCH - 1, SWITCH, STEPS - 1)] == [False, False, True, True]


def test_the_share_of_a_run_starts_at_zero_and_stays_below_one():
    assert at(0).share == 0
    assert at(25).share == 0.25
    assert at(STEPS - 1).share < 1


def test_constant_is_one_at_the_start_the_switch_and_the_end():
    assert [Constant()(at(step)) for step in (0, SWITCH, STEPS - 1)] == [1, 1, 1]


def test_ramp_rises_in_equal_steps_and_stays_at_one():
    factors = [ramp(at(step), 0.05) for step in range(6)]  # over 5 of 100 updates
    assert factors == pytest.approx([0.2, 0.4, 0.6, 0.8, 1, 1])
    assert [ramp(at(step), 0.05) for step in (SWITCH, STEPS - 1)] == [1, 1]


def test_a_ramp_of_no_length_is_constant():
    assert [ramp(at(step), 0) for step in (0, SWITCH, STEPS - 1)] == [1, 1, 1]


def test_steps_multiply_at_each_share():
    steps = Steps(at=(0.4, 0.75), factor=0.1)
    assert [steps(at(step)) for step in (0, 39, 40, 74, 75, 99)] == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])


def test_decay_starts_to_fall_at_the_switch_and_reaches_zero_after_the_last_update():
    decay = Decay()
    assert [decay(at(step)) for step in (0, SWITCH - 1, SWITCH)] == [1, 1, 1]
    assert decay(at(70)) == pytest.approx(0.5)
    assert decay(at(STEPS - 1)) == pytest.approx(1 / 60)
    assert decay(at(STEPS)) == 0


def test_drop_falls_to_its_factor_at_the_switch_and_from_there_to_zero():
    drop = Drop(factor=0.4)
    assert [drop(at(step)) for step in (0, SWITCH - 1, SWITCH)] == [1, 1, 0.4]
    assert drop(at(70)) == pytest.approx(0.2)
    assert drop(at(STEPS)) == 0


def test_decay_stays_at_one_where_the_penalty_never_sets_in():
    assert [Decay()(Clock(step, STEPS, STEPS)) for step in (0, STEPS - 1)] == [1, 1]


@pytest.mark.parametrize("bad", [{"factor": 0}, {"factor": -0.1}, {"fuctor": 0.1}])
def test_a_drop_refuses_what_is_not_a_factor(bad):
    with pytest.raises(ValidationError):
        Drop(**bad)
