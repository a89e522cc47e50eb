"""Tiny random-weight transformers models with a tokenizer of their own, made in a folder in a second.

Real architectures, so that positions, masks and caches are those of the models people use.
"""

from pathlib import Path

from chatbots.huggingface import quiet_loading

TEXT = (
    "hello how are you today i am fine thank you and what do you like to eat the weather is nice "
    "we went to the sea it was cold yes no maybe tell me more about your day cats dogs books music"
)

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

DECODERS = ("gpt2", "opt", "llama", "mistral", "bloom")
ENCODER_DECODERS = ("t5", "bart", "blenderbot")


INFERENCE_LABELS = ("entailment", "neutral", "Contradiction")


def save_tokenizer(folder: Path, *, n_words: int = 0, chat_template: str | None = None) -> int:
    """Save a byte-level BPE tokenizer trained on a few words; returns its size.

    Args:
        n_words: instead: a word-level vocabulary of so many made-up words, for benchmarks.
        chat_template: give it one, with the ChatML marks as special tokens.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    special = ["<pad>", "<s>", "</s>", "<unk>"]
    if chat_template:
        special += ["<|im_start|>", "<|im_end|>"]
    if n_words:
        vocabulary = [*special, *(f"w{i}" for i in range(n_words - len(special)))]
        raw = Tokenizer(models.WordLevel({w: i for i, w in enumerate(vocabulary)}, unk_token="<unk>"))
        raw.pre_tokenizer = pre_tokenizers.Whitespace()
    else:
        words = TEXT.split()
        raw = Tokenizer(models.BPE())
        raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        raw.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=400, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        )
        raw.train_from_iterator([TEXT, *words, *(f" {word}" for word in words)] * 3, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="<|im_end|>" if chat_template else "</s>",
        unk_token="<unk>",
        additional_special_tokens=["<|im_start|>", "</s>"] if chat_template else [],
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = chat_template
    tokenizer.save_pretrained(folder)
    return len(tokenizer)


def save_model(
    folder: Path,
    architecture: str,
    *,
    seed: int = 0,
    width: int = 32,
    n_layers: int = 2,
    n_positions: int = 160,
    n_words: int = 0,
    chat_template: str | None = None,
) -> Path:
    """Save a random-weight model and tokenizer; returns the folder."""
    import torch
    import transformers as tf

    size = save_tokenizer(folder, n_words=n_words, chat_template=chat_template)
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 5 if chat_template else 2}
    heads = max(4, width // 64)
    rotary = {
        "vocab_size": size,
        "hidden_size": width,
        "intermediate_size": 2 * width,
        "num_hidden_layers": n_layers,
        "num_attention_heads": heads,
        "num_key_value_heads": heads // 2,
        "max_position_embeddings": n_positions,
    }
    crossed = {
        "vocab_size": size,
        "d_model": width,
        "encoder_layers": n_layers,
        "decoder_layers": n_layers,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": 2 * width,
        "decoder_ffn_dim": 2 * width,
        "max_position_embeddings": n_positions,
        "decoder_start_token_id": 1,
        "init_std": 0.2,
        "forced_eos_token_id": None,
    }
    makers = {
        "gpt2": lambda: tf.GPT2LMHeadModel(
            tf.GPT2Config(
                vocab_size=size,
                n_embd=width,
                n_layer=n_layers,
                n_head=heads,
                n_positions=n_positions,
                initializer_range=0.2 if width < 64 else 0.02,
                **ids,
            )
        ),
        "opt": lambda: tf.OPTForCausalLM(
            tf.OPTConfig(
                vocab_size=size,
                hidden_size=width,
                word_embed_proj_dim=width,
                ffn_dim=2 * width,
                num_hidden_layers=n_layers,
                num_attention_heads=heads,
                max_position_embeddings=n_positions,
                init_std=0.2,
                **ids,
            )
        ),
        "llama": lambda: tf.LlamaForCausalLM(
            tf.LlamaConfig(**rotary, initializer_range=0.2 if width < 64 else 0.02, **ids)
        ),
        "mistral": lambda: tf.MistralForCausalLM(
            tf.MistralConfig(**rotary, initializer_range=0.2, sliding_window=6, **ids)
        ),
        "bloom": lambda: tf.BloomForCausalLM(
            tf.BloomConfig(
                vocab_size=size, hidden_size=width, n_layer=n_layers, n_head=heads, initializer_range=0.2, **ids
            )
        ),
        "t5": lambda: tf.T5ForConditionalGeneration(
            tf.T5Config(
                vocab_size=size,
                d_model=width,
                d_kv=width // heads,
                d_ff=2 * width,
                num_layers=n_layers,
                num_heads=heads,
                decoder_start_token_id=0,
                initializer_factor=1.5,
                **ids,
            )
        ),
        "bart": lambda: tf.BartForConditionalGeneration(tf.BartConfig(**crossed, forced_bos_token_id=1, **ids)),
        "blenderbot": lambda: tf.BlenderbotForConditionalGeneration(tf.BlenderbotConfig(**crossed, **ids)),
    }
    torch.manual_seed(seed)
    model = makers[architecture]().eval()
    with torch.no_grad():  # position embeddings start small or equal; make wrong positions show
        for name, weights in model.named_parameters():
            if "position" in name or "wpe" in name or "relative_attention_bias" in name:
                weights.normal_(0, 0.3)
    with quiet_loading():
        model.save_pretrained(folder)
    return folder


def save_classifier(folder: Path, labels: tuple[str, ...] = INFERENCE_LABELS) -> Path:
    """Save a random classifier of texts and of pairs; with one label it gives a score."""
    import torch
    import transformers as tf

    size = save_tokenizer(folder)
    torch.manual_seed(0)
    config = tf.BertConfig(
        vocab_size=size,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        initializer_range=0.5,
        pad_token_id=0,
        id2label=dict(enumerate(labels)),
        label2id={label: k for k, label in enumerate(labels)},
    )
    tf.BertForSequenceClassification(config).eval().save_pretrained(folder)
    return folder


def save_ranker(folder: Path, seed: int = 0) -> Path:
    """Save a random GPT-2 with one output, as DialogRPT's rankers."""
    import torch
    import transformers as tf

    size = save_tokenizer(folder)
    torch.manual_seed(seed)
    config = tf.GPT2Config(
        vocab_size=size, n_embd=16, n_layer=1, n_head=4, n_positions=64, initializer_range=0.5, num_labels=1
    )
    tf.GPT2ForSequenceClassification(config).eval().save_pretrained(folder)
    return folder


def save_masked(folder: Path) -> Path:
    """Save a random RoBERTa that predicts masked words."""
    import torch
    import transformers as tf

    save_tokenizer(folder)
    tokenizer = tf.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"})
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = tf.RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=130,
        initializer_range=0.5,
        pad_token_id=0,
    )
    tf.RobertaForMaskedLM(config).eval().save_pretrained(folder)
    return folder
