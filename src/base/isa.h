/* isa.h - the instruction sets for which hot files are compiled, each once, and which of them this processor
 * has.
 *
 * The build compiles a hot file several times, with ISA defined as one of the names of EACH_ISA and the
 * compiler's options for it. What a hot file has for others is named by that:
 *
 *   const struct loops FOR_ISA(loops) = {...};        in loops.c makes loops_any, loops_avx2, ...
 *
 *   #define ENTRY(isa, name) [ISA_##isa] = &name##_##isa,
 *   static const struct loops *const all[] = {EACH_ISA(ENTRY, loops)};
 *   ... all[isa_here()] ...
 *
 * Each set has all instructions of those before it. All give the same bits: the compiler may neither reorder
 * a sum nor fuse a product into it.
 */
#ifndef VECHE_BASE_ISA_H
#define VECHE_BASE_ISA_H

enum isa {
    ISA_BEST,       /* as a wish: the best that this processor has     */
    ISA_any,        /* what the compiler takes by itself               */
    ISA_avx2,       /* with FMA                                        */
    ISA_avx512,     /* F, BW, CD, DQ and VL, as every server since 2017 */
    ISA_avx512_bf16 /* which rounds to bf16                            */
};

#ifdef VECHE_ONE_ISA /* another processor than x86-64, or a build for this one alone */
#define EACH_ISA(entry, name) entry(any, name)
#else
#define EACH_ISA(entry, name) entry(any, name) entry(avx2, name) entry(avx512, name) entry(avx512_bf16, name)
#endif

#define ISA_JOINED(name, isa) name##_##isa
#define ISA_NAMED(name, isa)  ISA_JOINED(name, isa)
#define FOR_ISA(name)         ISA_NAMED(name, ISA)

/* The best set that this build and this processor have; and that this processor has. */
enum isa isa_here(void);
enum isa isa_of_processor(void);
/* For people: "AVX2"; on others than x86-64 the processor's kind. */
const char *isa_name(enum isa isa);

#endif
