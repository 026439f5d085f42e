"""The papers' settings, as the papers give them."""

import pytest

from diffmask.attention.classifier import make_classifier
from diffmask.attention.presets import VARIANTS, jain_wallace, meister, tutek
from diffmask.errors import SettingError


def test_meister_pairs_encoders_with_attentions():
    lstm, transformer = meister(100), meister(100, "transformer", projection="sparsegen", sparsity=0.5)
    assert (lstm.model.encoder, lstm.model.alignment, lstm.model.layers) == ("bilstm", "additive", 1)
    assert (transformer.model.encoder, transformer.model.alignment, transformer.model.layers) == (
        "transformer",
        "dot",
        2,
    )
    assert (lstm.training.learning_rate, transformer.training.learning_rate) == (1e-4, 3e-5)
    assert lstm.model.hidden == transformer.model.hidden == 128


@pytest.mark.parametrize("variant", VARIANTS)
def test_tuteks_variants_have_hidden_states_as_wide_as_embeddings(variant):
    preset = tutek(50, variant, layers=2, seed=3)
    model = make_classifier(preset.model)
    assert model.hidden_width == (600 if variant == "concat" else 300)
    assert (preset.training.tying > 0, preset.training.mlm > 0) == (variant == "tying", variant == "mlm")
    assert preset.model.freeze == (variant == "mlm")
    assert (preset.training.seed, preset.training.clip, preset.training.batch_size) == (3, 5.0, 32)


def test_strengths_are_delta_and_eta():
    assert tutek(50, "tying", strength=30.0).training.tying == 30
    assert tutek(50, "mlm", strength=0.1).training.mlm == 0.1
    with pytest.raises(SettingError, match="variant 'base' has none"):
        tutek(50, "base", strength=1.0)


def test_jain_and_wallace_have_half_as_wide_hidden_states_per_direction():
    assert make_classifier(jain_wallace(50, "dot").model).hidden_width == 256


def test_an_unknown_variant_is_named(outside):
    code = "from diffmask.attention.presets import tutek\ntutek(9, 'tyng')"
    assert "no variant named 'tyng'; did you mean 'tying'?" in outside(code)
