"""The spaces in which tokens live."""

from measureflow.spaces.base import AbstractSpace as AbstractSpace
from measureflow.spaces.euclidean import Euclidean as Euclidean
from measureflow.spaces.sphere import Sphere as Sphere
