(* Nagy 2026, Appendix A: gains of the attention layer (V1 to V3) and two channels (M1 to M3). *)
Require Import Reals Lra Psatz.
Open Scope R_scope.

Theorem V1 : forall v_o q_k a b w, (v_o * q_k) * (b - a * w) = - ((v_o * q_k) * (a * w - b)).
Proof. intros; ring. Qed.

(* the product v_o q_k plays no part: V1 is A1 with the step size renamed *)
Theorem V1_any_gain : forall kappa a b w, kappa * (b - a * w) = - (kappa * (a * w - b)).
Proof. intros; ring. Qed.

Theorem V2 : forall v_o q_k, 0 < v_o -> 0 < q_k -> 0 < v_o * q_k.
Proof. intros; nra. Qed.

Theorem V2_window_false : exists v_o q_k a, 0 < v_o /\ 0 < q_k /\ 0 < a /\ ~ v_o * q_k * a <= 2.
Proof. exists 2, 2, 1; lra. Qed.

Theorem V3 : forall v_o q_k eta a_p, v_o * q_k = eta -> eta * a_p = 1 -> v_o * q_k * a_p = 1.
Proof. intros v q eta ap -> H; exact H. Qed.

Theorem V3_newton : forall v_o q_k a_p w w_star,
  v_o * q_k * a_p = 1 -> w + v_o * q_k * (a_p * w_star - a_p * w) = w_star.
Proof.
  intros v q ap w ws H. replace (w + v * q * (ap * ws - ap * w)) with (w + (v * q * ap) * (ws - w)) by ring.
  rewrite H; ring.
Qed.

(* section 5.2 allows a_p = 0; then no gain will do *)
Theorem V3_exists_false : exists a_p, 0 <= a_p /\ ~ exists v_o q_k, v_o * q_k * a_p = 1.
Proof. exists 0; split; [lra|]. intros [v [q H]]. lra. Qed.

Theorem V3_exists_repaired : forall a_p, a_p <> 0 -> exists v_o q_k, v_o * q_k * a_p = 1.
Proof. intros ap H. exists 1, (/ ap). field; assumption. Qed.

(* weights are fixed, curvatures are not: one gain is Newton for one curvature only *)
Theorem V3_attainable_false : exists a1 a2, 0 < a1 /\ 0 < a2 /\
  ~ exists v_o q_k, v_o * q_k * a1 = 1 /\ v_o * q_k * a2 = 1.
Proof. exists 1, 2; repeat split; try lra. intros [v [q [H1 H2]]]. lra. Qed.

Theorem V3_attainable_repaired : forall kappa a1 a2, kappa * a1 = 1 -> kappa * a2 = 1 -> a1 = a2.
Proof.
  intros k a1 a2 H1 H2. apply Rmult_eq_reg_l with k; [lra|]. intro Z; subst k. lra.
Qed.

Theorem M1 : forall k1 g1 k2 g2, (- (k1 * g1))^2 + (- (k2 * g2))^2 = k1^2 * g1^2 + k2^2 * g2^2.
Proof. intros; ring. Qed.

Theorem M2 : forall g1 g2 g1' g2', g1'^2 <= g1^2 -> g2'^2 <= g2^2 -> g1'^2 + g2'^2 <= g1^2 + g2^2.
Proof. intros; lra. Qed.

Theorem M2_guaranteed : forall a b w w', 0 <= a ->
  a * w'^2 - 2 * b * w' <= a * w^2 - 2 * b * w -> (a * w' - b)^2 <= (a * w - b)^2.
Proof.
  intros a b w w' Ha H.
  replace ((a * w' - b)^2) with (a * (a * w'^2 - 2 * b * w') + b^2) by ring.
  replace ((a * w - b)^2) with (a * (a * w^2 - 2 * b * w) + b^2) by ring.
  apply Rplus_le_compat_r, Rmult_le_compat_l; assumption.
Qed.

Theorem M3_no_gain : forall kappa l1 l2, l1 < l2 ->
  ~ ((1 - kappa * l1)^2 = 0 /\ (1 - kappa * l2)^2 = 0).
Proof.
  intros k l1 l2 H [H1 H2].
  assert (E1 : 1 - k * l1 = 0) by nra. assert (E2 : 1 - k * l2 = 0) by nra.
  assert (l1 = l2) by (apply (V3_attainable_repaired k); lra). lra.
Qed.

Theorem M3 : forall kappa l1 l2, l1 < l2 -> kappa * l1 = 1 -> 0 < (1 - kappa * l2)^2.
Proof.
  intros k l1 l2 H H1.
  destruct (Req_dec ((1 - k * l2)^2) 0) as [Z|Z]; [|pose proof (pow2_ge_0 (1 - k * l2)); lra].
  exfalso. apply (M3_no_gain k l1 l2 H). split; [rewrite H1; ring | exact Z].
Qed.

(* what is left of channel 2 need not be a contraction *)
Theorem M3_residual_false : exists kappa l1 l2,
  0 < l1 < l2 /\ kappa * l1 = 1 /\ ~ (1 - kappa * l2)^2 <= 1.
Proof. exists 1, 1, 3; lra. Qed.

Theorem M3_residual_repaired : forall kappa l1 l2,
  0 < l1 < l2 -> kappa * l1 = 1 -> l2 <= 2 * l1 -> (1 - kappa * l2)^2 <= 1.
Proof.
  intros k l1 l2 [H0 H] H1 H2.
  assert (0 < k) by nra. assert (1 <= k * l2 <= 2) by (split; nra). nra.
Qed.

(* the barrier of M3 is one of a single layer: two layers, one gain each, zero both channels *)
Theorem M3_two_layers : forall k1 k2 l1 l2, k1 * l1 = 1 -> k2 * l2 = 1 ->
  (1 - k1 * l1)^2 * (1 - k2 * l1)^2 = 0 /\ (1 - k1 * l2)^2 * (1 - k2 * l2)^2 = 0.
Proof. intros k1 k2 l1 l2 H1 H2; rewrite H1, H2; split; ring. Qed.
