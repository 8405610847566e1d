/* Adam (Kingma and Ba 2015, Algorithm 1) in place, on n stacks of R runs with sizes[i] numbers each. */
#include <stdint.h>

/* beta1, beta2 of the moments; fast = 1 - beta1^t, slow = sqrt(1 - beta2^t); factor on all rates (R,). */
void adam(int64_t n, int64_t R, const int64_t *sizes, float *const params[], float *const first[], float *const second[], const float *const grads[],
          const float *const rates[], float factor, float beta1, float beta2, float eps, float fast, float slow)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t r = 0; r < R; r++) {
            const float rate = rates[i][r] * factor / fast;
            for (int64_t at = r * sizes[i]; at < (r + 1) * sizes[i]; at++) {
                const float g = grads[i][at];
                const float m = first[i][at] = first[i][at] - (first[i][at] - g) * (1 - beta1);
                const float v = second[i][at] = beta2 * second[i][at] + (1 - beta2) * (g * g);
                params[i][at] -= rate * m / (__builtin_sqrtf(v) / slow + eps);
            }
        }
}
