"""Pretrained transformers as flows of the library; the only place that reads weights."""

from measureflow import annotations, precision
from measureflow.models.files import ModelError as ModelError
from measureflow.models.loading import load as load
from measureflow.models.model import Embedding as Embedding
from measureflow.models.model import Model as Model
from measureflow.models.model import Proof as Proof
from measureflow.models.tokens import Tokenizer as Tokenizer
from measureflow.models.tokens import tokenizer as tokenizer

precision.keep_all(globals())
annotations.shorten(globals())
