"""What Meister et al. (2021) printed: their tables, by data set, encoder and projection."""

from __future__ import annotations

ENCODERS = ("bilstm", "transformer")
KINDS = ("gradient-inputs", "left-out-inputs", "gradient-states", "left-out-states")
_ORDER = [("bilstm", "softmax"), ("bilstm", "sparsemax"), ("transformer", "softmax"), ("transformer", "sparsemax")]


def _by_setting(**columns: tuple[float, ...]) -> dict[tuple[str, str, str], float]:
    """Name the cells of a table by data set, encoder and projection."""
    names = {"imdb": "imdb", "news": "20news", "sst": "sst"}
    return {
        (names[column], *setting): value
        for column, values in columns.items()
        for setting, value in zip(_ORDER, values, strict=True)
    }


TABLE1 = _by_setting(imdb=(0.71, 0.72, 0.76, 0.72), news=(0.75, 0.68, 0.48, 0.46), sst=(0.93, 0.91, 0.73, 0.63))
TABLE1_SD = _by_setting(imdb=(0.09, 0.10, 0.08, 0.09), news=(0.12, 0.12, 0.06, 0.06), sst=(0.05, 0.07, 0.09, 0.08))
TABLE2 = {
    ("imdb", "bilstm"): -0.935,
    ("20news", "bilstm"): -0.675,
    ("sst", "bilstm"): -0.866,
    ("imdb", "transformer"): -0.830,
    ("20news", "transformer"): -0.409,
    ("sst", "transformer"): -0.810,
}
TABLE3 = {
    ("imdb", "transformer"): 0.89,
    ("20news", "transformer"): 0.91,
    ("sst", "transformer"): 0.79,
    ("imdb", "bilstm"): 0.90,
    ("20news", "bilstm"): 0.91,
    ("sst", "bilstm"): 0.82,
}
# divergence, accuracy, change of accuracy; they do not say which projection the base had
TABLE5 = {
    ("imdb", "bilstm", "frozen"): (0.67, 0.76, -0.14),
    ("sst", "bilstm", "frozen"): (0.62, 0.76, -0.06),
    ("20news", "bilstm", "frozen"): (0.67, 0.78, -0.13),
    ("imdb", "bilstm", "unfrozen"): (0.67, 0.90, 0.00),
    ("sst", "bilstm", "unfrozen"): (0.61, 0.82, 0.00),
    ("20news", "bilstm", "unfrozen"): (0.67, 0.91, 0.00),
    ("imdb", "transformer", "frozen"): (0.62, 0.71, -0.18),
    ("sst", "transformer", "frozen"): (0.57, 0.76, -0.03),
    ("20news", "transformer", "frozen"): (0.62, 0.87, -0.03),
    ("imdb", "transformer", "unfrozen"): (0.64, 0.87, -0.02),
    ("sst", "transformer", "unfrozen"): (0.57, 0.78, -0.01),
    ("20news", "transformer", "unfrozen"): (0.62, 0.92, 0.01),
}
TABLE6 = {
    "gradient-inputs": _by_setting(
        imdb=(0.36, 0.31, 0.67, 0.44), news=(0.24, 0.25, 0.54, 0.47), sst=(0.25, 0.45, 0.72, 0.67)
    ),
    "left-out-inputs": _by_setting(
        imdb=(0.31, 0.25, 0.20, 0.21), news=(0.17, 0.23, 0.05, 0.14), sst=(0.35, 0.34, 0.33, 0.30)
    ),
    "gradient-states": _by_setting(
        imdb=(0.77, 0.98, 0.76, 0.92), news=(0.78, 0.98, 0.62, 0.76), sst=(0.80, 0.97, 0.89, 0.88)
    ),
    "left-out-states": _by_setting(
        imdb=(0.79, 0.98, 0.10, 0.19), news=(0.70, 0.99, 0.05, 0.15), sst=(0.49, 0.98, 0.16, 0.25)
    ),
}
TABLE6_SD = {  # over documents
    "gradient-inputs": _by_setting(
        imdb=(0.12, 0.08, 0.08, 0.08), news=(0.24, 0.13, 0.11, 0.10), sst=(0.28, 0.13, 0.11, 0.12)
    ),
    "left-out-inputs": _by_setting(
        imdb=(0.08, 0.06, 0.10, 0.09), news=(0.17, 0.09, 0.10, 0.15), sst=(0.18, 0.15, 0.20, 0.23)
    ),
    "gradient-states": _by_setting(
        imdb=(0.05, 0.02, 0.04, 0.05), news=(0.15, 0.06, 0.13, 0.15), sst=(0.13, 0.06, 0.07, 0.11)
    ),
    "left-out-states": _by_setting(
        imdb=(0.05, 0.02, 0.07, 0.09), news=(0.19, 0.01, 0.11, 0.16), sst=(0.17, 0.04, 0.18, 0.23)
    ),
}
