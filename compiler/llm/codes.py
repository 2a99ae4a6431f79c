"""Diagnostics codes of language models: code → (title, explanation)."""

from __future__ import annotations

from typing import Final

CODES: Final[dict[str, tuple[str, str]]] = {
    "OI0420": (
        "unusable tokenizer in a model",
        "A key `tokenizer.ggml.*` is missing, of another type, or contradicts the others: too few scores "
        "or types, an "
        "id beyond the vocabulary, a merge that makes no token, more tokens than the embedding has rows.",
    ),
    "OI0421": (
        "unusable chat template in a model",
        "The template is no text, longer than 64 KB, or takes more time or memory than a conversation "
        "can need.",
    ),
    "OI0582": (
        "text or tokens that the vocabulary does not have",
        "A text must be Unicode that the vocabulary has tokens for; an id must be smaller than its size.",
    ),
    "OI0583": (
        "unusable conversation",
        "Messages are objects with a known role and a text. The template may refuse a conversation, too: "
        "some "
        "allow no system message, some want users and assistants in turns.",
    ),
    "OI0584": (
        "unusable setting of sampling",
        "The message names the setting and the values that it may have.",
    ),
    "OI0585": (
        "unusable JSON schema",
        "The library `llguidance` cannot make a grammar of the schema, or the vocabulary cannot follow it.",
    ),
    "OI0631": (
        "no token to choose",
        "The logits hold NaN, or every token is forbidden.",
    ),
    "OI0745": (
        "tokenizer not known",
        "The file holds no tokenizer, or one of a kind or with a pre-tokenizer that openinfer does not "
        "have. It is "
        "not guessed: another rule gives wrong tokens without a word.",
    ),
    "OI0746": (
        "model without a chat template",
        "A base model continues text. Chatting needs a model that was trained to answer, with its template.",
    ),
    "OI0790": (
        "architecture not named",
        "A language model says in `general.architecture` which program computes it; give a program else.",
    ),
    "OI0791": (
        "no program for the architecture",
        "openinfer has programs for some families of language models. Write one for this model, beginning "
        "with that of a family near it (`openinfer program MODEL --family NAME`), and give it with "
        "`--program`.",
    ),
    "OI0792": (
        "model beyond its family's program",
        "The model has a tensor or a number that changes what it computes and that the program of its family "
        "does not read: a variant of the architecture.",
    ),
    "OI0793": (
        "unknown family or cache",
        "The name is that of no family of language models, or of no dtype that keys and values may have; the "
        "message lists them.",
    ),
    "OI0794": (
        "no program of a language model",
        "The program takes or returns something else than `docs/language-models.md` says, or cannot do what "
        "was asked of it: several sequences, logits of all tokens, embeddings.",
    ),
    "OI0795": (
        "sequence longer than the context",
        "The message has both numbers. Nothing is cut silently: shorten the prompt or ask for more context.",
    ),
    "OI0796": (
        "tokens or slots that do not fit",
        "A token is none of the model's, there is none at all, or a part of a sequence does not continue "
        "what its slot holds.",
    ),
    "OI0797": (
        "incomplete model",
        "The program of the model's family reads tensors or numbers that the file does not have, or the "
        "numbers do not fit the shapes of its tensors.",
    ),
    "OI0798": (
        "tokenizer of another model",
        "The tokenizer has more tokens than the model has logits: the file mixes two models.",
    ),
}
