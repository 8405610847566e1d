/* One step of one-layer attention on prompts of linear regression: from standard normals to the gradients of the squared error, in one pass over each prompt.

   Compiled for a size: D rows of a token, N of them responses, and ACT, the activation of the scores. With one query a head needs no backward pass over its
   tokens z_l: with weights w_l = f(s_l) / F it keeps, per prompt, c = sum w_l z_l, k = sum f'(s_l) z_l / F and, for each response n with row ov_n of OV,
   m_n = sum f'(s_l) (ov_n . z_l) z_l / F. The prediction is sum_h ov_n . c, and with g_n the loss's derivative by it, the gradient by the folded query is
   sum_n g_n (m_n - (ov_n . c) k). */
#include "vectors.h"

#define SOFTMAX 1
#define AFFINE 2
#define SQUARE 3
#define TANH 4
#define LINEAR 5

#define d (D - N)
#if defined GPU
#define LANES 1
#endif /* GPU */
#if !defined GPU
#define LANES 16 /* prompts side by side on every machine, so that a sum over the batch has one order */
#endif /* not GPU */
#define V (LANES / W)

/* Where a prompt's standard normals stand, row by row of B prompts: covariates first, (L + 1) d of them. */
struct task {
    int64_t L, B;
    int64_t noise, beta[N];               /* first rows of the noise and of each response's coefficients */
    float noise_scale, target_noise_scale, beta_scale;
    float support[N][d];                  /* 1 where a response reads a covariate */
    int32_t correlated;
    float factor[d][d];                   /* lower Cholesky factor of the covariance */
};

/* Prompts b .. b + W - 1. */
INLINE void prompts(const struct task *t, const float *normals, int64_t b, vf *tokens, vf query[d], vf target[N])
{
    vf beta[N][d];
    for (int n = 0; n < N; n++)
        for (int j = 0; j < d; j++)
            beta[n][j] = load(normals + (t->beta[n] + j) * t->B + b) * (t->beta_scale * t->support[n][j]);
    for (int64_t l = 0; l <= t->L; l++) {
        const int context = l < t->L;
        vf x[d];
        for (int j = 0; j < d; j++) x[j] = load(normals + (l * d + j) * t->B + b);
        for (int j = d - 1; t->correlated && j >= 0; j--) {
            x[j] = t->factor[j][j] * x[j];
            for (int i = 0; i < j; i++) x[j] = fused(ALL(t->factor[j][i]), x[i], x[j]);
        }
        for (int j = 0; j < d; j++) *(context ? tokens + l * D + j : query + j) = x[j];
        for (int n = 0; n < N; n++) {
            vf y = load(normals + (t->noise + l * N + n) * t->B + b) * (context ? t->noise_scale : t->target_noise_scale);
            for (int j = 0; j < d; j++) y = fused(x[j], beta[n][j], y);
            *(context ? tokens + l * D + d + n : target + n) = y;
        }
    }
}

/* f(s), and f'(s) in slope; of a softmax both are exp(s - most). */
INLINE vf activated(vf s, vf most, vf *slope)
{
#if ACT == SOFTMAX
    return *slope = exponential(s - most);
#elif ACT == AFFINE
    *slope = ALL(1.0f);
    return 1.0f + s;
#elif ACT == SQUARE
    *slope = 2.0f * (1.0f + s);
    return (1.0f + s) * (1.0f + s);
#elif ACT == TANH
    vf e = 2.0f / (exponential(2.0f * s) + 1.0f); /* 1 - tanh(s) */
    *slope = e * (2.0f - e);
    return 2.0f - e;
#elif ACT == LINEAR
    *slope = ALL(1.0f);
    return s;
#endif
}

/* One head on W prompts: c, m and k of the comment above. */
INLINE void head(int64_t L, const float kq[D][d], const float ov[N][D], const vf *tokens, const vf query[d], vf *scores,
                 vf c[D], vf m[N][D], vf k[D])
{
    vf folded[D], most = ALL(-__builtin_inff()), sum = ALL(0.0f);
    for (int j = 0; j < D; j++) {
        folded[j] = ALL(0.0f);
        for (int i = 0; i < d; i++) folded[j] = fused(ALL(kq[j][i]), query[i], folded[j]);
    }
    for (int64_t l = 0; l < L; l++) {
        vf s = folded[0] * tokens[l * D];
        for (int j = 1; j < D; j++) s = fused(folded[j], tokens[l * D + j], s);
        scores[l] = s;
        most = pick(s > most, s, most);
    }
    vf cc[D], mm[N][D], kk[D]; /* in registers */
    for (int j = 0; j < D; j++) {
        cc[j] = kk[j] = ALL(0.0f);
        for (int n = 0; n < N; n++) mm[n][j] = ALL(0.0f);
    }
    for (int64_t l = 0; l < L; l++) {
        const vf *z = tokens + l * D;
        vf slope, f = activated(scores[l], most, &slope);
        sum = sum + f;
        for (int j = 0; j < D; j++) cc[j] = fused(f, z[j], cc[j]);
        for (int j = 0; j < D && ACT != SOFTMAX && ACT != LINEAR; j++) kk[j] = fused(slope, z[j], kk[j]);
        for (int n = 0; n < N; n++) {
            vf v = ov[n][0] * z[0];
            for (int j = 1; j < D; j++) v = fused(ALL(ov[n][j]), z[j], v);
            v = v * slope;
            for (int j = 0; j < D; j++) mm[n][j] = fused(v, z[j], mm[n][j]);
        }
    }
    vf share = 1.0f / (ACT == LINEAR ? ALL((float)L) : sum);
    for (int j = 0; j < D; j++) {
        c[j] = cc[j] * share;
        k[j] = ACT == SOFTMAX ? c[j] : kk[j] * share; /* linear: 0, no sum normalises its weights */
        for (int n = 0; n < N; n++) m[n][j] = mm[n][j] * share;
    }
}

INLINE float total(const vf x[V])
{
    float a[LANES];
    memcpy(a, x, sizeof a);
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) a[i] += a[i + half];
    return a[0];
}

/* K^T Q with the score scale, and the read-out rows of O V; matrices are (D, D) by rows. */
INLINE void circuits(const float *Q, const float *K, const float *VV, const float *O, float scale, float kq[D][d], float ov[N][D])
{
    for (int j = 0; j < D; j++)
        for (int i = 0; i < d; i++) {
            float sum = 0;
            for (int a = 0; a < D; a++) sum += K[a * D + j] * Q[a * D + i];
            kq[j][i] = scale * sum;
        }
    for (int n = 0; n < N; n++)
        for (int j = 0; j < D; j++) {
            float sum = 0;
            for (int a = 0; a < D; a++) sum += O[(d + n) * D + a] * VV[a * D + j];
            ov[n][j] = sum;
        }
}

/* Gradients of a head's matrices from those of its circuits. */
INLINE void back(const float *Q, const float *K, const float *VV, const float *O, float scale, const vf dkq[D][d][V], const vf dov[N][D][V],
                 float *gQ, float *gK, float *gV, float *gO)
{
    float by_kq[D][d], by_ov[N][D];
    for (int j = 0; j < D; j++)
        for (int i = 0; i < d; i++) by_kq[j][i] = scale * total(dkq[j][i]);
    for (int n = 0; n < N; n++)
        for (int j = 0; j < D; j++) by_ov[n][j] = total(dov[n][j]);
    for (int a = 0; a < D; a++)
        for (int i = 0; i < D; i++) {
            float q = 0, k = 0, v = 0, o = 0;
            for (int j = 0; j < D && i < d; j++) q += K[a * D + j] * by_kq[j][i];
            for (int j = 0; j < d; j++) k += by_kq[i][j] * Q[a * D + j];
            for (int n = 0; n < N; n++) v += O[(d + n) * D + a] * by_ov[n][i];
            for (int j = 0; j < D && a >= d; j++) o += by_ov[a - d][j] * VV[i * D + j];
            gQ[a * D + i] = q, gK[a * D + i] = k, gV[a * D + i] = v, gO[a * D + i] = o;
        }
}

#if !defined GPU /* which has gpu.cu */
/* One run: four stacks of H matrices (D, D) of parameters and of their gradients; its mean loss is added to *loss. Scratch: L (D + 1) vectors. */
static void one_run(const struct task *t, const float *normals, int64_t H, float scale, const float *const at[4], float *const grads[4], float *loss,
                    vf *scratch)
{
    const int64_t L = t->L, size = D * D;
    vf *tokens = scratch, *scores = scratch + L * D;
    float kq[H][D][d], ov[H][N][D];
    vf c[H][D], m[H][N][D], k[H][D], losses[V], dkq[H][D][d][V], dov[H][N][D][V];
    memset(losses, 0, sizeof losses), memset(dkq, 0, sizeof dkq), memset(dov, 0, sizeof dov);
    for (int64_t h = 0; h < H; h++)
        circuits(at[0] + h * size, at[1] + h * size, at[2] + h * size, at[3] + h * size, scale, kq[h], ov[h]);
    for (int64_t b = 0; b < t->B; b += W) {
        const int v = b / W % V;
        vf query[d], g[N];
        prompts(t, normals, b, tokens, query, g);
        for (int n = 0; n < N; n++) g[n] = -g[n];
        for (int64_t h = 0; h < H; h++) {
            head(L, kq[h], ov[h], tokens, query, scores, c[h], m[h], k[h]);
            for (int n = 0; n < N; n++)
                for (int j = 0; j < D; j++) g[n] = fused(ALL(ov[h][n][j]), c[h][j], g[n]);
        }
        for (int n = 0; n < N; n++) {
            losses[v] = fused(g[n], g[n], losses[v]);
            g[n] = g[n] * (2.0f / t->B);
        }
        for (int64_t h = 0; h < H; h++) {
            vf mean[N];
            for (int n = 0; n < N; n++) {
                mean[n] = ov[h][n][0] * c[h][0];
                for (int j = 1; j < D; j++) mean[n] = fused(ALL(ov[h][n][j]), c[h][j], mean[n]);
            }
            for (int j = 0; j < D; j++) {
                vf by_folded = ALL(0.0f);
                for (int n = 0; n < N; n++) by_folded = fused(g[n], m[h][n][j] - mean[n] * k[h][j], by_folded);
                for (int i = 0; i < d; i++) dkq[h][j][i][v] = fused(by_folded, query[i], dkq[h][j][i][v]);
                for (int n = 0; n < N; n++) dov[h][n][j][v] = fused(g[n], c[h][j], dov[h][n][j][v]);
            }
        }
    }
    *loss += total(losses) / t->B;
    for (int64_t h = 0; h < H; h++)
        back(at[0] + h * size, at[1] + h * size, at[2] + h * size, at[3] + h * size, scale, dkq[h], dov[h], grads[0] + h * size,
             grads[1] + h * size, grads[2] + h * size, grads[3] + h * size);
}

/* The runs of a group, numbers ``runs``, that read one stream: parameters Q, K, V, O and their gradients (R, H, D, D), sums of losses (R,). */
void gradients(const struct task *t, const float *normals, const int64_t *runs, int64_t n_runs, int64_t H, float scale, const float *const params[4],
               float *const grads[4], float *losses, vf *scratch)
{
    for (int64_t i = 0; i < n_runs; i++) {
        const int64_t skip = runs[i] * H * D * D;
        const float *const at[4] = {params[0] + skip, params[1] + skip, params[2] + skip, params[3] + skip};
        float *const to[4] = {grads[0] + skip, grads[1] + skip, grads[2] + skip, grads[3] + skip};
        one_run(t, normals, H, scale, at, to, losses + runs[i], scratch);
    }
}
#endif /* not GPU */
