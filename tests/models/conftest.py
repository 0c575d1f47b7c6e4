"""Real models of the smallest size, with random weights, made here and saved as their owners save them."""

from __future__ import annotations

import string

import pytest

MOST_TOKENS = 1024
"""That the encoder and the cross-encoder read; words that they do not know have a token for each letter."""


@pytest.fixture(scope="session", autouse=True)
def offline():
    """Nothing is looked for on a network, whatever goes wrong."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        yield


@pytest.fixture(scope="session")
def tokeniser():
    """Word pieces: some words, and all letters, so that no text is unknown."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = ["the", "tower", "is", "meters", "tall", "high", "ferries", "leave", "noon"]
    letters = sorted(string.ascii_lowercase + string.digits + string.punctuation)
    pieces = dict.fromkeys([*special, *words, *letters, *(f"##{letter}" for letter in letters)])
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=MOST_TOKENS,
    )


@pytest.fixture(scope="session")
def configuration(tokeniser):
    """A BERT of three layers, and weights large enough that texts differ."""
    from transformers import BertConfig

    return BertConfig(
        vocab_size=len(tokeniser),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=MOST_TOKENS,
        initializer_range=0.5,
        num_labels=1,
    )


@pytest.fixture(scope="session")
def encoder(tmp_path_factory, tokeniser, configuration):
    """A folder with an encoder, for BERTScore."""
    import torch
    from transformers import BertModel

    folder = tmp_path_factory.mktemp("models") / "tiny-encoder"
    torch.manual_seed(1)
    BertModel(configuration).save_pretrained(folder)
    tokeniser.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def embedder(tmp_path_factory, encoder):
    """A folder with a sentence-transformers model."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    folder = tmp_path_factory.mktemp("models") / "tiny-embedder"
    words = Transformer(encoder, max_seq_length=16)
    SentenceTransformer(modules=[words, Pooling(words.get_embedding_dimension())], device="cpu").save(str(folder))
    return str(folder)


@pytest.fixture(scope="session")
def cross_encoder(tmp_path_factory, tokeniser, configuration):
    """A folder with a cross-encoder of one label."""
    import torch
    from transformers import BertForSequenceClassification

    folder = tmp_path_factory.mktemp("models") / "tiny-cross-encoder"
    torch.manual_seed(2)
    BertForSequenceClassification(configuration).save_pretrained(folder)
    tokeniser.save_pretrained(folder)
    return str(folder)
