/* Vectors of N numbers for device code, whose compiler has none: what vectors.h asks of them. */
#if defined __CUDACC__
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_sqrtf __fsqrt_rn
#define __builtin_fmaf __fmaf_rn
#else /* no instructions of the processor at hand */
#undef __AVX512F__
#undef __AVX2__
#undef __FMA__
#endif
#define __builtin_convertvector(x, kind) converted<kind>(x)

#define LANE_BY_LANE(kind, operation, lane) \
    friend lanes<kind, width> operator operation(lanes a, lanes b) \
    { \
        lanes<kind, width> out; \
        for (int i = 0; i < width; i++) out.x[i] = lane; \
        return out; \
    }

template <class T, int width> struct lanes {
    T x[width];
    lanes() = default;
    lanes(T all) { for (int i = 0; i < width; i++) x[i] = all; }
    template <class U, int other> explicit lanes(const lanes<U, other> &same_bits) { memcpy(x, same_bits.x, sizeof x); }
    T &operator[](int i) { return x[i]; }
    lanes operator-() const { return lanes(0) - *this; }
    lanes operator~() const { return *this ^ lanes(-1); }
    LANE_BY_LANE(T, +, a.x[i] + b.x[i])
    LANE_BY_LANE(T, -, a.x[i] - b.x[i])
    LANE_BY_LANE(T, *, a.x[i] * b.x[i])
    LANE_BY_LANE(T, /, a.x[i] / b.x[i])
    LANE_BY_LANE(T, &, a.x[i] & b.x[i])
    LANE_BY_LANE(T, |, a.x[i] | b.x[i])
    LANE_BY_LANE(T, ^, a.x[i] ^ b.x[i])
    LANE_BY_LANE(T, <<, a.x[i] << b.x[i])
    LANE_BY_LANE(T, >>, a.x[i] >> b.x[i])
    LANE_BY_LANE(int32_t, <, -(a.x[i] < b.x[i]))
    LANE_BY_LANE(int32_t, >, -(a.x[i] > b.x[i]))
};

/* To the nearest number of another kind. */
template <class To, class T, int width> static inline To converted(lanes<T, width> from)
{
    To out;
    for (int i = 0; i < width; i++) out[i] = from[i];
    return out;
}

/* Of two words, whole: left to itself, the compiler multiplies numbers of 64 bits. */
static inline uint64_t wide_product(uint32_t a, uint32_t b)
{
#if defined __CUDACC__
    uint64_t out;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(out) : "r"(a), "r"(b));
    return out;
#else
    return (uint64_t)a * b;
#endif
}
