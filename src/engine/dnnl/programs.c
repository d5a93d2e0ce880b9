/* programs.c - the programs of every instruction set. */
#include "engine/dnnl/program.h"

#define DECLARE(isa, name) extern const struct program_verbs name##_##isa;
EACH_ISA(DECLARE, program_verbs)

const struct program_verbs *program_verbs_of(enum isa isa)
{
#define ENTRY(isa, name) [ISA_##isa] = &name##_##isa,
    static const struct program_verbs *const all[] = {EACH_ISA(ENTRY, program_verbs)};
    return all[isa];
}
