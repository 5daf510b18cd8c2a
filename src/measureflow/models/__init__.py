"""Pretrained transformers as flows of the library; the only place that reads weights."""

from measureflow import signatures
from measureflow.models.continuing import Continued as Continued
from measureflow.models.continuing import continued as continued
from measureflow.models.files import ModelError as ModelError
from measureflow.models.heads import HeadLook as HeadLook
from measureflow.models.heads import atoms as atoms
from measureflow.models.heads import gram as gram
from measureflow.models.heads import look_at_heads as look_at_heads
from measureflow.models.loading import load as load
from measureflow.models.looking import AttentionLook as AttentionLook
from measureflow.models.looking import TokenLook as TokenLook
from measureflow.models.looking import look_at_attention as look_at_attention
from measureflow.models.looking import look_at_tokens as look_at_tokens
from measureflow.models.looking import sinks as sinks
from measureflow.models.model import Embedding as Embedding
from measureflow.models.model import Model as Model
from measureflow.models.model import Proof as Proof
from measureflow.models.nulls import scrambled as scrambled
from measureflow.models.steepness import Reach as Reach
from measureflow.models.steepness import Worst as Worst
from measureflow.models.steepness import reach as reach
from measureflow.models.steepness import worst as worst
from measureflow.models.tokens import Tokenizer as Tokenizer
from measureflow.models.tokens import tokenizer as tokenizer

signatures.shorten(globals())
