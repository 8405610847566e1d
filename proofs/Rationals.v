(* Nagy 2026: statements over the rational numbers, where Coq needs no axiom at all. Over the reals it needs two or three (see the list
   that `make proofs` prints), as does every library whose real numbers are not merely computable ones. *)
Require Import QArith Lqa.
Open Scope Q_scope.

Theorem Q_A1 : forall eta a b w, eta * (b - a * w) == - (eta * (a * w - b)).
Proof. intros; ring. Qed.

Theorem Q_A3 : forall eta a, 0 < eta -> eta * a <= 2 -> 0 <= eta * (2 - eta * a).
Proof. intros; nra. Qed.

Theorem Q_A6 : forall eta a, 0 <= eta * a -> eta * a <= 2 -> (1 - eta * a) * (1 - eta * a) <= 1.
Proof. intros; nra. Qed.

Theorem Q_A7_equivalence_false : exists eta a,
  0 < eta * a /\ eta * a < 2 /\ ~ 0 < (1 - eta * a) * (1 - eta * a).
Proof. exists 1, 1; repeat split; lra. Qed.

Theorem Q_B3 : forall u v, 0 < u -> u <= v -> v <= 1 -> (1 - v) * (1 - v) <= (1 - u) * (1 - u).
Proof. intros; nra. Qed.

Theorem Q_B5 : forall a a_p, 0 <= a -> a <= a_p -> a * a <= a_p * a_p.
Proof. intros; nra. Qed.

Theorem Q_C2 : forall r, 0 < r -> r < 1 -> r * r < r.
Proof. intros; nra. Qed.

Theorem Q_D2 : forall u v, u + v == 2 -> (1 - u) * (1 - u) == (1 - v) * (1 - v).
Proof. intros u v H. assert (E : u == 2 - v) by lra. rewrite E. ring. Qed.

Theorem Q_D3 : forall a1 a2, 0 <= a1 -> 0 <= a2 -> (a2 - a1) * (a2 - a1) <= (a2 + a1) * (a2 + a1).
Proof. intros; nra. Qed.

Theorem Q_V3_attainable_false : ~ exists v_o q_k, v_o * q_k * 1 == 1 /\ v_o * q_k * 2 == 1.
Proof. intros [v [q [H1 H2]]]. lra. Qed.
