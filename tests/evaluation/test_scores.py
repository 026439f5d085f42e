"""Accuracy and macro F1 against a confusion matrix counted by hand."""

import pytest
import torch

from diffmask.evaluation.scores import accuracy, macro_f1

# Rows are labels, columns answers.
CONFUSION = [[4, 1, 0], [2, 3, 1], [0, 0, 5]]


def listed(confusion):
    """Return answers and labels that make up a confusion matrix, shuffled."""
    pairs = [(answer, label) for label, row in enumerate(confusion) for answer, n in enumerate(row) for _ in range(n)]
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(0))
    answers, labels = torch.tensor(pairs)[order].T
    return answers, labels


def test_accuracy_is_the_share_of_the_diagonal():
    assert accuracy(*listed(CONFUSION)) == pytest.approx(12 / 16)


def test_macro_f1_is_the_mean_over_labels_of_precision_with_recall():
    f1 = []
    for label in range(3):
        precision = CONFUSION[label][label] / sum(row[label] for row in CONFUSION)
        recall = CONFUSION[label][label] / sum(CONFUSION[label])
        f1.append(2 * precision * recall / (precision + recall))
    assert f1 == pytest.approx([8 / 11, 6 / 10, 10 / 11])
    assert macro_f1(*listed(CONFUSION)) == pytest.approx(sum(f1) / 3)


def test_a_label_that_is_never_answered_counts_as_0():
    assert macro_f1(torch.tensor([0, 0, 0, 0]), torch.tensor([0, 0, 0, 1])) == pytest.approx((6 / 7 + 0) / 2)


def test_an_answer_that_is_nobodys_label_is_no_label_but_still_wrong():
    assert macro_f1(torch.tensor([0, 2]), torch.tensor([0, 0])) == pytest.approx(2 / 3)


def test_all_right_is_1_and_all_wrong_0():
    labels = torch.tensor([0, 1, 2, 1])
    assert accuracy(labels, labels) == macro_f1(labels, labels) == 1
    assert accuracy(labels + 1, labels) == macro_f1(labels + 1, labels) == 0


def test_f1_does_not_count_a_frequent_label_more():
    labels = torch.tensor([0] * 98 + [1] * 2)
    answers = torch.zeros(100, dtype=torch.long)
    assert accuracy(answers, labels) == pytest.approx(0.98) and macro_f1(answers, labels) < 0.5
