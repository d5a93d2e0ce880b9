/* page.h - a text that grows by printing, with numbers as in C whatever the program's locale is. */
#ifndef VECHE_TOPOLOGY_PAGE_H
#define VECHE_TOPOLOGY_PAGE_H

#include <locale.h>
#include <stdio.h>

#include "base/fault.h"

struct page {
    FILE *out; /* print here */
    char *text;
    size_t n;
    locale_t plain, before;
};

/* Between open and close this thread prints numbers with a point. Close gives the text, which the caller
 * frees. */
fault page_open(struct page *p);
fault page_close(struct page *p, char **text);

#endif
