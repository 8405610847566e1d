(* Nagy 2026, sections 1 to 4: Theorems A1 to A7 and the two ring identities.
   A theorem bears the name of the statement it proves; _false is a sentence refuted as printed, by a counterexample; _repaired is the
   same sentence with the hypothesis that it needs. *)
Require Import Reals Lra Psatz.
Open Scope R_scope.

Definition loss (a b c w : R) : R := a * w^2 - 2 * b * w + c.
Definition grad (a b w : R) : R := a * w - b.
Definition next (eta a b w : R) : R := w - eta * grad a b w.

Theorem A1 : forall eta a b w, 0 < eta -> eta * (b - a * w) = - (eta * grad a b w).
Proof. intros; unfold grad; ring. Qed.

Theorem A1_any_step : forall eta a b w, eta * (b - a * w) = - (eta * grad a b w).
Proof. intros; unfold grad; ring. Qed.

Theorem A2 : forall a b w w_star, 0 < a -> a * w_star = b -> grad a b w = a * (w - w_star).
Proof. intros a b w ws _ <-; unfold grad; ring. Qed.

Theorem A2_vanishes : forall a b w w_star, 0 < a -> a * w_star = b -> (grad a b w = 0 <-> w = w_star).
Proof.
  intros a b w ws Ha <-; unfold grad; split; intro H; [|subst; ring].
  apply Rmult_eq_reg_l with a; lra.
Qed.

Theorem optimum_false : exists a w w', 0 <= a /\ a * w = a * w' /\ w <> w'.
Proof. exists 0, 0, 1; lra. Qed.

(* the linear term of L is 2 g h, not g h: section 1 absorbs the factor into the step size *)
Theorem gradient_false : exists a b c w h, loss a b c (w + h) - loss a b c w <> grad a b w * h + a * h^2.
Proof. exists 2, 1, 1, 1, 1; unfold loss, grad; lra. Qed.

Theorem gradient_repaired : forall a b c w h,
  loss a b c (w + h) - loss a b c w = 2 * grad a b w * h + a * h^2.
Proof. intros; unfold loss, grad; ring. Qed.

Theorem loss_decrease_identity : forall eta a b c w,
  loss a b c w - loss a b c (next eta a b w) = eta * (2 - eta * a) * (grad a b w)^2.
Proof. intros; unfold loss, next, grad; ring. Qed.

Theorem A3 : forall eta a, 0 < eta -> eta * a <= 2 -> 0 <= eta * (2 - eta * a).
Proof. intros; nra. Qed.

Theorem A4 : forall g : R, 0 <= g^2.
Proof. intros; nra. Qed.

Theorem A5 : forall L L_next etafac gsq,
  L - L_next = etafac * gsq -> 0 <= etafac -> 0 <= gsq -> L_next <= L.
Proof. intros; nra. Qed.

Theorem A5_window : forall eta a b c w,
  0 < eta -> eta * a <= 2 -> loss a b c (next eta a b w) <= loss a b c w.
Proof.
  intros eta a b c w H1 H2.
  apply (A5 _ _ (eta * (2 - eta * a)) ((grad a b w)^2)).
  - apply loss_decrease_identity.
  - apply A3; assumption.
  - apply A4.
Qed.

Theorem A5_strict_false : exists eta a b c w,
  0 < a /\ 0 < eta /\ eta * a <= 2 /\ grad a b w <> 0 /\ ~ loss a b c (next eta a b w) < loss a b c w.
Proof. exists 2, 1, 0, 0, 1; unfold loss, next, grad; repeat split; lra. Qed.

Theorem A5_strict_repaired : forall eta a b c w,
  0 < eta -> eta * a < 2 -> grad a b w <> 0 -> loss a b c (next eta a b w) < loss a b c w.
Proof.
  intros eta a b c w H1 H2 Hg.
  pose proof (loss_decrease_identity eta a b c w) as E.
  assert (P : 0 < eta * (2 - eta * a) * (grad a b w)^2); [|lra].
  apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat; lra|].
  assert (0 < grad a b w \/ grad a b w < 0) by lra.
  destruct H; nra.
Qed.

Theorem error_recursion_identity : forall eta a w w_star,
  (next eta a (a * w_star) w - w_star)^2 = (1 - eta * a)^2 * (w - w_star)^2.
Proof. intros; unfold next, grad; ring. Qed.

Theorem A6 : forall eta a, 0 <= eta * a -> eta * a <= 2 -> (1 - eta * a)^2 <= 1.
Proof. intros; nra. Qed.

Theorem A7 : forall e e_next rho2, e_next^2 = rho2 * e^2 -> rho2 <= 1 -> e_next^2 <= e^2.
Proof. intros e en r -> H. pose proof (A4 e). nra. Qed.

(* "0 < rho^2 < 1 (equivalently 0 < eta a < 2)" fails at the Newton point eta a = 1 *)
Theorem A7_equivalence_false : exists eta a,
  0 < eta * a < 2 /\ ~ 0 < (1 - eta * a)^2 < 1.
Proof. exists 1, 1; lra. Qed.

Theorem A7_equivalence_repaired : forall eta a, eta * a <> 1 ->
  (0 < (1 - eta * a)^2 < 1 <-> 0 < eta * a < 2).
Proof.
  intros eta a H; generalize dependent (eta * a); intros x H; split; intros [H1 H2]; split; try nra.
Qed.

Theorem A7_window : forall eta a, (1 - eta * a)^2 < 1 <-> 0 < eta * a < 2.
Proof. intros eta a; generalize (eta * a); intro x; split; [intro; split|]; nra. Qed.

Theorem A7_boundary : forall eta a, (1 - eta * a)^2 = 1 <-> eta * a = 0 \/ eta * a = 2.
Proof.
  intros eta a; generalize (eta * a); intro x; split.
  - intro H. assert (E : x * (x - 2) = 0) by nra. apply Rmult_integral in E. lra.
  - intros [-> | ->]; ring.
Qed.
