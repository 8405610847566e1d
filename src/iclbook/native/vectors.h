/* Vectors of floats as wide as the processor's, and the functions of them that are needed.

   Every processor gives the same bits, whatever its width: no multiplication and addition is contracted by the compiler (-ffp-contract=off), those that
   are meant to be rounded once say so (fused), and nothing of a mathematics library is called. */
#include <stdint.h>
#include <string.h>

#if !defined GPU
#if defined __x86_64__
#include <immintrin.h>
#if !defined __FMA__ || !defined __AVX2__
#define SLOW
#endif
#elif !defined __aarch64__
#define SLOW
#endif
#if defined SLOW && !defined ALLOW_SLOW
#error "the processor has no fused multiply-adds"
#endif

#ifdef __AVX512F__
#define W 16
#else
#define W 8
#endif
#if defined __wasm__
#undef W
#define W 4
#endif
typedef float vf __attribute__((vector_size(4 * W)));
typedef int32_t vi __attribute__((vector_size(4 * W)));
typedef uint32_t vw __attribute__((vector_size(4 * W)));
typedef uint64_t vl __attribute__((vector_size(4 * W))); /* W / 2 of them */
typedef uint32_t half_vw __attribute__((vector_size(2 * W)));
#endif /* not GPU */
#if defined GPU
typedef lanes<float, W> vf;
typedef lanes<int32_t, W> vi;
typedef lanes<uint32_t, W> vw;
typedef lanes<uint64_t, (W + 1) / 2> vl;
typedef lanes<uint32_t, (W + 1) / 2> half_vw;
#endif /* GPU */

#define INLINE static inline __attribute__((always_inline))
#if !defined GPU
#define ALL(x) ((vf){} + (x))
#endif /* not GPU */
#if defined GPU
#define ALL(x) vf(x)
#endif /* GPU */

INLINE vf load(const float *p)
{
    vf x;
    memcpy(&x, p, sizeof x);
    return x;
}

INLINE void store(float *p, vf x) { memcpy(p, &x, sizeof x); }

INLINE vf pick(vi mask, vf a, vf b) { return (vf)((mask & (vi)a) | (~mask & (vi)b)); }

/* a b + c, rounded once. */
INLINE vf fused(vf a, vf b, vf c)
{
#if defined __wasm__ /* has no such instruction: rounded twice, so that a page agrees with the processors to units in the last place */
    return a * b + c;
#endif
#if defined __AVX512F__
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined __FMA__
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    vf out;
    for (int i = 0; i < W; i++) out[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return out;
#endif
}

/* Products of the low halves. A compiler would multiply whole lanes, at several times the cost. */
INLINE vl product(vl a, uint32_t b)
{
#if defined GPU
    vl out;
    for (int i = 0; i < (W + 1) / 2; i++) out[i] = wide_product(a[i], b);
    return out;
#endif /* GPU */
#if defined __AVX512F__
    return (vl)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(b));
#elif defined __AVX2__
    return (vl)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(b));
#else
    return (a & 0xffffffffu) * b;
#endif
}

INLINE vw low_words(vl a, vl b)
{
    half_vw x = __builtin_convertvector(a, half_vw), y = __builtin_convertvector(b, half_vw);
    vw out;
    memcpy(&out, &x, sizeof x);
    memcpy((char *)&out + sizeof x, &y, sizeof y);
    return out;
}

/* To the nearest float: exact halves and one rounded sum, where the processor has no instruction of its own. */
INLINE vf to_float(vw w)
{
#if defined GPU
    return converted<vf>(w);
#endif /* GPU */
#if defined __AVX512F__
    return (vf)_mm512_cvtepu32_ps((__m512i)w);
#else
    return __builtin_convertvector((vi)(w >> 16), vf) * 65536.0f + __builtin_convertvector((vi)(w & 0xffff), vf);
#endif
}

INLINE vf square_root(vf x)
{
#if defined __wasm__
    return (vf)__builtin_wasm_sqrt_f32x4(x);
#endif
    vf out;
    for (int i = 0; i < W; i++) out[i] = __builtin_sqrtf(x[i]);
    return out;
}

/* Adding 1.5 * 2^23 leaves a float no digit behind the point, and a whole number in its low bits. */
#define SHIFT 12582912.0f
INLINE vf rounded(vf x) { return (x + SHIFT) - SHIFT; }
INLINE vi whole(vf x) { return (vi)(x + SHIFT); } /* right in its low 22 bits */

/* The polynomials below are those of Moshier's Cephes library (logf, sinf, cosf, expf), good to two units in the last place. */

/* Of numbers in (0, 1]. */
INLINE vf logarithm(vf x)
{
    vi bits = (vi)x - 0x3f3504f3; /* mantissas in [sqrt(1/2), sqrt(2)) */
    vf e = __builtin_convertvector(bits >> 23, vf);
    vf m = (vf)((bits & 0x7fffff) + 0x3f3504f3) - 1.0f, z = m * m;
    vf p = fused(ALL(7.0376836292e-2f), m, ALL(-1.1514610310e-1f));
    p = fused(p, m, ALL(1.1676998740e-1f));
    p = fused(p, m, ALL(-1.2420140846e-1f));
    p = fused(p, m, ALL(1.4249322787e-1f));
    p = fused(p, m, ALL(-1.6668057665e-1f));
    p = fused(p, m, ALL(2.0000714765e-1f));
    p = fused(p, m, ALL(-2.4999993993e-1f));
    p = fused(p, m, ALL(3.3333331174e-1f));
    p = fused(p * m, z, fused(e, ALL(-2.12194440e-4f), z * -0.5f));
    return fused(e, ALL(0.693359375f), m + p);
}

/* Of angles in [0, 2 pi]. */
INLINE void sine_cosine(vf x, vf *sine, vf *cosine)
{
    vf quarters = rounded(x * 0.636619772367581343f);
    vi j = whole(quarters);
    vf r = fused(quarters, ALL(-1.5703125f), x);
    r = fused(quarters, ALL(-4.837512969970703125e-4f), r);
    r = fused(quarters, ALL(-7.54978995489188216e-8f), r);
    vf z = r * r;
    vf s = fused(fused(ALL(-1.9515295891e-4f), z, ALL(8.3321608736e-3f)), z, ALL(-1.6666654611e-1f));
    vf c = fused(fused(ALL(2.443315711809948e-5f), z, ALL(-1.388731625493765e-3f)), z, ALL(4.166664568298827e-2f));
    s = fused(s, z * r, r);
    c = fused(c, z * z, fused(z, ALL(-0.5f), ALL(1.0f)));
    vi odd = -(j & 1);
    *sine = (vf)((vi)pick(odd, c, s) ^ ((j & 2) << 30));
    *cosine = (vf)((vi)pick(odd, s, c) ^ (((j + 1) & 2) << 30));
}

/* Below -87 as of -87, above 88 as of 88. */
INLINE vf exponential(vf x)
{
    x = pick(x < -87.0f, ALL(-87.0f), x);
    x = pick(x > 88.0f, ALL(88.0f), x);
    vf n = rounded(x * 1.44269504088896341f);
    vf r = fused(n, ALL(2.12194440e-4f), fused(n, ALL(-0.693359375f), x));
    vf p = fused(ALL(1.9875691500e-4f), r, ALL(1.3981999507e-3f));
    p = fused(p, r, ALL(8.3334519073e-3f));
    p = fused(p, r, ALL(4.1665795894e-2f));
    p = fused(p, r, ALL(1.6666665459e-1f));
    p = fused(p, r, ALL(5.0000001201e-1f));
    p = fused(p, r * r, r) + 1.0f;
    return p * (vf)((whole(n) + 127) << 23); /* a product: what is not a number stays so */
}
