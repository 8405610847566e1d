"""Nagy 2026, Appendix A: gains of the attention layer (V1 to V3), two channels (M1 to M3) and sums over any number of them (MN1 to MN3)."""

from __future__ import annotations

from .notation import read

STATEMENTS = read("""
"theory/V1/statement"
    The constructed update equals the negative scaled gradient: κ(b − a w) = −(κ ∇L), ∇L = a w − b
    with kappa = v_o*q_k; g = a*w - b
    => kappa*(b - a*w) = -(kappa*g)

"theory/V2/statement"
    If v_o, q_k > 0, then κ = v_o q_k > 0
    with kappa = v_o*q_k
    0 < v_o; 0 < q_k => 0 < kappa

"theory/V2/window" sentence
    A positive gain yields a stability-window-eligible step: 0 < κ a ≤ 2
    with kappa = v_o*q_k
    0 < v_o; 0 < q_k; 0 < a => 0 < kappa*a and kappa*a <= 2
    mend kappa*a <= 2

V2/eligible ours
    A positive gain that is also small enough, κ a ≤ 2, does not raise the loss
    with kappa = v_o*q_k
    0 < v_o; 0 < q_k; kappa*a <= 2 => a*(w - kappa*(a*w - b))^2 - 2*b*(w - kappa*(a*w - b)) <= a*w^2 - 2*b*w

"theory/V3/statement"
    With the condition of B7 (η a_p = 1) and κ = η, the composite gain satisfies κ a_p = 1
    with kappa = v_o*q_k
    kappa = eta; eta*a_p = 1 => kappa*a_p = 1
    draw eta = v_o*q_k; a_p = 1/(v_o*q_k)

"theory/V3/exists" reading
    There exists a gain choice with κ a_p = 1, for a_p ≥ 0 as section 5.2 defines it
    0 <= a_p => v_o*q_k*a_p = 1
    some v_o, q_k exactly when a_p != 0
    mend a_p != 0

"theory/V3/exists-positive" reading
    There exists a gain choice with κ a_p = 1, for a_p > 0 (as 1/a_p presupposes), and it reaches the optimum
    0 < a_p => v_o*q_k*a_p = 1
    some v_o, q_k exactly when a_p != 0

"theory/V3/newton" sentence
    The constructed forward pass reaches the weighted optimum in a single step
    with kappa = v_o*q_k; b_p = a_p*w_star
    kappa*a_p = 1 => w + kappa*(b_p - a_p*w) = w_star
    draw a_p = 1/(v_o*q_k)

"theory/V3/attainable" reading
    The Newton property is architecturally attainable, read as: one choice of weights for two prompts
    0 < a_1; 0 < a_2 => v_o*q_k*a_1 = 1 and v_o*q_k*a_2 = 1
    some v_o, q_k exactly when a_1 = a_2 and a_1 != 0
    mend a_1 = a_2

"theory/M1/statement"
    With u_i = −κ_i g_i the energy is u₁² + u₂² = κ₁² g₁² + κ₂² g₂²
    with u_1 = -(kappa_1*g_1); u_2 = -(kappa_2*g_2)
    => u_1^2 + u_2^2 = kappa_1^2*g_1^2 + kappa_2^2*g_2^2

"theory/M2/statement"
    If each channel's gradient energy contracts, the total contracts
    g_1'^2 <= g_1^2; g_2'^2 <= g_2^2 => g_1'^2 + g_2'^2 <= g_1^2 + g_2^2

"theory/M2/guaranteed" sentence
    g_next² ≤ g² is guaranteed by A5: a step that does not increase the loss does not increase g² (a ≥ 0)
    with g = a*w - b; w_next = w - eta*g; g_next = a*w_next - b
    0 <= a => a*w_next^2 - 2*b*w_next <= a*w^2 - 2*b*w implies g_next^2 <= g^2

"theory/M3/statement"
    With κ = 1/λ₁ and λ₁ < λ₂, channel 2 keeps (1 − κλ₂)² > 0
    lam_1 < lam_2; kappa*lam_1 = 1 => 0 < (1 - kappa*lam_2)^2
    draw kappa = 1/lam_1

"theory/M3/no-gain" sentence
    No single scalar gain can zero the contraction in both channels simultaneously
    lam_1 < lam_2 => not ((1 - kappa*lam_1)^2 = 0 and (1 - kappa*lam_2)^2 = 0)

"theory/M3/residual" sentence
    … leaves channel 2 with residual contraction: (1 − κλ₂)² ≤ 1, for 0 < λ₁
    0 < lam_1; lam_1 < lam_2; kappa*lam_1 = 1 => (1 - kappa*lam_2)^2 <= 1
    mend lam_2 <= 2*lam_1
    draw kappa = 1/lam_1

M3/two-layers ours
    Two layers with one scalar gain each, κ₁ = 1/λ₁ and κ₂ = 1/λ₂, zero both channels
    kappa_1*lam_1 = 1; kappa_2*lam_2 = 1 => (1 - kappa_1*lam_1)^2*(1 - kappa_2*lam_1)^2 = 0 and (1 - kappa_1*lam_2)^2*(1 - kappa_2*lam_2)^2 = 0
    draw kappa_1 = 1/lam_1; kappa_2 = 1/lam_2

"theory/MN1/homogeneous" sentence
    Frobenius energy is a valid norm, so twice the vector has twice the energy (c > 0)
    0 < c => (c*g)^2 = c*g^2

"theory/MN1/triangle" sentence
    Frobenius energy is a valid norm, so it obeys the triangle inequality
    => (g + h)^2 <= g^2 + h^2

MN1/root-homogeneous ours
    Repaired: the square root r of the energy is homogeneous (c ≥ 0)
    0 <= c; 0 <= r; 0 <= t; r^2 = g^2; t^2 = (c*g)^2 => t = c*r
    draw g = abs(r); t = abs(c*r)

MN1/root-triangle ours
    Repaired: with S = Σg², T = Σh², U = Σgh and U² ≤ ST, the roots obey the triangle inequality
    0 <= r; 0 <= t; 0 <= m; U^2 <= r^2*t^2; m^2 = r^2 + 2*U + t^2 => m <= r + t
    draw m = abs(r^2 + 2*U + t^2)^0.5

"theory/MN1/statement"
    If every g_k² ≥ 0, then the total Frobenius gradient energy is non-negative
    assumes g_k² ≥ 0 for all k < d
    says Σ_{k<d} g_k² ≥ 0
    base S = 0 => 0 <= S
    step 0 <= S; 0 <= E => 0 <= S + E

MN1/always ours
    Its hypothesis g_k² ≥ 0 always holds for real channels: the sum is non-negative without it
    says Σ_{k<d} g_k² ≥ 0
    base S = 0 => 0 <= S
    step 0 <= S => 0 <= S + g^2

"theory/MN1/definite" sentence
    A valid norm is zero only at zero
    says Σ_{k<d} g_k² = 0 exactly when every g_k = 0
    base S = 0 => S = 0
    step 0 <= S => S + g^2 = 0 implies S = 0 and g = 0

MN1/cauchy-schwarz ours
    The square root of the energy obeys the triangle inequality (Cauchy–Schwarz)
    says (Σ g_k h_k)² ≤ Σ g_k² Σ h_k²
    base S = 0; T = 0; U = 0 => U^2 <= S*T
    step 0 <= S; 0 <= T; U^2 <= S*T => (U + g*h)^2 <= (S + g^2)*(T + h^2)

"theory/MN2/statement"
    If every eigen-channel's gradient energy contracts, the total contracts in any dimension
    assumes g'_k² ≤ g_k² for all k < d
    says Σ_{k<d} g'_k² ≤ Σ_{k<d} g_k²
    base S = 0; S' = 0 => S' <= S
    step S' <= S; g'^2 <= g^2 => S' + g'^2 <= S + g^2

"theory/MN3/statement"
    When each channel runs u_k = −κ_k g_k, the update energy is the sum of the squared steps
    assumes u_k = −κ_k g_k for all k < d
    says Σ_{k<d} u_k² = Σ_{k<d} (κ_k g_k)²
    base S = 0; T = 0 => S = T
    step S = T => S + u^2 = T + (kappa*g)^2
    with u = -(kappa*g)
""")
