/* numbers.c - see numbers.h. */
#include "world/numbers.h"

#include <math.h>

static bool is_about(const struct question *q, enum row row)
{
    return q->about == NUMBER_DOT && (q->row == row || q->other == row);
}

fault number_check(const struct link *l, const struct engine_setup *s, struct asker a,
                   const struct question *q, struct question *out)
{
    struct question found = *q;
    bool moves = q->about == NUMBER_LOSS || is_about(q, ROW_GRADS) || is_about(q, ROW_STATS);
    if (a.is_learning && moves)
        return FAIL(FAULT_USAGE,
                    "agent %zu asks for a number that the lesson under way decides: await it first", l->self);
    if (is_about(q, ROW_GRADS) && !a.has_gradient)
        return FAIL(
            FAULT_USAGE,
            "agent %zu asks about its gradient before it has learnt in this round, or after a step with it",
            l->self);
    if (q->about == NUMBER_LOSS && !a.lessons)
        return FAIL(FAULT_USAGE, "agent %zu asks for the loss of a lesson before its first", l->self);
    size_t size = row_size(s, q->row), other = row_size(s, q->other);
    found.end = q->end == TO_END ? size : q->end;
    ptrdiff_t first = (ptrdiff_t)found.first + q->shift, end = (ptrdiff_t)found.end + q->shift;
    bool has_them = found.first <= found.end && found.end <= size && first >= 0 && (size_t)end <= other;
    if (q->about == NUMBER_DOT && !has_them)
        return FAIL(FAULT_USAGE,
                    "agent %zu asks for the floats [%zu, %zu) of its %s and [%td, %td) of its %s, which have "
                    "%zu and %zu",
                    l->self, found.first, found.end, row_name(s, q->row), first, end, row_name(s, q->other),
                    size, other);
    *out = found;
    return OK;
}

fault number_judge(const struct link *l, const struct engine_setup *s, const struct question *q,
                   double number)
{
    const char *value = isnan(number) ? "NaN" : "infinite";
    if (isfinite(number))
        return OK;
    if (q->about == NUMBER_LOSS)
        return FAIL(FAULT_NUMBER, "the loss that agent %zu decides by is %s: training has diverged", l->self,
                    value);
    return FAIL(FAULT_NUMBER,
                "the product of its %s and its %s that agent %zu decides by is %s: training has diverged",
                row_name(s, q->row), row_name(s, q->other), l->self, value);
}

double number_rows(const struct question *q)
{
    if (q->about == NUMBER_LOSS)
        return 0;
    return q->row == q->other && !q->shift ? 1 : 2;
}
