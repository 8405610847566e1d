/* Adam (Kingma and Ba 2015, Algorithm 1) in place, on n stacks of R runs with sizes[i] numbers each. */
#include <stdint.h>

/* beta1, beta2 of the moments, rest = 1 - beta2; fast = 1 - beta1^t, slow = sqrt(1 - beta2^t); factor on all rates (R,). */
void adam(int64_t n, int64_t R, const int64_t *sizes, float *const params[], float *const first[], float *const second[], const float *const grads[],
          const float *const rates[], float factor, float beta1, float beta2, float rest, float eps, float fast, float slow)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t r = 0; r < R; r++) {
            const float rate = rates[i][r] * factor / fast;
            for (int64_t at = r * sizes[i]; at < (r + 1) * sizes[i]; at++) {
                const float g = grads[i][at];
                float *m = first[i] + at, *v = second[i] + at;
                *m = beta1 < 0.5f ? g + beta1 * (*m - g) : *m - (*m - g) * (1 - beta1); /* as torch.lerp */
                *v = beta2 * *v + rest * (g * g);
                params[i][at] -= rate * *m / (__builtin_sqrtf(*v) / slow + eps);
            }
        }
}
