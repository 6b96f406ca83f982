/* What the processor says of itself. /proc/cpuinfo is no witness: under an emulator it shows the machine around it. */
#include <stdlib.h>

#include "front.h"

const char *nonpu_environment(const char *name) { return getenv(name); }

#if defined(__x86_64__)
#include <cpuid.h>

static uint64_t enabled_state(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* x86-64 psABI, section "Micro-Architecture Levels". */
int32_t nonpu_processor(void)
{
    enum { SSE3 = 1 << 0, SSSE3 = 1 << 9, CX16 = 1 << 13, SSE4_1 = 1 << 19, SSE4_2 = 1 << 20, POPCNT = 1 << 23,
           FMA = 1 << 12, MOVBE = 1 << 22, OSXSAVE = 1 << 27, AVX = 1 << 28, F16C = 1 << 29,      /* leaf 1, ecx */
           BMI1 = 1 << 3, AVX2 = 1 << 5, BMI2 = 1 << 8, F = 1 << 16, DQ = 1 << 17, CD = 1 << 28, BW = 1 << 30,   /* leaf 7, ebx */
           LAHF = 1 << 0, LZCNT = 1 << 5,                                                         /* leaf 0x80000001, ecx */
           YMM = 0x6, ZMM = 0xe6 };                                                               /* enabled by the system */
    const uint32_t v2 = SSE3 | SSSE3 | CX16 | SSE4_1 | SSE4_2 | POPCNT, v3 = FMA | MOVBE | OSXSAVE | AVX | F16C;
    const uint32_t v3_7 = BMI1 | AVX2 | BMI2, v4_7 = (uint32_t)F | DQ | CD | BW | 1u << 31;        /* the last: AVX512VL */
    uint32_t a, b, c, d, features = 0, more = 0, extended = 0;
    if (__get_cpuid(1, &a, &b, &c, &d))
        features = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d))
        more = b;
    if (__get_cpuid(0x80000001u, &a, &b, &c, &d))
        extended = c;
    uint64_t state = features & OSXSAVE ? enabled_state() : 0;
    int has_v2 = (features & v2) == v2 && extended & LAHF;
    int has_v3 = has_v2 && (features & v3) == v3 && (more & v3_7) == v3_7 && extended & LZCNT && (state & YMM) == YMM;
    int has_v4 = has_v3 && (more & v4_7) == v4_7 && (state & ZMM) == ZMM;
    return has_v2 | has_v3 << 1 | has_v4 << 2;
}
#else
int32_t nonpu_processor(void) { return 0; }
#endif
