"""What Tutek and Šnajder (2020) printed, by data set and variant."""

from __future__ import annotations

VARIANTS = ("base", "concat", "tying", "mlm")
KEEPERS = ("base", "residual", "tying", "mlm")


def _drops(*cells: tuple[float, float, float]) -> dict[str, tuple[float, float, float]]:
    """Name F1 with the drops under uniform and permuted attention by variant, as shares of one."""
    return {name: (f1 / 100, un / 100, pm / 100) for name, (f1, un, pm) in zip(VARIANTS, cells, strict=True)}


TABLE1 = {
    ("sst", "additive"): _drops((84.2, 2.8, 5.0), (83.7, 1.9, 4.7), (83.5, 7.0, 18.0), (82.8, 5.9, 15.6)),
    ("sst", "dot"): _drops((84.3, 2.6, 6.5), (84.1, 3.4, 7.4), (83.5, 9.9, 20.0), (82.7, 3.0, 5.4)),
    ("ag", "additive"): _drops((95.9, 2.3, 3.9), (95.9, 1.5, 2.6), (95.0, 3.3, 14.6), (95.2, 1.5, 6.6)),
    ("ag", "dot"): _drops((95.9, 2.3, 3.8), (96.1, 1.9, 3.0), (95.4, 3.0, 12.2), (95.4, 2.0, 5.3)),
    ("20news", "additive"): _drops((90.9, 9.8, 14.1), (91.3, 25.0, 28.2), (91.4, 39.7, 43.2), (91.5, 76.3, 66.0)),
    ("20news", "dot"): _drops((91.1, 35.2, 36.8), (91.0, 40.4, 37.1), (90.9, 37.0, 42.8), (89.1, 79.6, 72.8)),
    ("imdb", "additive"): _drops((88.3, 10.0, 13.4), (88.3, 10.2, 14.0), (87.1, 56.2, 43.3), (87.5, 22.8, 26.5)),
    ("imdb", "dot"): _drops((88.2, 18.6, 22.9), (87.9, 17.2, 20.8), (87.2, 57.7, 45.3), (87.8, 15.3, 18.5)),
}
TABLE6 = {
    ("sst", 2): _drops((84.2, 1.0, 1.2), (84.5, 0.8, 4.6), (84.1, 3.7, 14.5), (84.4, 3.8, 5.9)),
    ("sst", 3): _drops((84.2, 0.7, 0.7), (83.3, 1.3, 1.3), (84.6, 2.7, 13.9), (82.3, 7.3, 18.0)),
    ("ag", 2): _drops((95.7, 0.3, 0.3), (95.9, 1.4, 2.0), (95.5, 3.7, 14.8), (95.6, 1.6, 3.8)),
    ("ag", 3): _drops((95.9, 0.0, 0.1), (95.7, 1.0, 1.6), (95.4, 2.0, 12.8), (95.8, 13.2, 62.5)),
    ("20news", 2): _drops((93.7, 0.9, 5.6), (94.0, 6.3, 11.9), (92.8, 17.5, 25.5), (89.8, 31.6, 35.0)),
    ("20news", 3): _drops((92.0, 0.0, 0.0), (91.5, 30.2, 35.7), (89.0, 30.3, 39.3), (88.5, 17.9, 17.4)),
    ("imdb", 2): _drops((88.4, 3.1, 3.8), (88.9, 7.2, 9.1), (87.6, 51.2, 41.1), (87.4, 14.5, 21.7)),
    ("imdb", 3): _drops((88.5, 1.2, 1.4), (88.8, 5.7, 7.8), (87.9, 7.6, 21.3), (87.1, 87.1, 84.5)),
}


def _named(*cells: float) -> dict[str, float]:
    return dict(zip(KEEPERS, cells, strict=True))


TABLE2 = {  # nats, additive attention
    ("sst", "frequent"): _named(2.324, 5.062, 4.870, 3.662),
    ("sst", "sampled"): _named(2.435, 4.289, 4.216, 3.808),
    ("ag", "frequent"): _named(1.940, 5.467, 4.075, 3.845),
    ("ag", "sampled"): _named(2.078, 4.518, 4.177, 3.980),
    ("20news", "frequent"): _named(1.566, 4.345, 3.985, 3.677),
    ("20news", "sampled"): _named(1.828, 3.843, 3.784, 3.458),
    ("imdb", "frequent"): _named(2.455, 4.998, 5.186, 3.728),
    ("imdb", "sampled"): _named(2.682, 4.366, 4.434, 3.885),
}
TABLE3 = {
    ("sst", "additive"): _named(0.712, 0.685, 0.586, 0.630),
    ("sst", "dot"): _named(0.693, 0.701, 0.600, 0.664),
    ("ag", "additive"): _named(0.887, 0.822, 0.615, 0.695),
    ("ag", "dot"): _named(0.862, 0.876, 0.646, 0.698),
    ("20news", "additive"): _named(0.811, 0.551, 0.577, 0.514),
    ("20news", "dot"): _named(0.687, 0.755, 0.516, 0.482),
    ("imdb", "additive"): _named(0.625, 0.609, 0.533, 0.562),
    ("imdb", "dot"): _named(0.590, 0.608, 0.539, 0.553),
}
