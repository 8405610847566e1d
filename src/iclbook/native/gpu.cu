/* Training on a GPU with counter.c, attention.c and adam.c: many steps in one launch, each run on a block of threads, or on PARTS blocks of a cluster that
   share its prompts.

   A block takes P prompts at a time. Its threads draw their numbers into shared memory, one thread makes the tokens of a prompt in their place, one takes a
   head on a prompt, and one takes a sum over the prompts, in a fixed order. Parameters and the optimiser's moments stay in shared memory. Between two
   barriers no thread reads what another writes: a C++ compiler gives the same program with one thread after another (for tests), in any order of threads.

   Compiled for D, N and ACT as attention.c, for LENGTH tokens, and for PARTS. A counter gives numbers of four prompts that are B / 4 apart, so that a block
   takes P / 4 neighbours at each of four places, which are also the four SLICES that a sum over the batch is taken of. */
#define GPU
#include <stdint.h>
#include <string.h>
#include "lanes.cuh"
#define W 2 /* counters of a thread */
namespace drawing {
#include "counter.c"
}
#undef W
#define W 1 /* prompts of a thread */
#include "attention.c"
#include "adam.c"

#define SLICES 4
#define DATA 1 /* the purpose of iclbook.random */
#define SIZE (D * D)
#define OF_HEAD (D * (2 + N)) /* c, m and k of attention.c */

#if defined __CUDACC__
#define EACH(i, n) for (int i = threadIdx.x; i < (n); i += blockDim.x)
#define BARRIER() __syncthreads()
#else
static int backwards;
#define EACH(i, n) for (int to_##i = (n), at_##i = 0, i; i = backwards ? to_##i - 1 - at_##i : at_##i, at_##i < to_##i; at_##i++)
#define BARRIER()
#endif

struct training {
    struct task task;        /* of one prompt whose numbers lie side by side: B = 1 */
    int64_t normals;         /* of a prompt */
    int64_t B, P, H, runs;
    int64_t done, steps;     /* steps before this launch and in it */
    float scale, beta1, beta2, rest, eps;
    const float *corrections; /* (steps, 3): factor, fast and slow of adam.c */
    const int64_t *keys;     /* (runs, 2) of the data that each run reads */
    float *stacks[12];       /* of Q, K, V and O, (runs, H, D, D): parameters, first and second moments */
    const float *rates[4];   /* (runs,) */
    float *losses;           /* (runs,) */
    float *sums;             /* (runs, 2, PARTS, n_sums), room for what the blocks of a run tell each other */
};

/* Shared memory of a block: four stacks each of parameters, moments and gradients; rows of prompts, of odd lengths, so that threads side by side read other
   banks. */
struct shared {
    float *params, *first, *second, *grads;
    vf *kq, *ov, *sums, *numbers, *rows;
    int64_t n_sums, number_row, row, floats;
};

INLINE struct shared laid_out(const struct training *t, float *memory)
{
    struct shared s;
    const int64_t stacks = 4 * t->H * SIZE;
    float *next = memory + 4 * stacks;
    s.params = memory, s.first = memory + stacks, s.second = memory + 2 * stacks, s.grads = memory + 3 * stacks;
    s.n_sums = t->H * D * (d + N) + N;
    s.number_row = (t->normals + (LENGTH + 1) * N) | 1;
    s.row = (d + 2 * N + t->H * OF_HEAD) | 1;
    s.kq = (vf *)next, next += t->H * D * d;
    s.ov = (vf *)next, next += t->H * N * D;
    s.sums = (vf *)next, next += SLICES * s.n_sums;
    s.numbers = (vf *)next, next += t->P * s.number_row;
    s.rows = (vf *)next, next += t->P * s.row;
    s.floats = next - memory;
    return s;
}

/* The numbers of P prompts, each prompt's in a row, behind room for what its tokens have more: y of each. */
INLINE void draw(const struct training *t, const struct shared *s, const int64_t key[2], uint64_t step, int64_t from)
{
    const int columns = t->P / SLICES, pairs = columns / 2;
    EACH(at, (int)t->normals * pairs) {
        const int unit = at / pairs, column = at % pairs * 2;
        drawing::vw w[4];
        drawing::vf x[4];
        drawing::philox(w, (uint64_t)unit * (t->B / SLICES) + from + column, DATA, step, key);
        drawing::box_muller(&x[0], &x[1], w[0], w[1]);
        drawing::box_muller(&x[2], &x[3], w[2], w[3]);
        for (int q = 0; q < 4; q++) {
            const int place = unit + q * (int)t->normals, prompt = place % SLICES * columns + column;
            vf *to = s->numbers + prompt * s->number_row + (LENGTH + 1) * N + place / SLICES;
            to[0] = x[q][0], to[s->number_row] = x[q][1];
        }
    }
}

/* c, m and k of a head in a prompt's row, after query, target and error. */
INLINE vf *of_head(vf *row, int h) { return row + d + 2 * N + h * OF_HEAD; }

/* Errors of a prompt, and in place of a head's k the loss's derivative by its folded query. */
INLINE void errors(const struct training *t, const struct shared *s, vf *row, int h)
{
    vf g[N], mean[N];
    for (int n = 0; n < N; n++) {
        g[n] = -row[d + n];
        for (int other = 0; other < t->H; other++)
            for (int j = 0; j < D; j++) g[n] = fused(s->ov[(other * N + n) * D + j], of_head(row, other)[j], g[n]);
        if (h == 0) row[d + N + n] = g[n];
        g[n] = g[n] * (2.0f / t->B);
    }
    const vf *c = of_head(row, h), *m = c + D, *ov = s->ov + h * N * D;
    vf *k = of_head(row, h) + (1 + N) * D;
    for (int n = 0; n < N; n++) {
        mean[n] = ov[n * D] * c[0];
        for (int j = 1; j < D; j++) mean[n] = fused(ov[n * D + j], c[j], mean[n]);
    }
    for (int j = 0; j < D; j++) {
        vf by_folded = ALL(0.0f);
        for (int n = 0; n < N; n++) by_folded = fused(g[n], m[n * D + j] - mean[n] * k[j], by_folded);
        k[j] = by_folded;
    }
}

/* One slice's share of a sum over the prompts: by_folded x query of each head, error x c of each head, and the squares of the errors. */
INLINE vf one_sum(const struct training *t, const struct shared *s, int which, int slice, vf sum)
{
    const int columns = t->P / SLICES, n_kq = t->H * D * d, n_ov = t->H * N * D;
    int first, second;
    float factor = 1;
    if (which < n_kq) {
        first = of_head(0, which / (D * d)) - (vf *)0 + (1 + N) * D + which / d % D, second = which % d;
    } else if (which < n_kq + n_ov) {
        const int at = which - n_kq;
        first = d + N + at / D % N, second = of_head(0, at / (N * D)) - (vf *)0 + at % D, factor = 2.0f / t->B;
    } else
        first = second = d + N + which - n_kq - n_ov;
    for (int p = slice * columns; p < (slice + 1) * columns; p++) sum = fused(s->rows[p * s->row + first] * factor, s->rows[p * s->row + second], sum);
    return sum;
}

INLINE void set_circuits(const struct training *t, const struct shared *s)
{
    EACH(h, (int)t->H) {
        const int stack = t->H * SIZE;
        const float *at = s->params + h * SIZE;
        circuits(at, at + stack, at + 2 * stack, at + 3 * stack, t->scale, (float (*)[d])(s->kq + h * D * d), (float (*)[D])(s->ov + h * N * D));
    }
    BARRIER();
}

INLINE float *told(const struct training *t, const struct shared *s, int run, int64_t step, int part)
{
    return t->sums + ((run * 2 + step % 2) * PARTS + part) * s->n_sums;
}

/* A part's share of the batch: its sums, for the other parts. */
INLINE void gather(const struct training *t, const struct shared *s, int run, int part, int64_t step)
{
    const int columns = t->P / SLICES;
    EACH(e, (int)(SLICES * s->n_sums)) s->sums[e] = ALL(0.0f);
    for (int64_t from = part * columns; from < t->B / SLICES; from += PARTS * columns) {
        draw(t, s, t->keys + 2 * run, step, from);
        BARRIER();
        EACH(p, (int)t->P) {
            vf *numbers = s->numbers + p * s->number_row, *row = s->rows + p * s->row;
            prompts(&t->task, (const float *)(numbers + (LENGTH + 1) * N), 0, numbers, row, row + d);
        }
        BARRIER();
        EACH(each, (int)(t->P * t->H)) {
            const int p = each % (int)t->P, h = each / (int)t->P;
            vf scores[LENGTH], *row = s->rows + p * s->row, *c = of_head(row, h);
            head(LENGTH, (const float (*)[d])(s->kq + h * D * d), (const float (*)[D])(s->ov + h * N * D), s->numbers + p * s->number_row, row, scores, c,
                 (vf (*)[D])(c + D), c + (1 + N) * D);
        }
        BARRIER();
        EACH(each, (int)(t->P * t->H)) errors(t, s, s->rows + each % (int)t->P * s->row, each / (int)t->P);
        BARRIER();
        EACH(e, (int)(SLICES * s->n_sums)) s->sums[e] = one_sum(t, s, e % (int)s->n_sums, e / (int)s->n_sums, s->sums[e]);
    }
    BARRIER();
    EACH(e, (int)s->n_sums) {
        vf a = s->sums[e] + s->sums[s->n_sums + e], b = s->sums[2 * s->n_sums + e] + s->sums[3 * s->n_sums + e];
        told(t, s, run, step, part)[e] = (a + b)[0];
    }
}

/* One step of Adam from the sums of all parts, which each part takes for itself. */
INLINE void update(const struct training *t, const struct shared *s, int run, int part, int64_t step)
{
    const int n_kq = t->H * D * d, n_ov = t->H * N * D, stack = t->H * SIZE;
    const float *now = t->corrections + 3 * (step - t->done - 1);
    EACH(e, (int)s->n_sums) {
        float sum = told(t, s, run, step, 0)[e];
        for (int other = 1; other < PARTS; other++) sum += told(t, s, run, step, other)[e];
        s->sums[e] = ALL(sum);
    }
    BARRIER();
    EACH(h, (int)t->H) {
        const float *at = s->params + h * SIZE;
        float *to = s->grads + h * SIZE;
        back(at, at + stack, at + 2 * stack, at + 3 * stack, t->scale, (const vf (*)[d][1])(s->sums + h * D * d),
             (const vf (*)[D][1])(s->sums + n_kq + h * N * D), to, to + stack, to + 2 * stack, to + 3 * stack);
    }
    EACH(first, part == 0) {
        float loss = 0;
        for (int n = 0; n < N; n++) loss += s->sums[n_kq + n_ov + n][first];
        t->losses[run] += loss / t->B;
    }
    BARRIER();
    EACH(each, 4 * stack) {
        const int64_t one = 1;
        float *const p = s->params + each, *const m = s->first + each, *const v = s->second + each;
        const float *const g = s->grads + each, *const rate = t->rates[each / stack] + run;
        adam(1, 1, &one, &p, &m, &v, &g, &rate, now[0], t->beta1, t->beta2, t->rest, t->eps, now[1], now[2]);
    }
    BARRIER();
    set_circuits(t, s);
}

/* Parameters and moments between the stacks and shared memory. */
INLINE void move(const struct training *t, const struct shared *s, int run, int out)
{
    const int stack = t->H * SIZE;
    EACH(each, 12 * stack) { /* which lie in this order in both */
        float *here = s->params + each, *there = t->stacks[each / stack] + (int64_t)run * stack + each % stack;
        if (out) *there = *here;
        else *here = *there;
    }
    BARRIER();
}

#if defined __CUDACC__
#if PARTS > 1
#define TOGETHER __cluster_dims__(PARTS, 1, 1)
#define ALL_PARTS_HERE() asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory")
#else
#define TOGETHER
#define ALL_PARTS_HERE() __syncthreads()
#endif

extern "C" __global__ void TOGETHER __launch_bounds__(THREADS) train(const __grid_constant__ struct training t)
{
    extern __shared__ float memory[];
    const struct shared s = laid_out(&t, memory);
    const int run = blockIdx.x / PARTS, part = blockIdx.x % PARTS;
    move(&t, &s, run, 0);
    set_circuits(&t, &s);
    for (int64_t step = t.done + 1; step <= t.done + t.steps; step++) {
        gather(&t, &s, run, part, step);
        ALL_PARTS_HERE();
        update(&t, &s, run, part, step);
    }
    if (part == 0) move(&t, &s, run, 1);
}
#else
/* The same, one run and one thread after another, with room for the shared memory of PARTS blocks: how many floats one takes. */
extern "C" int64_t train(const struct training *t, float *memory, int in_reverse)
{
    struct shared s[PARTS];
    backwards = in_reverse;
    const int64_t floats = laid_out(t, memory).floats;
    for (int part = 0; part < PARTS; part++) s[part] = laid_out(t, memory + part * floats);
    for (int run = 0; run < t->runs; run++) {
        for (int part = 0; part < PARTS; part++) move(t, &s[part], run, 0), set_circuits(t, &s[part]);
        for (int64_t step = t->done + 1; step <= t->done + t->steps; step++) {
            for (int part = 0; part < PARTS; part++) gather(t, &s[part], run, part, step);
            for (int part = 0; part < PARTS; part++) update(t, &s[part], run, part, step);
        }
        move(t, &s[0], run, 1);
    }
    return floats;
}

/* The numbers of a step as counter.c gives them, (normals, B), drawn by one thread after another. */
extern "C" void drawn(const struct training *t, float *memory, int64_t step, float *out)
{
    const struct shared s = laid_out(t, memory);
    const int columns = t->P / SLICES;
    for (int64_t from = 0; from < t->B / SLICES; from += columns) {
        draw(t, &s, t->keys, step, from);
        for (int row = 0; row < t->normals; row++)
            for (int p = 0; p < t->P; p++)
                out[row * t->B + p / columns * (t->B / SLICES) + from + p % columns] = s.numbers[p * s.number_row + (LENGTH + 1) * N + row][0];
    }
}
#endif
