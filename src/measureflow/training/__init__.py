"""Training as a measure in motion: heads and neurons are particles, the risk is an energy."""

from measureflow import annotations, precision
from measureflow.training import fixtures as fixtures
from measureflow.training.attention import HeadRisk as HeadRisk
from measureflow.training.certificates import Certificate as Certificate
from measureflow.training.certificates import certify as certify
from measureflow.training.certificates import dissipation as dissipation
from measureflow.training.certificates import duality_gap as duality_gap
from measureflow.training.certificates import ridge_criterion as ridge_criterion
from measureflow.training.certificates import violations as violations
from measureflow.training.chaos import Budget as Budget
from measureflow.training.chaos import bias_coefficient as bias_coefficient
from measureflow.training.chaos import budget as budget
from measureflow.training.chaos import empirical_error as empirical_error
from measureflow.training.chaos import power_law as power_law
from measureflow.training.chaos import sample_error as sample_error
from measureflow.training.chaos import step_error as step_error
from measureflow.training.data import Stream as Stream
from measureflow.training.data import Text as Text
from measureflow.training.deep import DeepHeadRisk as DeepHeadRisk
from measureflow.training.dynamics import Adam as Adam
from measureflow.training.dynamics import Constant as Constant
from measureflow.training.dynamics import Descent as Descent
from measureflow.training.dynamics import HeavyBall as HeavyBall
from measureflow.training.dynamics import InverseTime as InverseTime
from measureflow.training.dynamics import StochasticDescent as StochasticDescent
from measureflow.training.dynamics import extended as extended
from measureflow.training.dynamics import langevin as langevin
from measureflow.training.dynamics import marginal as marginal
from measureflow.training.dynamics import sgd as sgd
from measureflow.training.dynamics import step_limit as step_limit
from measureflow.training.dynamics import stiffness as stiffness
from measureflow.training.examining import Examination as Examination
from measureflow.training.examining import examine as examine
from measureflow.training.families import AbstractFamily as AbstractFamily
from measureflow.training.heads import AbstractHeads as AbstractHeads
from measureflow.training.heads import FullHeads as FullHeads
from measureflow.training.heads import ScoreHeads as ScoreHeads
from measureflow.training.heads import ValueHeads as ValueHeads
from measureflow.training.longtime import balance_drift as balance_drift
from measureflow.training.longtime import confinement as confinement
from measureflow.training.longtime import divergence_gap as divergence_gap
from measureflow.training.longtime import kl_exponent as kl_exponent
from measureflow.training.losses import AbstractLoss as AbstractLoss
from measureflow.training.losses import CrossEntropy as CrossEntropy
from measureflow.training.losses import Logistic as Logistic
from measureflow.training.losses import Square as Square
from measureflow.training.neurons import NeuronRisk as NeuronRisk
from measureflow.training.neurons import Neurons as Neurons
from measureflow.training.optimum import Optimum as Optimum
from measureflow.training.optimum import frank_wolfe as frank_wolfe
from measureflow.training.perturbation import critical_decay as critical_decay
from measureflow.training.perturbation import monotonicity as monotonicity
from measureflow.training.perturbation import observed_rate as observed_rate
from measureflow.training.perturbation import rest_point as rest_point
from measureflow.training.perturbation import stability as stability
from measureflow.training.responses import Response as Response
from measureflow.training.responses import best_response as best_response
from measureflow.training.risk import AbstractObjective as AbstractObjective
from measureflow.training.risk import AbstractRisk as AbstractRisk
from measureflow.training.risk import Baselines as Baselines
from measureflow.training.risk import Ridge as Ridge
from measureflow.training.thermal import free_energy as free_energy
from measureflow.training.thermal import self_consistency as self_consistency

precision.keep_all(globals())
annotations.shorten(globals())
