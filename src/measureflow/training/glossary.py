"""The words of certificates, each in a line and in a paragraph with its formula in plain text."""

from measureflow.precision import keep_all
from measureflow.wording import Note

GLOSSARY = {
    note.word: note
    for note in (
        Note(
            "risk",
            "the loss of the predictions; for heads their cross-entropy, in nats.",
            "R(mu) = E l(z, y) with the predictions z = ∫ phi(θ) mu(dθ), averaged over heads or neurons; for heads the sum over "
            "positions of log sum_v exp(z_v) - z[y]. For a text it is a mean over characters, so that exp(R) is the number of "
            "characters between which the heads are in doubt.",
        ),
        Note(
            "dissipation",
            "how fast the risk falls; zero exactly at rest.",
            "D(mu) = ∫ |grad Ψ|^2 dmu, and dR/dt = -2 D along the gradient flow. Weight decay is part of what falls.",
        ),
        Note(
            "Ψ",
            "what one more would add to the risk; the optimal have the least of the set.",
            "Ψ(θ; mu) = E <phi(θ), l'(z, y)>, for heads with the residual softmax(z) - y at every position. Moving a small "
            "weight s to θ changes the risk by s (Ψ(θ) - ∫ Ψ dmu). So an optimal measure lives where Ψ is least, and Ψ has no "
            "spread on it.",
        ),
        Note(
            "H",
            "how Ψ curves; below zero, heads or neurons that lie together part.",
            "H = grad^2 Ψ(θ; mu) at the heads, with mu frozen. N heads at θ + h_i follow h_i' = -2 (H h_i + K mean(h)), so "
            "differences between them grow like exp(-2 λ t) along an eigenvector of H with λ < 0. Without weight decay H is "
            "never positive definite if values or outputs are trained, because Ψ is linear in each.",
        ),
        Note(
            "H_tr",
            "how Ψ curves when all move; below zero, they leave together.",
            "H_tr = H + K with K = E sum_t J_t^T (diag(p_t) - p_t p_t^T) J_t >= 0, where J_t is the derivative of the logits and "
            "p_t the prediction. For one head it is the Hessian of its risk. H >= 0 implies H_tr >= 0, not the other way round.",
        ),
        Note(
            "gauge",
            "directions that change nothing heads compute; not in the spectra.",
            "(W_Q R, W_K R^-T) and (W_V B, B^-1 W_O) have the same features for all invertible R and B. Their eigenvalues are "
            "zero and say nothing of stability. Weight decay sees all of them but the rotations.",
        ),
        Note(
            "gap",
            "how far the risk can be above the least one of the set.",
            "gap = ∫ Ψ dmu - min Ψ >= R(mu) - inf R >= 0, since the risk is convex in the measure; zero exactly at an optimum. "
            "It is cut to R minus the floor of the loss, for cross-entropy the entropy of the targets, below which no risk is. "
            "The set is a ball for each block of parameters: the larger the balls, the less is min Ψ and the more is compared.",
        ),
        Note(
            "offender",
            "of least Ψ; if that is below the average, it lowers the risk.",
            "θ' with Ψ(θ') < ∫ Ψ dmu proves that mu is not optimal: (1 - s) mu + s delta_θ' has less risk for small s. A "
            "trained output is the best one for what it multiplies, on the boundary of its ball.",
        ),
        Note(
            "heuristic-LMO",
            "the least Ψ is from a search, which may miss a better one.",
            "LMO is the linear minimisation oracle, which finds min Ψ over the set. Descent from many starts proves nothing; "
            "`--prove TOL` bounds it by branch and bound where scores have few parameters.",
        ),
        Note(
            "proved-LMO",
            "the least Ψ is bounded by a proof, so the gap holds.",
            "LMO is the linear minimisation oracle, which finds min Ψ over the set: here by branch and bound over the scores, or "
            "in closed form where scores are frozen.",
        ),
        Note(
            "G",
            "decides the best output of a head; weight decay balances it.",
            "G(M) = E sum_t (A x)_t (softmax(z_t) - y_t)^T W_E^T, and Ψ = tr(U^T G) for the output matrix U. With weight decay λ "
            "on values and outputs a measure is optimal exactly when no scores have a larger singular value of G than λ, and "
            "its heads have λ.",
        ),
        Note(
            "baselines",
            "risks of chance, of the best constant, and of the character before.",
            "log V for V characters; the unigram entropy -sum_c p(c) log p(c); the bigram entropy -sum_bc p(b, c) log p(c | b), "
            "with the frequencies of the training text. Heads that look back farther than one character can go below the last. "
            "Where the risk adds up the positions of a sequence, so do these.",
        ),
    )
}
"""The notes by their words."""


def notes(*words: str) -> tuple[Note, ...]:
    """The notes on some words."""
    return tuple(GLOSSARY[word] for word in words)


keep_all(globals())
