/* page.c - see page.h. */
#include "base/page.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/arena.h"

fault page_open(struct page *p)
{
    *p = (struct page){0};
    p->out = open_memstream(&p->text, &p->n_bytes);
    return p->out ? OK : OUT_OF_MEMORY;
}

fault page_close(struct page *p, fault meanwhile, char **text)
{
    bool is_whole = !ferror(p->out);
    is_whole = fclose(p->out) == 0 && is_whole;
    if (is_whole && !meanwhile) {
        *text = p->text;
        return OK;
    }
    free(p->text);
    return meanwhile ? meanwhile : OUT_OF_MEMORY;
}
