(* Nagy 2026, section 5: Theorems B1 to B7, for two examples where examples enter. *)
Require Import Reals Lra Psatz.
Open Scope R_scope.

Definition mix (p x y : R) : R := p * x + (1 - p) * y.

Theorem B1 : forall p y1 y2, 0 <= p <= 1 -> y1 <= y2 -> y1 <= mix p y1 y2.
Proof. intros; unfold mix; nra. Qed.

Theorem B2 : forall p y1 y2, 0 <= p <= 1 -> y1 <= y2 -> mix p y1 y2 <= y2.
Proof. intros; unfold mix; nra. Qed.

Theorem average : forall p x1 x2, 0 <= p <= 1 -> x1^2 <= x2^2 -> x1^2 <= mix p (x1^2) (x2^2) <= x2^2.
Proof. intros; split; [apply B1 | apply B2]; assumption. Qed.

(* "all pairs lie on one line, so b_p/a_p = b/a for every weighting": (1, 2) and (2, 3) lie on y = x + 1 *)
Theorem line_false : exists m c x1 x2 p,
  0 <= p <= 1 /\ 0 < mix p (x1^2) (x2^2) /\
  mix p (x1 * (m * x1 + c)) (x2 * (m * x2 + c)) * mix (1/2) (x1^2) (x2^2) <>
  mix (1/2) (x1 * (m * x1 + c)) (x2 * (m * x2 + c)) * mix p (x1^2) (x2^2).
Proof. exists 1, 1, 1, 2, 1; unfold mix; repeat split; lra. Qed.

Theorem line_repaired : forall m x1 x2 p,
  mix p (x1 * (m * x1)) (x2 * (m * x2)) * mix (1/2) (x1^2) (x2^2) =
  mix (1/2) (x1 * (m * x1)) (x2 * (m * x2)) * mix p (x1^2) (x2^2).
Proof. intros; unfold mix; ring. Qed.

Theorem closer : forall u v, Rabs (1 - v) < Rabs (1 - u) -> (1 - v)^2 < (1 - u)^2.
Proof.
  intros u v H. rewrite <- (pow2_abs (1 - v)), <- (pow2_abs (1 - u)).
  pose proof (Rabs_pos (1 - v)). nra.
Qed.

Theorem general : forall u v, Rabs (1 - v) <= Rabs (1 - u) -> (1 - v)^2 <= (1 - u)^2.
Proof.
  intros u v H. rewrite <- (pow2_abs (1 - v)), <- (pow2_abs (1 - u)).
  pose proof (Rabs_pos (1 - v)). nra.
Qed.

Theorem B3 : forall u v, 0 < u -> u <= v -> v <= 1 -> (1 - v)^2 <= (1 - u)^2.
Proof. intros; nra. Qed.

Theorem B3_strict_false : exists u v, 0 < u /\ u <= v /\ v <= 1 /\ ~ (1 - v)^2 < (1 - u)^2.
Proof. exists 1, 1; lra. Qed.

Theorem B3_strict_repaired : forall u v, u < v -> v <= 1 -> (1 - v)^2 < (1 - u)^2.
Proof. intros; nra. Qed.

Theorem B4 : forall u v, 1 <= v -> v <= u -> u <= 2 -> (1 - v)^2 <= (1 - u)^2.
Proof. intros; nra. Qed.

Theorem B4_strict_false : exists u v, 1 <= v /\ v <= u /\ u <= 2 /\ ~ (1 - v)^2 < (1 - u)^2.
Proof. exists 2, 2; lra. Qed.

Theorem B4_strict_repaired : forall u v, 1 <= v -> v < u -> (1 - v)^2 < (1 - u)^2.
Proof. intros; nra. Qed.

Theorem B5 : forall a a_p, 0 <= a -> a <= a_p -> a^2 <= a_p^2.
Proof. intros; nra. Qed.

Theorem B6 : forall a a_p e, 0 <= a -> a <= a_p -> a^2 * e^2 <= a_p^2 * e^2.
Proof. intros a ap e H1 H2. apply Rmult_le_compat_r; [nra|]. apply B5; assumption. Qed.

(* the sentence of B6 without the a >= 0 of Lemma B5 *)
Theorem B6_sentence_false : exists a a_p e, a <= a_p /\ ~ a^2 * e^2 <= a_p^2 * e^2.
Proof. exists (-1), 0, 1; lra. Qed.

Theorem B6_sentence_repaired : forall a a_p e,
  a <= a_p -> 0 <= a + a_p -> a^2 * e^2 <= a_p^2 * e^2.
Proof. intros a ap e H1 H2. apply Rmult_le_compat_r; nra. Qed.

(* softmax descends to its own optimum, so that its gradient can be smaller although its curvature is larger *)
Theorem B6_own_optimum_false : exists x1 y1 x2 y2 p w,
  0 <= p <= 1 /\ mix (1/2) (x1^2) (x2^2) <= mix p (x1^2) (x2^2) /\
  ~ (mix (1/2) (x1^2) (x2^2) * w - mix (1/2) (x1 * y1) (x2 * y2))^2 <=
    (mix p (x1^2) (x2^2) * w - mix p (x1 * y1) (x2 * y2))^2.
Proof. exists 1, 0, 2, 2, 0, 1; unfold mix; repeat split; lra. Qed.

Theorem B6_own_optimum_repaired : forall x1 x2 m p w,
  0 <= p <= 1 -> mix (1/2) (x1^2) (x2^2) <= mix p (x1^2) (x2^2) ->
  (mix (1/2) (x1^2) (x2^2) * w - mix (1/2) (x1 * (m * x1)) (x2 * (m * x2)))^2 <=
  (mix p (x1^2) (x2^2) * w - mix p (x1 * (m * x1)) (x2 * (m * x2)))^2.
Proof.
  intros x1 x2 m p w Hp H.
  replace (mix (1/2) (x1^2) (x2^2) * w - mix (1/2) (x1 * (m * x1)) (x2 * (m * x2)))
    with (mix (1/2) (x1^2) (x2^2) * (w - m)) by (unfold mix; ring).
  replace (mix p (x1^2) (x2^2) * w - mix p (x1 * (m * x1)) (x2 * (m * x2)))
    with (mix p (x1^2) (x2^2) * (w - m)) by (unfold mix; ring).
  rewrite !Rpow_mult_distr. apply B6; [unfold mix; nra | assumption].
Qed.

Theorem B7 : forall v, v = 1 -> (1 - v)^2 = 0.
Proof. intros v ->; ring. Qed.

Theorem B7_newton : forall eta a_p w w_star,
  eta * a_p = 1 -> w - eta * (a_p * w - a_p * w_star) = w_star.
Proof.
  intros eta ap w ws H. replace (w - eta * (ap * w - ap * ws)) with (w - (eta * ap) * (w - ws)) by ring.
  rewrite H; ring.
Qed.

(* no attention tunes eta a_p to 1 if 1/eta lies outside the squared inputs *)
Theorem B7_tuning_false : exists x1 x2 eta,
  0 < x1 < x2 /\ 0 < eta /\ eta * mix (1/2) (x1^2) (x2^2) <= 2 /\ eta * mix (1/2) (x1^2) (x2^2) <> 1 /\
  forall p, 0 <= p <= 1 -> eta * mix p (x1^2) (x2^2) <> 1.
Proof. exists 1, 2, (1/10); unfold mix; repeat split; try lra; intros; nra. Qed.

Theorem B7_tuning_repaired : forall x1 x2 eta,
  0 < x1 < x2 -> eta * x1^2 <= 1 <= eta * x2^2 ->
  exists p, 0 <= p <= 1 /\ eta * mix p (x1^2) (x2^2) = 1.
Proof.
  intros x1 x2 eta Hx [H1 H2].
  assert (D : 0 < eta * x2^2 - eta * x1^2).
  { assert (x1^2 < x2^2) by nra. assert (0 < eta) by nra. nra. }
  exists ((eta * x2^2 - 1) / (eta * x2^2 - eta * x1^2)). split.
  - split.
    + apply Rmult_le_reg_r with (eta * x2^2 - eta * x1^2); [exact D|]. unfold Rdiv.
      rewrite Rmult_assoc, Rinv_l by lra. lra.
    + apply Rmult_le_reg_r with (eta * x2^2 - eta * x1^2); [exact D|]. unfold Rdiv.
      rewrite Rmult_assoc, Rinv_l by lra. lra.
  - unfold mix. field. lra.
Qed.
