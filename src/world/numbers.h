/* numbers.h - what a program asks about its own numbers (link_number): what all worlds do alike. */
#ifndef VECHE_WORLD_NUMBERS_H
#define VECHE_WORLD_NUMBERS_H

#include "link/link.h"

struct asker {         /* how an agent stands that asks */
    uint64_t lessons;  /* that are over */
    bool is_learning;  /* another is under way */
    bool has_gradient; /* of this round, and no step was made with it: no checkpoint keeps it for longer */
};

/* FAULT_USAGE where a question has no answer. *out: the question, with the `end` of the floats that it is about. */
fault number_check(const struct link *l, const struct engine_setup *s, struct asker a,
                   const struct question *q, struct question *out);
/* FAULT_NUMBER where nothing can be decided by it. */
fault number_judge(const struct link *l, const struct engine_setup *s, const struct question *q,
                   double number);
/* Rows of which its floats are read: one, two, or for a loss none. */
double number_rows(const struct question *q);

#endif
