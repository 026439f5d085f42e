"""Full precision is for a while: what was set before is set again, also after an error."""

import pytest
import torch

from diffmask.masking.precision import full_precision


def settings():
    return torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32


def test_full_precision_is_put_back_also_after_an_error():
    before = settings()
    with pytest.raises(KeyError), full_precision():
        assert settings() == ("highest", False)
        raise KeyError
    assert settings() == before
