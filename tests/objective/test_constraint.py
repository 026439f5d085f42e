"""A prediction is kept within a margin, with its decision, or both; what rounding decides is neither sure nor out."""

import pytest
import torch

from diffmask.errors import SettingError
from diffmask.objective.constraint import Constraint, lead_of_decision
from diffmask.types import Bernoulli, Categorical, Value

ORIGINAL = {"label": Categorical(torch.tensor([[1.0, 0.0]]).expand(4, 2))}
SAME, NEAR, OTHER, FAR = [1.0, 0.0], [0.1, 0.0], [0.0, 0.1], [0.0, 4.0]
MASKED = {"label": Categorical(torch.tensor([SAME, NEAR, OTHER, FAR]))}


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        (Constraint(0.2), [True, True, False, False]),
        (Constraint(0.2, decision=False), [True, True, True, False]),
        (Constraint(torch.inf), [True, True, False, False]),
        (Constraint(0.01), [True, False, False, False]),
        (Constraint(0.01, "tv", decision=False), [True, False, False, False]),
    ],
)
def test_a_prediction_is_kept_within_the_margin_and_with_its_decision(constraint, expected):
    assert constraint.holds(ORIGINAL, MASKED).tolist() == expected
    judged = constraint.judge(ORIGINAL, MASKED, 1e-6)
    assert judged.surely.tolist() == judged.maybe.tolist() == expected


def test_what_lies_within_the_slack_may_hold_and_does_not_surely():
    judged = Constraint(torch.inf).judge(ORIGINAL, MASKED, 0.2)  # the second and the third differ by 0.1
    assert judged.surely.tolist() == [True, False, False, False]
    assert judged.maybe.tolist() == [True, True, True, False]
    distance = 0.03  # about what the second diverges by, 0.088, is 0.03 above a margin of 0.06
    judged = Constraint(0.06, decision=False).judge(ORIGINAL, MASKED, distance)
    assert judged.maybe.tolist() == [True, True, False, False] and judged.surely.tolist() == [True, False, False, False]


def test_the_lead_is_the_smallest_over_heads_and_real_positions():
    logits = torch.tensor([[3.0, -0.5, 9.0]])
    real = torch.tensor([[True, True, False]])
    heads = {"tags": Bernoulli(logits, real), "label": Categorical(torch.tensor([[2.0, 0.0]])), "size": Value(logits)}
    assert lead_of_decision(heads, heads).tolist() == pytest.approx([0.5])
    assert lead_of_decision(heads, {**heads, "tags": Bernoulli(-logits, real)}).tolist() == pytest.approx([-3.0])


def test_a_value_decides_nothing():
    value = {"size": Value(torch.tensor([1.0, 2.0]))}
    assert lead_of_decision(value, value).tolist() == [torch.inf] * 2


def test_a_constraint_that_forbids_nothing_or_everything_is_refused():
    with pytest.raises(SettingError, match="forbid nothing: every set keeps the prediction"):
        Constraint(torch.inf, decision=False)
    with pytest.raises(SettingError, match=r"margin must be 0 or more, got -1\.0"):
        Constraint(-1.0)
