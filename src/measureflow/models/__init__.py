"""Pretrained transformers as flows of the library; the only place that reads weights."""

from measureflow import signatures
from measureflow.models.attention_maps import AttentionStatistics as AttentionStatistics
from measureflow.models.attention_maps import attention_statistics as attention_statistics
from measureflow.models.extended_depth import RepeatedLayer as RepeatedLayer
from measureflow.models.extended_depth import repeated_layer as repeated_layer
from measureflow.models.files import ModelError as ModelError
from measureflow.models.head_matrices import HeadStatistics as HeadStatistics
from measureflow.models.head_matrices import effective_head_count as effective_head_count
from measureflow.models.head_matrices import head_cosines as head_cosines
from measureflow.models.head_matrices import head_statistics as head_statistics
from measureflow.models.lipschitz import AdversarialCloud as AdversarialCloud
from measureflow.models.lipschitz import BoundTerms as BoundTerms
from measureflow.models.lipschitz import adversarial_cloud as adversarial_cloud
from measureflow.models.lipschitz import bound_terms as bound_terms
from measureflow.models.loading import load as load
from measureflow.models.model import Embedding as Embedding
from measureflow.models.model import Model as Model
from measureflow.models.model import Proof as Proof
from measureflow.models.null_models import with_random_weights as with_random_weights
from measureflow.models.quantities import InspectedLayer as InspectedLayer
from measureflow.models.quantities import dimension as dimension
from measureflow.models.quantities import quantity as quantity
from measureflow.models.token_geometry import TokenStatistics as TokenStatistics
from measureflow.models.token_geometry import sinks as sinks
from measureflow.models.token_geometry import token_statistics as token_statistics
from measureflow.models.tokens import Tokenizer as Tokenizer
from measureflow.models.tokens import tokenizer as tokenizer

signatures.shorten(globals())
