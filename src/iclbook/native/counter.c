/* Numbers by counter: Philox-4x32-10 (Salmon et al. 2011) and standard normals from it (Box and Muller 1958), W counters at once. */
#include "vectors.h"

#define ROUNDS 10

/* Words of the counters (place .. place + W - 1, purpose, low and high word of step). */
INLINE void philox(vw out[4], uint64_t place, uint32_t purpose, uint64_t step, const int64_t key[2])
{
    vl c[2][4];
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < W / 2; i++) c[half][0][i] = place + half * (W / 2) + i;
#if !defined GPU
        c[half][1] = (vl){} + purpose;
        c[half][2] = (vl){} + (step & 0xffffffffu);
        c[half][3] = (vl){} + (step >> 32);
#endif /* not GPU */
#if defined GPU
        c[half][1] = purpose, c[half][2] = step & 0xffffffffu, c[half][3] = step >> 32;
#endif /* GPU */
    }
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < ROUNDS; round++) {
        for (int half = 0; half < 2; half++) { /* high halves hold what is left of earlier products: a multiplication does not read them */
            vl first = product(c[half][0], 0xD2511F53u), second = product(c[half][2], 0xCD9E8D57u);
            c[half][0] = (second >> 32) ^ c[half][1] ^ k0;
            c[half][1] = second;
            c[half][2] = (first >> 32) ^ c[half][3] ^ k1;
            c[half][3] = first;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int word = 0; word < 4; word++) out[word] = low_words(c[0][word], c[1][word]);
}

INLINE void box_muller(vf *first, vf *second, vw size, vw turn)
{
    vf radius = square_root(-2.0f * logarithm((to_float(size) + 0.5f) * 0x1p-32f)), c, s;
    sine_cosine(to_float(turn) * (float)(6.283185307179586 * 0x1p-32), &s, &c);
    *first = radius * c;
    *second = radius * s;
}

/* The q-th word of m = ceil(n / 4) counters stands at q m + place: how many of W from a place on belong to the n. */
INLINE int64_t room(int64_t n, int64_t m, int q, int64_t place)
{
    int64_t end = (q + 1) * m < n ? (q + 1) * m : n, left = end - q * m - place;
    return left < 0 ? 0 : left < W ? left : W;
}

INLINE void normals_of_step(float *out, const int64_t key[2], uint64_t step, uint32_t purpose, int64_t n)
{
    const int64_t m = (n + 3) / 4;
    for (int64_t place = 0; place < m; place += W) {
        vw w[4];
        vf x[4];
        philox(w, place, purpose, step, key);
        box_muller(&x[0], &x[1], w[0], w[1]);
        box_muller(&x[2], &x[3], w[2], w[3]);
        for (int q = 0; q < 4; q++) {
            int64_t fit = room(n, m, q, place);
            if (fit == W) store(out + q * m + place, x[q]);
            else memcpy(out + q * m + place, &x[q], 4 * fit);
        }
    }
}

INLINE void words_of_step(int64_t *out, const int64_t key[2], uint64_t step, uint32_t purpose, int64_t n)
{
    const int64_t m = (n + 3) / 4;
    for (int64_t place = 0; place < m; place += W) {
        vw w[4];
        philox(w, place, purpose, step, key);
        for (int q = 0; q < 4; q++)
            for (int64_t i = 0, fit = room(n, m, q, place); i < fit; i++) out[q * m + place + i] = w[q][i];
    }
}

/* Of S keys (S, 2) and K steps: n numbers each, (S, K, n). */
void normals(float *out, const int64_t *keys, int64_t S, const int64_t *steps, int64_t K, uint32_t purpose, int64_t n)
{
    for (int64_t s = 0; s < S; s++)
        for (int64_t k = 0; k < K; k++) normals_of_step(out + (s * K + k) * n, keys + 2 * s, steps[k], purpose, n);
}

void words(int64_t *out, const int64_t *keys, int64_t S, const int64_t *steps, int64_t K, uint32_t purpose, int64_t n)
{
    for (int64_t s = 0; s < S; s++)
        for (int64_t k = 0; k < K; k++) words_of_step(out + (s * K + k) * n, keys + 2 * s, steps[k], purpose, n);
}
