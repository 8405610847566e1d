"""Nagy 2026, sections 1 to 4: attention is a gradient step (A1 to A7) and the two ring identities."""

from __future__ import annotations

from .notation import read

STATEMENTS = read("""
# Section 1, Theorem V1
1/gradient reading
    ∇L = a w − b (V1), taken literally: L(w + h) − L(w) has the linear term g h (section 1 moves a factor 2 into η)
    with g = a*w - b
    => a*(w + h)^2 - 2*b*(w + h) + c - (a*w^2 - 2*b*w + c) = g*h + a*h^2

1/gradient-half ours
    “where we absorb the factor of 2 into the step size”: the linear term is 2 g h
    with g = a*w - b
    => a*(w + h)^2 - 2*b*(w + h) + c - (a*w^2 - 2*b*w + c) = 2*g*h + a*h^2

"theory/1/optimum" elsewhere
    Gram curvature a ≥ 0; the least-squares optimum is w* = b/a: a w* = b has one solution
    0 <= a => a*w = a*w_star iff w = w_star
    mend a != 0 for all w, w_star

"theory/A1/statement"
    With g = a w − b and step size η > 0, the linear-attention update equals the negative gradient step
    with g = a*w - b
    0 < eta => eta*(b - a*w) = -(eta*g)

"theory/A2/statement"
    For a > 0, with e = w − w* and a w* = b, the gradient is the curvature times the error
    with b = a*w_star; e = w - w_star; g = a*w - b
    0 < a => g = a*e

"theory/A2/vanishes" sentence
    The gradient vanishes exactly at w*
    with b = a*w_star; g = a*w - b
    0 < a => g = 0 iff w = w_star

# Section 3 (loss_decrease_identity)
loss-decrease elsewhere
    L(w) − L(w_next) = [η(2 − ηa)] g²
    with g = a*w - b; w_next = w - eta*g
    => a*w^2 - 2*b*w + c - (a*w_next^2 - 2*b*w_next + c) = eta*(2 - eta*a)*g^2

"theory/A3/statement"
    If η > 0 and ηa ≤ 2, then η(2 − ηa) ≥ 0
    0 < eta; eta*a <= 2 => 0 <= eta*(2 - eta*a)

"theory/A4/statement"
    g² ≥ 0
    with g = a*w - b
    => 0 <= g^2

"theory/A5/statement"
    If L(w) − L(w_next) = etafac · gsq with etafac ≥ 0 and gsq ≥ 0, then L(w_next) ≤ L(w)
    with L_next = L - etafac*gsq
    0 <= etafac; 0 <= gsq => L_next <= L

"theory/A5/window" sentence
    The forward pass is a monotone descent step throughout 0 < η ≤ 2/a: the loss does not increase
    with g = a*w - b; w_next = w - eta*g
    0 < a; 0 < eta; eta*a <= 2 => a*w_next^2 - 2*b*w_next + c <= a*w^2 - 2*b*w + c

"theory/A5/strict" reading
    … a descent step throughout 0 < η ≤ 2/a, read strictly: the loss falls where g ≠ 0
    with g = a*w - b; w_next = w - eta*g
    0 < a; 0 < eta; eta*a <= 2; g != 0 => a*w_next^2 - 2*b*w_next + c < a*w^2 - 2*b*w + c
    mend eta*a < 2

# Section 4 (error_recursion_identity)
error-recursion elsewhere
    e_next = (1 − ηa) e, so e_next² = (1 − ηa)² e²
    with b = a*w_star; e = w - w_star; g = a*w - b; e_next = w - eta*g - w_star
    => e_next = (1 - eta*a)*e and e_next^2 = (1 - eta*a)^2*e^2

"theory/A6/statement"
    If 0 ≤ ηa ≤ 2, then (1 − ηa)² ≤ 1
    0 <= eta*a; eta*a <= 2 => (1 - eta*a)^2 <= 1

"theory/A7/statement"
    If e_next² = ρ² e² with ρ² = (1 − ηa)² ≤ 1, then e_next² ≤ e²
    with rho2 = (1 - eta*a)^2; E_next = rho2*e^2
    rho2 <= 1 => E_next <= e^2

"theory/A7/equivalence" sentence
    A strictly contractive rate, 0 < ρ² < 1 (equivalently 0 < ηa < 2)
    with rho2 = (1 - eta*a)^2
    => 0 < rho2 and rho2 < 1 iff 0 < eta*a and eta*a < 2
    mend eta*a != 1

A7/window ours
    Repaired: ρ² < 1 exactly when 0 < ηa < 2
    with rho2 = (1 - eta*a)^2
    => rho2 < 1 iff 0 < eta*a and eta*a < 2

"theory/A7/boundary" sentence
    The boundary cases are ρ² = 1 (ηa ∈ {0, 2})
    with rho2 = (1 - eta*a)^2
    => rho2 = 1 iff eta*a = 0 or eta*a = 2

"theory/A7/limit" sentence
    Iterating at a fixed rate ρ² < 1 drives the squared error to zero: (ρ²)^k ≤ 1/(1 + k h) with h = 1/ρ² − 1
    assumes ρ²(1 + h) = 1; h > 0
    says (ρ²)^k (1 + k h) ≤ 1 for every k
    base P = 1; k = 0 => P*(1 + k*h) <= 1
    step 0 < h; 0 <= k; 0 <= P; rho2*(1 + h) = 1; P*(1 + k*h) <= 1 => P*rho2*(1 + (k + 1)*h) <= 1
""")
