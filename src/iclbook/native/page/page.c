/* Training in the page: the trainer's loop around counter.c, attention.c and adam.c, for one run of H heads on prompts of d = D - 1 covariates.

   attention.c is compiled once for each activation; its function is then called gradients_softmax, gradients_affine, ... */
#include <stdint.h>

#define MOST_HEADS 8
#define MOST_TOKENS 40
#define MOST_PROMPTS 1024
#define d (D - 1)
#define SIZE (MOST_HEADS * D * D)
#define DATA 1 /* the purpose of iclbook.random */

struct task { /* as in attention.c with N = 1 */
    int64_t L, B, noise, beta[1];
    float noise_scale, target_noise_scale, beta_scale, support[1][d];
    int32_t correlated;
    float factor[d][d];
};
#define GRADIENTS(name) \
    void name(const struct task *, const float *, const int64_t *, int64_t, int64_t, float, const float *const[4], float *const[4], float *, float *)
GRADIENTS(gradients_softmax);
GRADIENTS(gradients_affine);
GRADIENTS(gradients_square);
GRADIENTS(gradients_tanh);
GRADIENTS(gradients_linear);
void normals(float *out, const int64_t *keys, int64_t S, const int64_t *steps, int64_t K, uint32_t purpose, int64_t n);
void adam(int64_t n, int64_t R, const int64_t *sizes, float *const params[], float *const first[], float *const second[], const float *const grads[],
          const float *const rates[], float factor, float beta1, float beta2, float rest, float eps, float fast, float slow);

static struct task task;
static float params[4][SIZE], grads[4][SIZE], first[4][SIZE], second[4][SIZE];
static float numbers[((MOST_TOKENS + 1) * D + d) * MOST_PROMPTS];
static float scratch[MOST_TOKENS * (D + 1) * 16] __attribute__((aligned(64)));
static float score_scale, loss;
static double power1, power2; /* beta1^t, beta2^t */
static int heads, activation;
static int64_t key[2], done;

/* Of tokens, noise and coefficients, before start(). */
void describe(int L, float noise_scale, float beta_scale)
{
    task.L = L;
    task.beta[0] = (L + 1) * d;
    task.noise = task.beta[0] + d;
    task.noise_scale = task.target_noise_scale = noise_scale;
    task.beta_scale = beta_scale;
    for (int j = 0; j < d; j++) task.support[0][j] = 1;
}

/* The Mersenne Twister (Matsumoto and Nishimura 1998), whose words torch turns into initial parameters. */
static uint32_t words[624];
static int at;

static uint32_t word(void)
{
    if (at == 624) {
        at = 0;
        for (int i = 0; i < 624; i++) {
            uint32_t y = (words[i] & 0x80000000u) | (words[(i + 1) % 624] & 0x7fffffffu);
            words[i] = words[(i + 397) % 624] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
        }
    }
    uint32_t y = words[at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

/* A run from initial parameters within the bounds of a generator with this state, on data of this seed. Bounds: of Q, K and V, and of O. */
void start(int n_heads, int B, uint32_t seed, uint32_t state, double bound, double output_bound, int f, double scale)
{
    heads = n_heads, task.B = B, activation = f, score_scale = scale;
    key[0] = seed, key[1] = 0, done = 0, power1 = power2 = 1;
    words[0] = state;
    for (int i = 1; i < 624; i++) words[i] = 1812433253u * (words[i - 1] ^ (words[i - 1] >> 30)) + i;
    at = 624;
    for (int i = 0; i < 4; i++) {
        const float high = i < 3 ? bound : output_bound, low = -high;
        for (int j = 0; j < heads * D * D; j++) /* torch rounds once */
            params[i][j] = (double)((word() & 0xffffff) * 0x1p-24f) * (high - low) + low;
        for (int j = 0; j < SIZE; j++) first[i][j] = second[i][j] = 0;
    }
}

/* So many steps of Adam, or of plain gradient descent; the sum of their losses, each before its step. */
double train(int steps, double rate, int plain)
{
    static void (*const of[])(const struct task *, const float *, const int64_t *, int64_t, int64_t, float, const float *const[4], float *const[4],
                              float *, float *) = {gradients_softmax, gradients_affine, gradients_square, gradients_tanh, gradients_linear};
    const int64_t run = 0, size = heads * D * D, sizes[4] = {size, size, size, size};
    float *const p[4] = {params[0], params[1], params[2], params[3]}, *const g[4] = {grads[0], grads[1], grads[2], grads[3]};
    float *const m[4] = {first[0], first[1], first[2], first[3]}, *const v[4] = {second[0], second[1], second[2], second[3]};
    const float *const cp[4] = {p[0], p[1], p[2], p[3]}, *const cg[4] = {g[0], g[1], g[2], g[3]};
    const float one = rate, *const rates[4] = {&one, &one, &one, &one};
    double sum = 0;
    for (int i = 0; i < steps; i++) {
        const int64_t step = ++done;
        power1 *= 0.9f, power2 *= 0.999f;
        normals(numbers, key, 1, &step, 1, DATA, ((task.L + 1) * D + d) * task.B);
        loss = 0;
        of[activation](&task, numbers, &run, 1, heads, score_scale, cp, g, &loss, scratch);
        sum += loss;
        for (int i = 0; plain && i < 4; i++)
            for (int j = 0; j < size; j++) p[i][j] -= one * g[i][j];
        if (plain) continue;
        /* as the optimiser: these two in single precision, which counts in the first steps */
        adam(4, 1, sizes, p, m, v, cg, rates, 1.0f, 0.9f, 0.999f, (float)(1 - 0.999), 1e-8f, 1.0f - (float)power1, __builtin_sqrtf(1.0f - (float)power2));
    }
    return sum;
}

/* Where Q, K, V and O stand, (H, D, D) each, SIZE numbers apart. */
float *parameters(void) { return params[0]; }
