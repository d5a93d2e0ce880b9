/* page.c - opening and closing the text that page.h describes. */
#include "topology/page.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/arena.h"

fault page_open(struct page *p)
{
    *p = (struct page){0};
    p->plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (p->plain == (locale_t)0)
        return OUT_OF_MEMORY;
    p->out = open_memstream(&p->text, &p->n);
    if (!p->out) {
        freelocale(p->plain);
        return OUT_OF_MEMORY;
    }
    p->before = uselocale(p->plain);
    return OK;
}

fault page_close(struct page *p, char **text)
{
    uselocale(p->before);
    freelocale(p->plain);
    bool failed = ferror(p->out) != 0;
    if (fclose(p->out) != 0 || failed) {
        free(p->text);
        return OUT_OF_MEMORY;
    }
    *text = p->text;
    return OK;
}
