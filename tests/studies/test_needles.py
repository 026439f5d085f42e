import torch

from diffmask.studies.needles import CITIES, Prompt, draw_prompts, kept, ranks, summarise, uses_needle
from diffmask.tasks.units import Kept

PROMPT = Prompt((("Anna", "Rome"), ("Tom", "Oslo"), ("Emma", "Cairo")), needle=1)


def test_a_prompt_tells_every_fact_and_asks_for_one():
    assert PROMPT.segments[:3] == ["Anna lives in Rome.", "Tom lives in Oslo.", "Emma lives in Cairo."]
    assert isinstance(PROMPT.segments[3], Kept) and "Where does Tom live?" in PROMPT.segments[3]
    assert not any(isinstance(segment, Kept) for segment in PROMPT.segments[:3])
    assert PROMPT.answer == "Oslo"


def test_changing_a_fact_changes_only_its_city():
    assert PROMPT.changed(1, "Paris").answer == "Paris"
    assert PROMPT.changed(0, "Paris").facts == (("Anna", "Paris"), *PROMPT.facts[1:])


def test_prompts_have_different_people_and_cities_and_repeat_with_their_seed():
    prompts = draw_prompts(50, 6, seed=3)
    assert prompts == draw_prompts(50, 6, seed=3) != draw_prompts(50, 6, seed=4)
    assert all(len(set(names)) == 6 for p in prompts for names in zip(*p.facts, strict=True))
    assert {p.needle for p in prompts} == set(range(6))


def number(words):
    return torch.tensor([CITIES.index(word) if word in CITIES else -1 for word in words])


def test_a_model_that_reads_the_needle_uses_it():
    assert uses_needle([PROMPT], lambda some: number([p.answer for p in some]), number) == [True]


def test_a_model_that_reads_the_last_fact_does_not_use_the_needle():
    assert uses_needle([PROMPT], lambda some: number([p.facts[-1][1] for p in some]), number) == [False]


def test_a_model_that_another_fact_can_mislead_does_not_use_the_needle():
    def says(prompts):
        return number([p.answer if p.facts[2][1] == "Cairo" else p.facts[2][1] for p in prompts])

    assert uses_needle([PROMPT], says, number) == [False]


def test_the_rank_counts_what_scores_higher_and_half_of_what_ties():
    scores = [torch.tensor([0.1, 0.9, 0.2]), torch.tensor([0.5, 0.5, 0.1]), torch.tensor([0.3, 0.1, 0.2])]
    found = ranks(scores, [PROMPT] * 3)
    assert found["rank"] == (1 + 1.5 + 3) / 3 and found["first"] == 1 / 3


def test_kept_counts_sentences_and_needles():
    found = kept([torch.tensor([0.9, 0.8, 0.1]), torch.tensor([0.9, 0.2, 0.1])], [PROMPT] * 2)
    assert found == {"kept": 1.5, "needle_kept": 0.5}


def test_the_summary_takes_the_probe_at_its_last_depth():
    rows = [
        {"seed": 0, "method": "probe", "depth": d, "rank": r, "first": 0, "kept": 1, "needle_kept": 1}
        for d, r in ((0, 5), (3, 2))
    ]
    rows.append({"seed": 0, "method": "leave-one-out", "depth": 0, "rank": 3, "first": 0})
    assert summarise(rows)["probe_rank"] == 2 and summarise(rows)["leave_one_out_rank"] == 3
