(* Nagy 2026, Appendix A: any number of channels (MN1 to MN3), and any number of layers, by induction. *)
Require Import Reals Lra Psatz Lia.
Open Scope R_scope.

Fixpoint sum (f : nat -> R) (d : nat) : R :=
  match d with O => 0 | S n => sum f n + f n end.

Theorem MN1 : forall f d, (forall k, (k < d)%nat -> 0 <= f k) -> 0 <= sum f d.
Proof.
  intros f; induction d as [|n IH]; intro H; simpl; [lra|].
  assert (0 <= f n) by (apply H; lia). assert (0 <= sum f n) by (apply IH; intros; apply H; lia). lra.
Qed.

(* its hypothesis always holds: a square of a real number is not negative *)
Theorem MN1_always : forall g d, 0 <= sum (fun k => (g k)^2) d.
Proof. intros; apply MN1; intros; apply pow2_ge_0. Qed.

(* "the Frobenius energy is a valid norm": twice a vector has four times its energy, and 1 + 1 more than 1 and 1 *)
Theorem MN1_homogeneous_false : exists c g, 0 < c /\ sum (fun _ => (c * g)^2) 1 <> c * sum (fun _ => g^2) 1.
Proof. exists 2, 1; simpl; lra. Qed.

Theorem MN1_triangle_false : exists g h,
  ~ sum (fun _ => (g + h)^2) 1 <= sum (fun _ => g^2) 1 + sum (fun _ => h^2) 1.
Proof. exists 1, 1; simpl; lra. Qed.

Theorem MN1_definite : forall g d, sum (fun k => (g k)^2) d = 0 <-> forall k, (k < d)%nat -> g k = 0.
Proof.
  intros g; induction d as [|n IH]; simpl.
  - split; [intros _ k Hk; exfalso; lia | reflexivity].
  - split; intro H.
    + pose proof (MN1_always g n) as P. pose proof (pow2_ge_0 (g n)) as Q.
      simpl in P, Q. assert (Z : sum (fun k => g k * (g k * 1)) n = 0) by lra. assert (Y : g n = 0) by nra.
      intros k Hk. destruct (PeanoNat.Nat.eq_dec k n) as [->|]; [exact Y|].
      apply IH; [exact Z | lia].
    + assert (Z : sum (fun k => g k * (g k * 1)) n = 0) by (apply IH; intros; apply H; lia).
      rewrite Z, (H n) by lia. ring.
Qed.

Lemma cauchy_schwarz_step : forall S T U x y,
  0 <= S -> 0 <= T -> U^2 <= S * T -> (U + x * y)^2 <= (S + x^2) * (T + y^2).
Proof.
  intros S T U x y HS HT H.
  assert (K : 2 * U * (x * y) <= S * y^2 + T * x^2); [|nra].
  destruct (Req_dec S 0) as [Z|Z].
  - subst S. assert (E : U = 0) by nra. subst U. pose proof (pow2_ge_0 x). nra.
  - assert (P : 0 < S) by lra.
    apply Rmult_le_reg_l with S; [exact P|].
    pose proof (pow2_ge_0 (S * y - U * x)) as Q.
    assert (B : U^2 * x^2 <= S * T * x^2) by (apply Rmult_le_compat_r; [apply pow2_ge_0 | exact H]).
    nra.
Qed.

Theorem cauchy_schwarz : forall g h d,
  (sum (fun k => g k * h k) d)^2 <= sum (fun k => (g k)^2) d * sum (fun k => (h k)^2) d.
Proof.
  intros g h; induction d as [|n IH]; cbn [sum]; [lra|].
  apply cauchy_schwarz_step; [apply MN1_always | apply MN1_always | exact IH].
Qed.

Theorem MN2 : forall g g' d, (forall k, (k < d)%nat -> (g' k)^2 <= (g k)^2) ->
  sum (fun k => (g' k)^2) d <= sum (fun k => (g k)^2) d.
Proof.
  intros g g'; induction d as [|n IH]; intro H; cbn [sum]; [lra|].
  apply Rplus_le_compat; [apply IH; intros; apply H; lia | apply H; lia].
Qed.

Theorem MN3 : forall u kappa g d, (forall k, (k < d)%nat -> u k = - (kappa k * g k)) ->
  sum (fun k => (u k)^2) d = sum (fun k => (kappa k * g k)^2) d.
Proof.
  intros u kappa g; induction d as [|n IH]; intro H; cbn [sum]; [reflexivity|].
  rewrite IH by (intros; apply H; lia). rewrite (H n) by lia. ring.
Qed.

(* section 6: the k-step formula, which the document leaves to informal induction *)
Fixpoint after (eta a : R) (e : R) (k : nat) : R :=
  match k with O => e | S n => (1 - eta * a) * after eta a e n end.

Theorem k_layers : forall eta a e k, (after eta a e k)^2 = ((1 - eta * a)^2)^k * e^2.
Proof.
  intros eta a e; induction k as [|n IH]; cbn [after]; [simpl; ring|].
  rewrite Rpow_mult_distr, IH. generalize ((1 - eta * a)^2) (e^2); intros r E. simpl. ring.
Qed.

(* A7: inside the window the error tends to zero *)
Theorem A7_limit : forall eta a e, 0 < eta * a < 2 ->
  forall eps, 0 < eps -> exists N, forall k, (N <= k)%nat -> (after eta a e k)^2 < eps.
Proof.
  intros eta a e Hw eps Heps.
  assert (Hr : Rabs ((1 - eta * a)^2) < 1).
  { rewrite Rabs_pos_eq by apply pow2_ge_0. nra. }
  assert (He : 0 < e^2 + 1) by nra.
  destruct (pow_lt_1_zero _ Hr (eps / (e^2 + 1))) as [N HN].
  { apply Rdiv_lt_0_compat; assumption. }
  exists N. intros k Hk. rewrite k_layers.
  specialize (HN k Hk). assert (P : 0 <= ((1 - eta * a)^2)^k) by (apply pow_le, pow2_ge_0).
  rewrite Rabs_pos_eq in HN by exact P.
  assert (B : ((1 - eta * a)^2)^k * (e^2 + 1) < eps).
  { apply Rmult_lt_reg_r with (/ (e^2 + 1)); [apply Rinv_0_lt_compat; exact He|].
    rewrite Rmult_assoc, Rinv_r by lra. unfold Rdiv in HN. lra. }
  nra.
Qed.
