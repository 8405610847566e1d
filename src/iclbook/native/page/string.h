/* The part of the C library that the sources use. */
#define memcpy __builtin_memcpy
#define memset __builtin_memset
