"""What goes over the wire, in both directions: the OpenAPI schema is made from these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, model_validator

TEXT = "A fast, funny, highly enjoyable movie."
ALL = "all"

OneText = StrictStr | Annotated[list[StrictStr], Field(min_length=2, max_length=2)]
Margin = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]


class Settings(BaseModel):
    """How to explain, whatever is explained."""

    model_config = ConfigDict(extra="forbid")

    depth: StrictInt | StrictStr = Field(
        -1, description='A number, which may count from the end, a site\'s name, or "all" for every depth at once.'
    )
    verify: StrictBool = Field(True, description="Run the model again on what is kept.")
    certify: StrictBool = Field(False, description="Change the kept set until the margin is measured to hold.")
    margin: Margin | None = Field(
        None, description="The divergence allowed, in nats; without it, the one the probe was fitted to."
    )


class Question(Settings):
    """A text, several, or an image, and how to explain it."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"text": TEXT},
                {"texts": [TEXT, "Dull."], "depth": 0},
                {"text": TEXT, "depth": ALL, "certify": True, "margin": 0.02},
            ]
        },
    )

    text: OneText | None = Field(None, description="A text, or a pair of them where the model takes pairs.")
    texts: list[OneText] | None = Field(None, min_length=1, description="Several texts.")
    image: StrictStr | None = Field(None, description="The bytes of an image file in base64, or a data: URL.")

    @model_validator(mode="after")
    def _one_kind(self) -> Question:
        given = [name for name in ("text", "texts", "image") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give one of text, texts and image, got {' and '.join(given) or 'none'}")
        return self


class Verified(BaseModel):
    """The model run on the kept units alone, against the model run on everything."""

    divergence: float | None = Field(description="In nats; null if it is infinite.")
    margin: float
    measure: str
    within_margin: bool
    same_prediction: bool | None
    original: dict[str, Any]
    masked: dict[str, Any]
    masked_prediction: str


class AtDepth(BaseModel):
    """What is kept at one depth, and what was measured with it."""

    depth: int
    kept: list[bool]
    verification: Verified | None
    certified: bool


class Explained(BaseModel):
    """One example explained. `scores` are probabilities of being kept, a row for each depth."""

    model_config = ConfigDict(extra="allow")

    text: OneText | None
    units: list[str]
    depths: list[str]
    depth: int
    scores: list[list[float]]
    kept: list[bool]
    prediction: str | None
    verification: Verified | None
    certified: bool
    kind: str | None
    fingerprint: str | None
    grid: list[int] | None = Field(None, description="Rows and columns of an image's patches.")
    cut: int = Field(0, description="Tokens at the end of the text that the model does not take.")
    at_depths: list[AtDepth] | None = Field(None, description='Every depth, where "all" was asked for.')


class Answer(BaseModel):
    """One explanation for each example, in their order."""

    explanations: list[Explained]


class Health(BaseModel):
    """Whether the service answers, and how many examples wait."""

    model: str
    ready: bool
    queue: int


class Info(BaseModel):
    """The model, its probe, and what the service takes."""

    model: str
    fingerprint: str
    takes: Literal["text", "image"]
    pairs: bool = Field(description="Whether a text has to be a pair, such as a question and a passage.")
    kind: str
    depths: list[str]
    margin: float
    measure: str
    labels: list[str] | None
    limits: dict[str, int | float]
    fit: list[dict[str, int | float]] = Field(
        description="How good the probe is at each depth on its validation examples."
    )
    versions: dict[str, str]


class Wrong(BaseModel):
    """Why a request was not answered, in one sentence."""

    error: str
