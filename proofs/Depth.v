(* Nagy 2026, sections 6 and 7: Theorems C1 to C4 and D1 to D3, and Figure 1b against D2. *)
Require Import Reals Lra Psatz.
Open Scope R_scope.

Theorem C1 : forall r, 0 <= r <= 1 -> r^2 <= r.
Proof. intros; nra. Qed.

Theorem C2 : forall r, 0 < r < 1 -> r^2 < r.
Proof. intros; nra. Qed.

Theorem C3 : forall e0 e2 r, e2^2 = r * e0^2 -> r <= 1 -> e2^2 <= e0^2.
Proof. intros e0 e2 r -> H. assert (0 <= e0^2) by nra. nra. Qed.

Theorem C4 : forall e0 e2 e3, e3^2 <= e2^2 -> e2^2 <= e0^2 -> e3^2 <= e0^2.
Proof. intros; lra. Qed.

Theorem D1 : forall L1 L2 L1' L2', L1' <= L1 -> L2' <= L2 -> L1' + L2' <= L1 + L2.
Proof. intros; lra. Qed.

Theorem D2 : forall u v, u + v = 2 -> (1 - u)^2 = (1 - v)^2.
Proof. intros u v H. replace u with (2 - v) by lra. ring. Qed.

Theorem D2_factor : forall eta a1 a2, eta * (a1 + a2) = 2 ->
  (1 - eta * a1)^2 * (a1 + a2)^2 = (a2 - a1)^2 /\ (1 - eta * a2)^2 * (a1 + a2)^2 = (a2 - a1)^2.
Proof.
  intros eta a1 a2 H.
  replace ((1 - eta * a1)^2 * (a1 + a2)^2) with ((a1 + a2 - eta * (a1 + a2) * a1)^2) by ring.
  replace ((1 - eta * a2)^2 * (a1 + a2)^2) with ((a1 + a2 - eta * (a1 + a2) * a2)^2) by ring.
  rewrite H; split; ring.
Qed.

(* the step 2/(a1 + a2) is optimal, which the statement of D2 does not say: no step size does better in the worse channel *)
Theorem D2_optimal : forall eta a1 a2, 0 <= a1 * a2 ->
  (a2 - a1)^2 <= (1 - eta * a1)^2 * (a1 + a2)^2 \/ (a2 - a1)^2 <= (1 - eta * a2)^2 * (a1 + a2)^2.
Proof.
  intros eta a1 a2 H.
  destruct (Rle_or_lt ((a2 - a1)^2) ((1 - eta * a1)^2 * (a1 + a2)^2)) as [|H1]; [left; assumption|].
  destruct (Rle_or_lt ((a2 - a1)^2) ((1 - eta * a2)^2 * (a1 + a2)^2)) as [|H2]; [right; assumption|].
  exfalso.
  set (s := a1 + a2) in *. set (d := a2 - a1) in *.
  set (X := (1 - eta * a1) * s). set (Y := (1 - eta * a2) * s).
  assert (HX : X^2 < d^2) by (unfold X; nra).
  assert (HY : Y^2 < d^2) by (unfold Y; nra).
  (* a2 X - a1 Y = s d, while abs X, abs Y < abs d *)
  assert (E : a2 * X - a1 * Y = s * d) by (unfold X, Y, s, d; ring).
  assert (Hd : 0 < d^2) by nra.
  assert (BX : Rabs X < Rabs d) by (apply Rsqr_lt_abs_0; unfold Rsqr; nra).
  assert (BY : Rabs Y < Rabs d) by (apply Rsqr_lt_abs_0; unfold Rsqr; nra).
  assert (T : Rabs (a2 * X - a1 * Y) <= Rabs a2 * Rabs X + Rabs a1 * Rabs Y).
  { unfold Rminus. eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_Ropp, !Rabs_mult. lra. }
  assert (S : Rabs s = Rabs a1 + Rabs a2).
  { unfold s, Rabs; destruct (Rcase_abs (a1 + a2)), (Rcase_abs a1), (Rcase_abs a2); nra. }
  rewrite E, Rabs_mult, S in T.
  pose proof (Rabs_pos a1). pose proof (Rabs_pos a2). pose proof (Rabs_pos d).
  assert (N : a1 <> 0 \/ a2 <> 0).
  { destruct (Req_dec a1 0) as [->|]; [|left; assumption]. right. intro Z. subst a2. unfold d in Hd. nra. }
  assert (P : 0 < Rabs a1 \/ 0 < Rabs a2) by (destruct N; [left | right]; apply Rabs_pos_lt; assumption).
  destruct P; nra.
Qed.

Theorem D2_any_sign_false : exists eta a1 a2, a1 + a2 <> 0 /\
  ~ ((a2 - a1)^2 <= (1 - eta * a1)^2 * (a1 + a2)^2 \/ (a2 - a1)^2 <= (1 - eta * a2)^2 * (a1 + a2)^2).
Proof. exists 0, (-1), 2; split; [lra|]. intros [H | H]; lra. Qed.

(* balanced is not optimal: eta = 0 balances, and so does any step where the curvatures are equal *)
Theorem D2_balanced_false : exists eta a1 a2,
  0 < a1 /\ 0 < a2 /\ (1 - eta * a1)^2 = (1 - eta * a2)^2 /\ eta * (a1 + a2) <> 2.
Proof. exists 0, 1, 2; lra. Qed.

Theorem D2_balanced_repaired : forall eta a1 a2,
  (1 - eta * a1)^2 = (1 - eta * a2)^2 -> eta <> 0 -> a1 <> a2 -> eta * (a1 + a2) = 2.
Proof.
  intros eta a1 a2 H He Ha.
  assert (E : (eta * (a2 - a1)) * (2 - eta * (a1 + a2)) = 0) by nra.
  apply Rmult_integral in E. destruct E as [E|]; [|lra].
  apply Rmult_integral in E. lra.
Qed.

Theorem D3 : forall a1 a2, 0 <= a1 -> 0 <= a2 -> (a2 - a1)^2 <= (a2 + a1)^2.
Proof. intros; nra. Qed.

Theorem D3_equivalently : forall a1 a2, (a2 - a1)^2 <= (a2 + a1)^2 <-> 0 <= 4 * a1 * a2.
Proof. intros; split; intro; nra. Qed.

(* "strict convergence requires ... a non-degenerate spread": equal eigenvalues converge in one step *)
Theorem D3_spread_false : exists a1 a2,
  0 <= a1 <= a2 /\ (a2 - a1)^2 < (a1 + a2)^2 /\ ~ (0 < a1 /\ a1 <> a2).
Proof. exists 1, 1; lra. Qed.

Theorem D3_strict : forall a1 a2, 0 <= a1 <= a2 -> ((a2 - a1)^2 < (a1 + a2)^2 <-> 0 < a1).
Proof. intros; split; intro; nra. Qed.

(* Figure 1b says that at 2/(lambda_min + lambda_max) the largest eigenvalue converges fastest *)
Theorem fig1b_never : forall eta a1 a2,
  eta * (a1 + a2) = 2 -> ~ (1 - eta * a2)^2 < (1 - eta * a1)^2.
Proof.
  intros eta a1 a2 H. rewrite (D2 (eta * a1) (eta * a2)) by lra. lra.
Qed.

Theorem fig1b_smaller_step : forall eta a1 a2,
  0 < a1 < a2 -> 0 < eta -> ((1 - eta * a2)^2 < (1 - eta * a1)^2 <-> eta * (a1 + a2) < 2).
Proof.
  intros eta a1 a2 Ha He.
  replace ((1 - eta * a2)^2) with ((1 - eta * a1)^2 - (eta * (a2 - a1)) * (2 - eta * (a1 + a2))) by ring.
  assert (0 < eta * (a2 - a1)) by nra. split; intro; nra.
Qed.
