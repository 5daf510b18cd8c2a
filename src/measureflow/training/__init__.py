"""Training as a measure in motion: heads and neurons are particles, the risk is an energy.

Here is what most users need: risks and their families, losses, optimisers, certificates, error budgets and data. The modules of
this package hold the rest: `activations`, `bounds`, `chaos`, `convergence`, `free_energies`, `perturbation` and others.
"""

from measureflow import signatures
from measureflow.training import activations as activations
from measureflow.training import bounds as bounds
from measureflow.training import chaos as chaos
from measureflow.training import convergence as convergence
from measureflow.training import curvature as curvature
from measureflow.training import fixtures as fixtures
from measureflow.training import free_energies as free_energies
from measureflow.training import perturbation as perturbation
from measureflow.training import responses as responses
from measureflow.training.assumptions import Assumptions as Assumptions
from measureflow.training.assumptions import check_assumptions as check_assumptions
from measureflow.training.budgets import ErrorBudget as ErrorBudget
from measureflow.training.budgets import TrainingRule as TrainingRule
from measureflow.training.budgets import error_budget as error_budget
from measureflow.training.certificates import Certificate as Certificate
from measureflow.training.certificates import certify as certify
from measureflow.training.certificates import dissipation as dissipation
from measureflow.training.certificates import duality_gap as duality_gap
from measureflow.training.data import Stream as Stream
from measureflow.training.data import Text as Text
from measureflow.training.deep_risk import DeepHeadRisk as DeepHeadRisk
from measureflow.training.dynamics import AbstractOptimiser as AbstractOptimiser
from measureflow.training.dynamics import AbstractTransformation as AbstractTransformation
from measureflow.training.dynamics import Adam as Adam
from measureflow.training.dynamics import Descent as Descent
from measureflow.training.dynamics import HeavyBall as HeavyBall
from measureflow.training.dynamics import StochasticDescent as StochasticDescent
from measureflow.training.dynamics import langevin as langevin
from measureflow.training.dynamics import sgd as sgd
from measureflow.training.examination import Examination as Examination
from measureflow.training.examination import examine as examine
from measureflow.training.families import AbstractFamily as AbstractFamily
from measureflow.training.features import FeatureRisk as FeatureRisk
from measureflow.training.features import Plain as Plain
from measureflow.training.head_families import AbstractHeads as AbstractHeads
from measureflow.training.head_families import FullHeads as FullHeads
from measureflow.training.head_families import ScoreHeads as ScoreHeads
from measureflow.training.head_families import ValueHeads as ValueHeads
from measureflow.training.head_risk import HeadRisk as HeadRisk
from measureflow.training.losses import AbstractLoss as AbstractLoss
from measureflow.training.losses import CrossEntropy as CrossEntropy
from measureflow.training.losses import Logistic as Logistic
from measureflow.training.losses import Square as Square
from measureflow.training.neurons import NeuronRisk as NeuronRisk
from measureflow.training.neurons import Neurons as Neurons
from measureflow.training.optimum import Optimum as Optimum
from measureflow.training.optimum import frank_wolfe as frank_wolfe
from measureflow.training.perturbation import stability as stability
from measureflow.training.profiles import Constant as Constant
from measureflow.training.profiles import InverseTime as InverseTime
from measureflow.training.responses import best_response as best_response
from measureflow.training.risk import AbstractObjective as AbstractObjective
from measureflow.training.risk import AbstractRisk as AbstractRisk
from measureflow.training.risk import Ridge as Ridge

signatures.shorten(globals())
