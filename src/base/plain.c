/* plain.c - into the locale "C" and back. */
#include "base/plain.h"

struct plain plain_begin(void)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return (struct plain){c, c ? uselocale(c) : (locale_t)0};
}

void plain_end(struct plain *p)
{
    if (!p->c)
        return;
    uselocale(p->before);
    freelocale(p->c);
}
