"""Nagy 2026, sections 6 and 7: depth compounds (C1 to C4), the lift to several channels (D1 to D3) and Figure 1b against D2."""

from __future__ import annotations

from .notation import read

STATEMENTS = read("""
"theory/C/k-layers" elsewhere
    The usual k-step formula e_k² = (ρ²)^k e₀² (informal in the paper)
    assumes e_{k+1} = e_k − η a e_k
    says e_k² = ((1 − ηa)²)^k e₀² for every k
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
    draw u = 2 - v

# Section 7
"theory/D2/factor" sentence
    The balanced factor is ((a₂ − a₁)/(a₂ + a₁))²
    with s = a_1 + a_2
    eta*s = 2 => (1 - eta*a_1)^2*s^2 = (a_2 - a_1)^2 and (1 - eta*a_2)^2*s^2 = (a_2 - a_1)^2
    draw eta = 2/(a_1 + a_2)

# Section 7
"theory/D2/kappa" sentence
    … which equals ((κ − 1)/(κ + 1))² with κ = a₂/a₁
    with a_2 = kappa*a_1
    => (a_2 - a_1)^2*(kappa + 1)^2 = (kappa - 1)^2*(a_2 + a_1)^2

"theory/D2/optimal" sentence
    The optimal step η = 2/(a₁ + a₂): no step size contracts the worse channel more
    with s = a_1 + a_2
    0 <= a_1; 0 <= a_2; 0 < s => (a_2 - a_1)^2 <= (1 - eta*a_1)^2*s^2 or (a_2 - a_1)^2 <= (1 - eta*a_2)^2*s^2

D2/optimal-any-sign ours
    The same for any two curvatures with a₁ + a₂ ≠ 0
    with s = a_1 + a_2
    s != 0 => (a_2 - a_1)^2 <= (1 - eta*a_1)^2*s^2 or (a_2 - a_1)^2 <= (1 - eta*a_2)^2*s^2
    mend 0 <= a_1*a_2 for all eta

D2/balanced-is-optimal ours
    The converse: a step that balances the two channels is the optimal one
    with s = a_1 + a_2
    0 < a_1; 0 < a_2; (1 - eta*a_1)^2 = (1 - eta*a_2)^2 => eta*s = 2
    mend eta != 0 and a_1 != a_2
    draw eta = 2/(a_1 + a_2)

D2/unique ours
    Any other step size is strictly worse in one channel
    with s = a_1 + a_2
    0 < a_1; 0 < a_2; eta*s != 2 => (a_2 - a_1)^2 < (1 - eta*a_1)^2*s^2 or (a_2 - a_1)^2 < (1 - eta*a_2)^2*s^2

# Section 7
D2/middle elsewhere
    Only the two extreme channels matter: one between them contracts at least as much at the balanced step
    with s = a_1 + a_2
    0 < a_1; 0 < a_2; a_1 <= lam; lam <= a_2; eta*s = 2 => (1 - eta*lam)^2*s^2 <= (a_2 - a_1)^2
    draw eta = 2/(a_1 + a_2)

"theory/D3/statement"
    For a₁, a₂ ≥ 0, (a₂ − a₁)² ≤ (a₂ + a₁)²
    0 <= a_1; 0 <= a_2 => (a_2 - a_1)^2 <= (a_2 + a_1)^2

"theory/D3/equivalently" sentence
    Equivalently, 4 a₁ a₂ ≥ 0
    => (a_2 - a_1)^2 <= (a_2 + a_1)^2 iff 0 <= 4*a_1*a_2

"theory/D3/rate" sentence
    The condition-number rate ((a₂ − a₁)/(a₂ + a₁))² is at most 1
    with s = a_1 + a_2
    0 <= a_1; 0 <= a_2; r*s^2 = (a_2 - a_1)^2 => r <= 1
    mend 0 < s
    draw r = (a_2 - a_1)^2/(a_1 + a_2)^2

"theory/D3/spread" sentence
    Strict convergence requires a positive lower eigenvalue and a non-degenerate spread (a₁ ≠ a₂)
    with s = a_1 + a_2
    0 <= a_1; a_1 <= a_2 => (a_2 - a_1)^2 < s^2 implies 0 < a_1 and a_1 != a_2
    mend a_1 != a_2 or a_1 = 0

D3/strict ours
    Strict convergence exactly when the lower eigenvalue is positive
    with s = a_1 + a_2
    0 <= a_1; a_1 <= a_2 => (a_2 - a_1)^2 < s^2 iff 0 < a_1

# Figure 1b, section 8.1
fig1b elsewhere
    At η* = 2/(λ_min + λ_max) the largest eigenvalue converges fastest, the smallest is the bottleneck
    with s = a_1 + a_2
    0 < a_1; a_1 < a_2; eta*s = 2 => (1 - eta*a_2)^2 < (1 - eta*a_1)^2
    draw eta = 2/(a_1 + a_2)

# Figure 1b, section 8.1
fig1b/any-step ours
    At a step size η > 0 the largest eigenvalue converges fastest
    with s = a_1 + a_2
    0 < a_1; a_1 < a_2; 0 < eta => (1 - eta*a_2)^2 < (1 - eta*a_1)^2
    mend eta*s < 2
""")
