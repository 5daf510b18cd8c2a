"""The fields that move measures."""

from measureflow import signatures
from measureflow.fields import ensembles as ensembles
from measureflow.fields.attention import AbstractAttention as AbstractAttention
from measureflow.fields.attention import AbstractSelfAttention as AbstractSelfAttention
from measureflow.fields.attention import HardmaxAttention as HardmaxAttention
from measureflow.fields.attention import KernelAttention as KernelAttention
from measureflow.fields.attention import L2Attention as L2Attention
from measureflow.fields.attention import LinearAttention as LinearAttention
from measureflow.fields.attention import ReLUAttention as ReLUAttention
from measureflow.fields.attention import SigmoidAttention as SigmoidAttention
from measureflow.fields.attention import SoftmaxAttention as SoftmaxAttention
from measureflow.fields.attention import UnnormalisedAttention as UnnormalisedAttention
from measureflow.fields.base import AbstractField as AbstractField
from measureflow.fields.base import Scaled as Scaled
from measureflow.fields.base import Sum as Sum
from measureflow.fields.blocks import Composed as Composed
from measureflow.fields.blocks import FactoredAttention as FactoredAttention
from measureflow.fields.blocks import FeedForward as FeedForward
from measureflow.fields.blocks import Rotary as Rotary
from measureflow.fields.blocks import Sublayer as Sublayer
from measureflow.fields.closure import MomentClosure as MomentClosure
from measureflow.fields.depth import Layered as Layered
from measureflow.fields.depth import Schedule as Schedule
from measureflow.fields.depth import Varying as Varying
from measureflow.fields.graphs import Graph as Graph
from measureflow.fields.graphs import GraphConvolution as GraphConvolution
from measureflow.fields.heads import ALiBi as ALiBi
from measureflow.fields.heads import Causal as Causal
from measureflow.fields.heads import MultiHead as MultiHead
from measureflow.fields.heads import Packed as Packed
from measureflow.fields.heads import Perceptron as Perceptron
from measureflow.fields.heads import SideBySide as SideBySide
from measureflow.fields.normalisation import NGPT as NGPT
from measureflow.fields.normalisation import LayerNorm as LayerNorm
from measureflow.fields.normalisation import MixNorm as MixNorm
from measureflow.fields.normalisation import Normalised as Normalised
from measureflow.fields.normalisation import PeriNorm as PeriNorm
from measureflow.fields.normalisation import PostNorm as PostNorm
from measureflow.fields.normalisation import PreNorm as PreNorm
from measureflow.fields.normalisation import RMSNorm as RMSNorm
from measureflow.fields.normalisation import SqrtDepth as SqrtDepth
from measureflow.fields.normalisation import Unit as Unit
from measureflow.fields.normalisation import directions as directions
from measureflow.fields.normalisation import radii as radii
from measureflow.fields.rescaled import Rescaled as Rescaled
from measureflow.fields.sinkhorn import SinkhornAttention as SinkhornAttention

signatures.shorten(globals())
