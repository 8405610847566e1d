"""Nagy 2026, section 5: softmax attention as a preconditioned step (B1 to B7), for two examples where examples enter."""

from __future__ import annotations

from .notation import read

STATEMENTS = read("""
"theory/B1/statement"
    With p ∈ [0, 1] and y₁ ≤ y₂: p y₁ + (1 − p) y₂ ≥ y₁
    0 <= p; p <= 1; y_1 <= y_2 => y_1 <= p*y_1 + (1 - p)*y_2

"theory/B2/statement"
    With p ∈ [0, 1] and y₁ ≤ y₂: p y₁ + (1 − p) y₂ ≤ y₂
    0 <= p; p <= 1; y_1 <= y_2 => p*y_1 + (1 - p)*y_2 <= y_2

5.2/average elsewhere
    a_p is a convex average and lies in [min x², max x²]
    with a_p = p*x_1^2 + (1 - p)*x_2^2
    0 <= p; p <= 1; x_1^2 <= x_2^2 => x_1^2 <= a_p and a_p <= x_2^2

"theory/5.2/line" elsewhere
    All pairs lie on one line, so b_p/a_p = b/a for every weighting (the regime of the probes with y = a x + b)
    with y_1 = m*x_1 + c; y_2 = m*x_2 + c; a = (x_1^2 + x_2^2)/2; b = (x_1*y_1 + x_2*y_2)/2; a_p = p*x_1^2 + (1 - p)*x_2^2; b_p = p*x_1*y_1 + (1 - p)*x_2*y_2
    0 <= p; p <= 1; 0 < a_p => b_p*a = b*a_p
    mend c = 0

5.2/closer elsewhere
    The factor is strictly smaller whenever the reweighting brings the step product closer to 1
    |1 - v| <= |1 - u|; 1 - v != 1 - u; 1 - v != u - 1 => (1 - v)^2 < (1 - u)^2

5.2/general elsewhere
    |1 − v| ≤ |1 − u| implies (1 − v)² ≤ (1 − u)² for all u, v
    |1 - v| <= |1 - u| => (1 - v)^2 <= (1 - u)^2

"theory/B3/statement"
    If 0 < u ≤ v ≤ 1, then (1 − v)² ≤ (1 − u)²
    0 < u; u <= v; v <= 1 => (1 - v)^2 <= (1 - u)^2

"theory/B3/strict" sentence
    The softmax contraction factor is smaller, yielding faster convergence
    0 < u; u <= v; v <= 1 => (1 - v)^2 < (1 - u)^2
    mend u < v

"theory/B4/statement"
    If 1 ≤ v ≤ u ≤ 2, then (1 − v)² ≤ (1 − u)²
    1 <= v; v <= u; u <= 2 => (1 - v)^2 <= (1 - u)^2

"theory/B4/strict" sentence
    This also accelerates convergence
    1 <= v; v <= u; u <= 2 => (1 - v)^2 < (1 - u)^2
    mend v < u

"theory/B5/statement"
    If a ≥ 0 and a_p ≥ a, then a² ≤ a_p²
    0 <= a; a <= a_p => a^2 <= a_p^2

"theory/B6/statement"
    g_p² = a_p² e² is at least g² = a² e² when a_p ≥ a (Lemma B5, so a ≥ 0) and e² ≥ 0
    0 <= a; a <= a_p => a^2*e^2 <= a_p^2*e^2

B6/sentence ours
    Were a ≥ 0 not assumed (section 5.3 and Lemma B5 do assume it)
    a <= a_p => a^2*e^2 <= a_p^2*e^2
    mend 0 <= a + a_p or a = a_p or e = 0

"theory/B6/own-optimum" sentence
    Softmax-concentrating attention amplifies the descent signal: b_p − a_p w against b − a w, two examples
    with a = (x_1^2 + x_2^2)/2; b = (x_1*y_1 + x_2*y_2)/2; a_p = p*x_1^2 + (1 - p)*x_2^2; b_p = p*x_1*y_1 + (1 - p)*x_2*y_2; g = a*w - b; g_p = a_p*w - b_p
    0 <= p; p <= 1; a <= a_p => g^2 <= g_p^2
    mend y_1*x_2 = y_2*x_1

"theory/B7/statement"
    At the optimal step product v = 1 the contraction factor (1 − v)² = 0
    v = 1 => (1 - v)^2 = 0
    draw v = 1 + 0*v

"theory/B7/newton" sentence
    The preconditioned step reaches the weighted least-squares optimum in exactly one step
    with b_p = a_p*w_star
    eta*a_p = 1 => w - eta*(a_p*w - b_p) = w_star
    draw eta = 1/a_p

"theory/B7/tuning" reading
    Even when the linear step undershoots or overshoots (ηa ≠ 1), the attention reweighting can tune η a_p = 1
    with a = (x_1^2 + x_2^2)/2
    0 < x_1; x_1 < x_2; 0 < eta; eta*a <= 2; eta*a != 1 => 0 <= p and p <= 1 and eta*(p*x_1^2 + (1 - p)*x_2^2) = 1
    some p exactly when (eta*x_1^2 - 1)*(eta*x_2^2 - 1) <= 0
    mend (eta*x_1^2 - 1)*(eta*x_2^2 - 1) <= 0

B7/tuning-sometimes reading
    … can tune η a_p = 1 for some inputs and some step size with ηa ≠ 1
    => 0 < x_1 and x_1 < x_2 and 0 < eta and eta*(x_1^2 + x_2^2) != 2 and 0 <= p and p <= 1 and eta*(p*x_1^2 + (1 - p)*x_2^2) = 1
    some x_1, x_2, eta, p exactly when 5 != 8 and 4 = 4

B7/isotropic ours
    Where all x² are equal, no attention changes the curvature
    with a = (x_1^2 + x_2^2)/2; a_p = p*x_1^2 + (1 - p)*x_2^2
    x_1^2 = x_2^2 => a_p = a
    draw x_2 = -x_1
""")
