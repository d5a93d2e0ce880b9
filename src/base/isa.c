/* isa.c - see isa.h. */
#include "base/isa.h"

#ifdef __x86_64__

enum isa isa_of_processor(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return ISA_any;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512cd") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl"))
        return ISA_avx2;
    return __builtin_cpu_supports("avx512bf16") ? ISA_avx512_bf16 : ISA_avx512;
}

const char *isa_name(enum isa isa)
{
    static const char *const names[] = {[ISA_any] = "x86-64 without AVX2",
                                        [ISA_avx2] = "AVX2",
                                        [ISA_avx512] = "AVX-512",
                                        [ISA_avx512_bf16] = "AVX-512 with bf16"};
    return names[isa];
}

#else

enum isa isa_of_processor(void)
{
    return ISA_any;
}

const char *isa_name(enum isa isa)
{
    (void)isa;
    return VECHE_PROCESSOR;
}

#endif

#define NUMBER(isa, name) ISA_##isa,

enum isa isa_here(void)
{
    static const enum isa built[] = {EACH_ISA(NUMBER, )};
    enum isa most = built[sizeof built / sizeof *built - 1], here = isa_of_processor();
    return here < most ? here : most;
}
