"""Encoders against PyTorch's own layers, and that padding is nobody's business."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from diffmask.attention import ENCODERS
from diffmask.attention.encoders import SelfAttention, bilstm, waves


def run(encoder, state, real):
    state = encoder.entry(state, real)
    for layer in encoder.layers:
        state = layer(state, real)
    return state


@pytest.mark.parametrize("name", ENCODERS.names)
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_padding_on_either_side_changes_nothing(name, layers):
    torch.manual_seed(0)
    encoder = ENCODERS.get(name)(6, 4, layers, 0.0)
    state = torch.randn(2, 5, 6)
    alone = run(encoder, state, torch.ones(2, 5, dtype=torch.bool))
    assert alone.shape == (2, 5, encoder.width)
    for before, after in ((0, 3), (2, 0), (2, 1)):
        longer = torch.cat([torch.full((2, before, 6), 9.0), state, torch.full((2, after, 6), -7.0)], dim=1)
        real = torch.tensor([False] * before + [True] * 5 + [False] * after).expand(2, -1)
        assert torch.allclose(run(encoder, longer, real)[:, before : before + 5], alone, atol=1e-6)


@pytest.mark.parametrize("name", ENCODERS.names)
def test_a_text_is_encoded_the_same_beside_a_longer_one(name):
    torch.manual_seed(0)
    encoder = ENCODERS.get(name)(6, 4, 2, 0.0)
    state, real = torch.randn(2, 7, 6), torch.ones(2, 7, dtype=torch.bool)
    real[0, 3:] = False
    alone = run(encoder, state[:1, :3], real[:1, :3])
    assert torch.allclose(run(encoder, state, real)[:1, :3], alone, atol=1e-6)


def test_stacked_bilstm_layers_are_one_deep_lstm():
    torch.manual_seed(0)
    encoder, deep = bilstm(6, 4, 3, 0.0), nn.LSTM(6, 4, 3, batch_first=True, bidirectional=True)
    for number, layer in enumerate(encoder.layers):
        for lstm, way in ((layer.ahead, ""), (layer.back, "_reverse")):
            for name, weight in lstm.named_parameters():
                getattr(deep, name.replace("l0", f"l{number}") + way).data.copy_(weight)
    state, real = torch.randn(3, 5, 6), torch.tensor([[True] * 5, [True] * 2 + [False] * 3, [True] * 4 + [False]])
    packed = pack_padded_sequence(state, real.sum(1), batch_first=True, enforce_sorted=False)
    expected, _ = pad_packed_sequence(deep(packed)[0], batch_first=True)
    assert torch.allclose(run(encoder, state, real), expected, atol=1e-6)


def test_a_transformer_layer_is_pytorchs_with_one_head():
    torch.manual_seed(0)
    ours = SelfAttention(8, 0.0)
    theirs = nn.TransformerEncoderLayer(8, 1, dim_feedforward=8, dropout=0.0, batch_first=True)
    pairs = [
        (theirs.self_attn.in_proj_weight, ours.ask.weight),
        (theirs.self_attn.in_proj_bias, ours.ask.bias),
        (theirs.self_attn.out_proj.weight, ours.mix.weight),
        (theirs.self_attn.out_proj.bias, ours.mix.bias),
        (theirs.linear1.weight, ours.think[0].weight),
        (theirs.linear1.bias, ours.think[0].bias),
        (theirs.linear2.weight, ours.think[2].weight),
        (theirs.linear2.bias, ours.think[2].bias),
    ]
    for there, here in pairs:
        nn.init.normal_(here)
        there.data.copy_(here.data)
    state, real = torch.randn(2, 5, 8), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    expected = theirs(state, src_key_padding_mask=~real)
    assert torch.allclose(ours(state, real)[real], expected[real], atol=1e-5)


def test_waves_are_sines_and_cosines_of_the_place_among_real_positions():
    found = waves(torch.tensor([[False, True, True]]), 4)[0]
    assert torch.allclose(found[1], torch.tensor([0.0, 1.0, 0.0, 1.0]))
    expected = [torch.tensor(1.0).sin(), torch.tensor(1.0).cos(), torch.tensor(0.01).sin(), torch.tensor(0.01).cos()]
    assert torch.allclose(found[2], torch.stack(expected))


@pytest.mark.parametrize("name", ENCODERS.names)
def test_a_row_without_words_is_finite_and_harms_no_gradient(name):
    torch.manual_seed(0)
    encoder = ENCODERS.get(name)(6, 4, 2, 0.0)
    state = torch.randn(2, 3, 6, requires_grad=True)
    real = torch.tensor([[False] * 3, [True] * 3])
    run(encoder, state, real).square().sum().backward()
    assert state.grad.isfinite().all()
