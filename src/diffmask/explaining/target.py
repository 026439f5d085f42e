"""What an explanation is asked about. A mask keeps the whole prediction, so the answer must be what is predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import SettingError
from ..explanation import Explanation, Labels, is_value
from ..registry import unknown

PREDICTED = "predicted"
Target = int | str | tuple[int, int] | None  # an index, a label or "predicted", a span, or nothing in particular


def check_targets(found: Sequence[Explanation], target: Target | Sequence[Target], first: int = 0) -> None:
    """Refuse a target that the model does not predict: a probe has nothing to say about it.

    Errors count examples from `first` on.
    """
    for number, (explanation, asked) in enumerate(zip(found, each(target, len(found)), strict=True), first):
        if asked is None or asked == PREDICTED:
            continue
        assert explanation.verification is not None  # whoever asks has verified
        _check(number, asked, explanation.verification.original, explanation.info.get("labels"))


def each(target: Target | Sequence[Target], count: int) -> list[Target]:
    """Give every example its target: a list names one each, anything else counts for all."""
    if not isinstance(target, list):
        return [target] * count  # type: ignore[list-item]
    if len(target) != count:
        raise SettingError(f"{len(target)} targets were given for {count} examples: name one each, or one for all")
    return target


def _check(number: int, asked: Target, predicted: Mapping[str, Any], labels: Labels | None) -> None:
    if isinstance(asked, tuple):
        _check_span(number, asked, predicted)
        return
    known: Mapping[str, Any] = predicted or {"value": 0.0}  # earlier versions did not write values down
    (head, decided), *others = known.items()
    if others:
        raise SettingError(
            f"the model predicts {' and '.join(predicted)}: name a span, (start, end), or leave target at '{PREDICTED}'"
        )
    if is_value(decided):
        raise SettingError(f"the model predicts a value and no label: leave target at '{PREDICTED}'")
    if isinstance(decided, list):
        _check_step(asked, head, decided)
    elif isinstance(labels, Mapping):
        _check_token(number, asked, decided, labels[str(decided)])
    elif (index := label_index(asked, labels)) != decided:
        raise SettingError(_other(number, _named(index, labels), _named(decided, labels)))


def _check_token(number: int, asked: Target, decided: int, name: str) -> None:
    """Accept a token as it reads, with or without the space before it, or by its index."""
    if str(asked).strip() not in (name.strip(), str(decided)):
        raise SettingError(_other(number, f"'{asked}'", f"'{name}'"))


def label_index(asked: Target, labels: Sequence[str] | None) -> int:
    """Turn a label as a person writes it, its number or its name, into an index."""
    if not isinstance(asked, int | str):
        raise SettingError(f"a target is a label's name or number, got {type(asked).__name__}: pass its name or int(…)")
    if labels is not None and asked in labels:
        return list(labels).index(str(asked))
    if isinstance(asked, int) or (isinstance(asked, str) and asked.isdecimal()):
        index = int(asked)
        if index < 0 or (labels is not None and index >= len(labels)):
            known = f": the model knows {', '.join(labels)}" if labels is not None else ""
            raise SettingError(f"there is no label {index}{known}, counted from 0")
        return index
    raise SettingError(unknown("label", str(asked), [*(labels or ["0, 1, …"]), PREDICTED]))


def _check_span(number: int, asked: tuple[int, int], predicted: Mapping[str, Any]) -> None:
    if set(predicted) != {"start", "end"}:
        raise SettingError(
            f"the model predicts {', '.join(predicted) or 'a value'}, no span: leave target at '{PREDICTED}'"
        )
    found = predicted["start"], predicted["end"]
    if found != asked:
        raise SettingError(_other(number, f"the span {asked[0]}:{asked[1]}", f"{found[0]}:{found[1]}"))


def _check_step(asked: Target, head: str, decided: Sequence[Any]) -> None:
    """Accept a step only where there is one: the distributions of all steps are kept together."""
    if any(isinstance(answer, bool) for answer in decided):
        raise SettingError(
            f"the model says yes or no to each of its {len(decided)} labels and a probe keeps all of these answers: "
            f"leave target at '{PREDICTED}'"
        )
    step = int(asked) if isinstance(asked, int) or (isinstance(asked, str) and asked.isdecimal()) else -1
    if not 0 <= step < len(decided):
        raise SettingError(f"there is no step '{asked}': the model predicts {len(decided)} for {head}, counted from 0")
    if len(decided) > 1:
        other = ", or fit one with NextToken to what stands before that step" if head == "continuation" else ""
        raise SettingError(
            f"a probe keeps all {len(decided)} steps of {head} together and cannot tell step {step} from the others: "
            f"leave target at '{PREDICTED}'{other}"
        )


def _other(number: int, asked: str, predicted: str) -> str:
    return (
        f"example {number} was asked about {asked} and the model predicts {predicted}: a probe explains what is "
        f"predicted, so leave target at '{PREDICTED}', or take a method for other labels, e.g. integrated-gradients"
    )


def _named(index: int, labels: Sequence[str] | None) -> str:
    return f"'{labels[index]}'" if labels is not None and index < len(labels) else str(index)


def parse(text: str) -> Target:
    """Read a target as it is typed: a number, a span such as 3:5, or a name.

    >>> parse("3:5"), parse("1"), parse("positive")
    ((3, 5), 1, 'positive')
    """
    start, colon, end = text.partition(":")
    if colon and start.isdecimal() and end.isdecimal():
        return int(start), int(end)
    return int(text) if text.isdecimal() else text
