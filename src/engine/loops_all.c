/* loops_all.c - the loops of every instruction set. */
#include "engine/loops.h"

#define DECLARE(isa, name) extern const struct loops name##_##isa;
EACH_ISA(DECLARE, loops)

const struct loops *loops_of(enum isa isa)
{
#define ENTRY(isa, name) [ISA_##isa] = &name##_##isa,
    static const struct loops *const all[] = {EACH_ISA(ENTRY, loops)};
    return all[isa];
}
