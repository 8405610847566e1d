"""The thirty theorems and the sentences around them, as a table (:func:`.solver.read`).

Sections 1 to 4: attention is a gradient step (A1 to A7). Section 5: softmax attention as a preconditioned one (B1 to B7), for two examples where
examples enter. Sections 6 and 7: depth compounds (C1 to C4), several channels (D1 to D3). Appendix A: gains of the layer (V1 to V3), two channels
(M1 to M3), sums over any number of channels (MN1 to MN3).
"""

from __future__ import annotations

from .solver import read

#: The paper's thirty numbered statements, in its order.
GROUPS = {"A": 7, "B": 7, "C": 4, "D": 3, "V": 3, "M": 3, "MN": 3}
THIRTY = tuple(f"{group}{i}" for group, count in GROUPS.items() for i in range(1, count + 1))
STATEMENTS = read(r"""
# Section 1, Theorem V1
1/gradient reading
    ∇L = a w − b (V1), taken literally: L(w + h) − L(w) has the linear term g h (section 1 moves a factor 2 into η)
    with g = a*w - b
    => a*(w + h)^2 - 2*b*(w + h) + c - (a*w^2 - 2*b*w + c) = g*h + a*h^2

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
"theory/loss-decrease/statement" elsewhere
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
"theory/error-recursion/statement" elsewhere
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

A7/equivalence sentence
    A strictly contractive rate, 0 < ρ² < 1 (equivalently 0 < ηa < 2)
    with rho2 = (1 - eta*a)^2
    => 0 < rho2 and rho2 < 1 iff 0 < eta*a and eta*a < 2
    mend eta*a != 1

"theory/A7/boundary" sentence
    The boundary cases are ρ² = 1 (ηa ∈ {0, 2})
    with rho2 = (1 - eta*a)^2
    => rho2 = 1 iff eta*a = 0 or eta*a = 2

"theory/A7/limit" sentence
    Iterating at a fixed rate ρ² < 1 drives the squared error to zero: (ρ²)^k ≤ 1/(1 + k h) with h = 1/ρ² − 1
    assumes \rho^2(1 + h) = 1; h > 0
    says (\rho^2)^k (1 + k h) \le 1 \text{ for every } k
    base P = 1; k = 0 => P*(1 + k*h) <= 1
    step 0 < h; 0 <= k; 0 <= P; rho2*(1 + h) = 1; P*(1 + k*h) <= 1 => P*rho2*(1 + (k + 1)*h) <= 1

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

B3/strict sentence
    The softmax contraction factor is smaller, yielding faster convergence
    0 < u; u <= v; v <= 1 => (1 - v)^2 < (1 - u)^2
    mend u < v

"theory/B4/statement"
    If 1 ≤ v ≤ u ≤ 2, then (1 − v)² ≤ (1 − u)²
    1 <= v; v <= u; u <= 2 => (1 - v)^2 <= (1 - u)^2

B4/strict sentence
    This also accelerates convergence
    1 <= v; v <= u; u <= 2 => (1 - v)^2 < (1 - u)^2
    mend v < u

"theory/B5/statement"
    If a ≥ 0 and a_p ≥ a, then a² ≤ a_p²
    0 <= a; a <= a_p => a^2 <= a_p^2

"theory/B6/statement"
    g_p² = a_p² e² is at least g² = a² e² when a_p ≥ a (Lemma B5, so a ≥ 0) and e² ≥ 0
    0 <= a; a <= a_p => a^2*e^2 <= a_p^2*e^2

"theory/B6/own-optimum" sentence
    Softmax-concentrating attention amplifies the descent signal: b_p − a_p w against b − a w, two examples
    with a = (x_1^2 + x_2^2)/2; b = (x_1*y_1 + x_2*y_2)/2; a_p = p*x_1^2 + (1 - p)*x_2^2; b_p = p*x_1*y_1 + (1 - p)*x_2*y_2; g = a*w - b; g_p = a_p*w - b_p
    0 <= p; p <= 1; a <= a_p => g^2 <= g_p^2
    mend y_1*x_2 = y_2*x_1

"theory/B7/statement"
    At the optimal step product v = 1 the contraction factor (1 − v)² = 0
    v = 1 => (1 - v)^2 = 0

"theory/B7/newton" sentence
    The preconditioned step reaches the weighted least-squares optimum in exactly one step
    with b_p = a_p*w_star
    eta*a_p = 1 => w - eta*(a_p*w - b_p) = w_star

"theory/B7/tuning" reading
    Even when the linear step undershoots or overshoots (ηa ≠ 1), the attention reweighting can tune η a_p = 1
    with a = (x_1^2 + x_2^2)/2
    0 < x_1; x_1 < x_2; 0 < eta; eta*a <= 2; eta*a != 1 => 0 <= p and p <= 1 and eta*(p*x_1^2 + (1 - p)*x_2^2) = 1
    some p exactly when (eta*x_1^2 - 1)*(eta*x_2^2 - 1) <= 0
    mend (eta*x_1^2 - 1)*(eta*x_2^2 - 1) <= 0

"theory/C/k-layers" elsewhere
    The usual k-step formula e_k² = (ρ²)^k e₀² (informal in the paper)
    assumes e_{k+1} = e_k - \eta a e_k
    says e_k^2 = ((1 - \eta a)^2)^k e_0^2 \text{ for every } k
    base P = 1; E_0 = e^2 => e^2 = P*E_0
    step e^2 = P*E_0 => (e - eta*a*e)^2 = P*(1 - eta*a)^2*E_0

"theory/C1/statement"
    For ρ² ∈ [0, 1], (ρ²)² ≤ ρ²
    0 <= rho2; rho2 <= 1 => rho2^2 <= rho2

"theory/C2/statement"
    For 0 < ρ² < 1, (ρ²)² < ρ²
    0 < rho2; rho2 < 1 => rho2^2 < rho2

"theory/C2/always" sentence
    More layers always help unless ρ² = 0 or ρ² = 1 (within Lemma A6's ρ² ≤ 1)
    0 <= rho2; rho2 <= 1; rho2 != 0; rho2 != 1 => rho2^2 < rho2

"theory/C3/statement"
    If e₂² = ρ₂² e₀² with ρ₂² ≤ 1, then e₂² ≤ e₀²
    with E_2 = rho2_two*e_0^2
    rho2_two <= 1 => E_2 <= e_0^2

"theory/C4/statement"
    e₃² ≤ e₂² and e₂² ≤ e₀² give e₃² ≤ e₀²
    e_3^2 <= e_2^2; e_2^2 <= e_0^2 => e_3^2 <= e_0^2

"theory/D1/statement"
    If L_tot = L₁ + L₂ and each channel descends, then L'_tot ≤ L_tot
    L_1' <= L_1; L_2' <= L_2 => L_1' + L_2' <= L_1 + L_2

"theory/D2/statement"
    If u + v = 2, then (1 − u)² ≤ (1 − v)², and the reverse: equality
    u + v = 2 => (1 - u)^2 = (1 - v)^2

# Section 7
"theory/D2/factor" sentence
    The balanced factor is ((a₂ − a₁)/(a₂ + a₁))²
    with s = a_1 + a_2
    eta*s = 2 => (1 - eta*a_1)^2*s^2 = (a_2 - a_1)^2 and (1 - eta*a_2)^2*s^2 = (a_2 - a_1)^2

# Section 7
"theory/D2/kappa" sentence
    … which equals ((κ − 1)/(κ + 1))² with κ = a₂/a₁
    with a_2 = kappa*a_1
    => (a_2 - a_1)^2*(kappa + 1)^2 = (kappa - 1)^2*(a_2 + a_1)^2

"theory/D2/optimal" sentence
    The optimal step η = 2/(a₁ + a₂): no step size contracts the worse channel more
    with s = a_1 + a_2
    0 <= a_1; 0 <= a_2; 0 < s => (a_2 - a_1)^2 <= (1 - eta*a_1)^2*s^2 or (a_2 - a_1)^2 <= (1 - eta*a_2)^2*s^2

# Section 7
D2/middle elsewhere
    Only the two extreme channels matter: one between them contracts at least as much at the balanced step
    with s = a_1 + a_2
    0 < a_1; 0 < a_2; a_1 <= lam; lam <= a_2; eta*s = 2 => (1 - eta*lam)^2*s^2 <= (a_2 - a_1)^2

"theory/D3/statement"
    For a₁, a₂ ≥ 0, (a₂ − a₁)² ≤ (a₂ + a₁)²
    0 <= a_1; 0 <= a_2 => (a_2 - a_1)^2 <= (a_2 + a_1)^2

"theory/D3/equivalently" sentence
    Equivalently, 4 a₁ a₂ ≥ 0
    => (a_2 - a_1)^2 <= (a_2 + a_1)^2 iff 0 <= 4*a_1*a_2

D3/rate sentence
    The condition-number rate ((a₂ − a₁)/(a₂ + a₁))² is at most 1
    with s = a_1 + a_2
    0 <= a_1; 0 <= a_2; r*s^2 = (a_2 - a_1)^2 => r <= 1
    mend 0 < s

D3/spread sentence
    Strict convergence requires a positive lower eigenvalue and a non-degenerate spread (a₁ ≠ a₂)
    with s = a_1 + a_2
    0 <= a_1; a_1 <= a_2 => (a_2 - a_1)^2 < s^2 implies 0 < a_1 and a_1 != a_2
    mend a_1 != a_2 or a_1 = 0

# Figure 1b, section 8.1
fig1b elsewhere
    At η* = 2/(λ_min + λ_max) the largest eigenvalue converges fastest, the smallest is the bottleneck
    with s = a_1 + a_2
    0 < a_1; a_1 < a_2; eta*s = 2 => (1 - eta*a_2)^2 < (1 - eta*a_1)^2

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

"theory/V3/statement"
    With the condition of B7 (η a_p = 1) and κ = η, the composite gain satisfies κ a_p = 1
    with kappa = v_o*q_k
    kappa = eta; eta*a_p = 1 => kappa*a_p = 1

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

"theory/M3/no-gain" sentence
    No single scalar gain can zero the contraction in both channels simultaneously
    lam_1 < lam_2 => not ((1 - kappa*lam_1)^2 = 0 and (1 - kappa*lam_2)^2 = 0)

"theory/M3/residual" sentence
    … leaves channel 2 with residual contraction: (1 − κλ₂)² ≤ 1, for 0 < λ₁
    0 < lam_1; lam_1 < lam_2; kappa*lam_1 = 1 => (1 - kappa*lam_2)^2 <= 1
    mend lam_2 <= 2*lam_1

"theory/MN1/homogeneous" sentence
    Frobenius energy is a valid norm, so twice the vector has twice the energy (c > 0)
    0 < c => (c*g)^2 = c*g^2

"theory/MN1/triangle" sentence
    Frobenius energy is a valid norm, so it obeys the triangle inequality
    => (g + h)^2 <= g^2 + h^2

"theory/MN1/statement"
    If every g_k² ≥ 0, then the total Frobenius gradient energy is non-negative
    assumes g_k^2 \ge 0 \text{ for all } k < d
    says \sum_{k<d} g_k^2 \ge 0
    base S = 0 => 0 <= S
    step 0 <= S; 0 <= E => 0 <= S + E

"theory/MN1/definite" sentence
    A valid norm is zero only at zero
    says \sum_{k<d} g_k^2 = 0 \text{ exactly when every } g_k = 0
    base S = 0 => S = 0
    step 0 <= S => S + g^2 = 0 implies S = 0 and g = 0

"theory/MN2/statement"
    If every eigen-channel's gradient energy contracts, the total contracts in any dimension
    assumes g_k^{\prime2} \le g_k^2 \text{ for all } k < d
    says \sum_{k<d} g_k^{\prime2} \le \sum_{k<d} g_k^2
    base S = 0; S' = 0 => S' <= S
    step S' <= S; g'^2 <= g^2 => S' + g'^2 <= S + g^2

"theory/MN3/statement"
    When each channel runs u_k = −κ_k g_k, the update energy is the sum of the squared steps
    assumes u_k = -\kappa_k g_k \text{ for all } k < d
    says \sum_{k<d} u_k^2 = \sum_{k<d} (\kappa_k g_k)^2
    base S = 0; T = 0 => S = T
    step S = T => S + u^2 = T + (kappa*g)^2
    with u = -(kappa*g)
""")
