/* mixing.c - see mixing.h. */
#include "world/mixing.h"

static fault check_term(const struct link *l, const struct engine_setup *s, enum row into, size_t first,
                        size_t end, const struct term *t)
{
    size_t size = row_size(s, t->row);
    ptrdiff_t from = (ptrdiff_t)first + t->shift, to = (ptrdiff_t)end + t->shift;
    if (from < 0 || (size_t)to > size)
        return FAIL(FAULT_USAGE, "agent %zu mixes the floats [%td, %td) of its %s, which has %zu", l->self,
                    from, to, row_name(s, t->row), size);
    bool meets = !t->parcel && t->row == into && from < (ptrdiff_t)end && to > (ptrdiff_t)first;
    if (t->shift && meets)
        return FAIL(FAULT_USAGE, "agent %zu would write floats of its %s that are still to be read", l->self,
                    row_name(s, into));
    return OK;
}

fault mixing_check(const struct link *l, const struct engine_setup *s, enum row into, size_t first,
                   size_t end, const struct term *terms, size_t n)
{
    for (size_t i = 0; i < n; i++)
        TRY(check_term(l, s, into, first, end, &terms[i]));
    return OK;
}
