"""The spaces in which tokens live."""

from measureflow import signatures
from measureflow.spaces.ball import Ball as Ball
from measureflow.spaces.ball import Product as Product
from measureflow.spaces.base import AbstractSpace as AbstractSpace
from measureflow.spaces.euclidean import Euclidean as Euclidean
from measureflow.spaces.sphere import Sphere as Sphere

signatures.shorten(globals())
