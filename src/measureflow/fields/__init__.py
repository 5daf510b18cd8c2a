"""The fields that move measures."""

from measureflow.fields.attention import AbstractAttention as AbstractAttention
from measureflow.fields.attention import SoftmaxAttention as SoftmaxAttention
from measureflow.fields.attention import UnnormalisedAttention as UnnormalisedAttention
from measureflow.fields.base import AbstractField as AbstractField
from measureflow.fields.base import Scaled as Scaled
from measureflow.fields.base import Sum as Sum
