/* page.h - a text that grows by printing, in memory. */
#ifndef VECHE_BASE_PAGE_H
#define VECHE_BASE_PAGE_H

#include <stdio.h>

#include "base/fault.h"

struct page {
    FILE *out; /* print here */
    char *text;
    size_t n_bytes;
};

fault page_open(struct page *p);
/* The text is the caller's to free. There is none where something went wrong meanwhile: that is passed up. */
fault page_close(struct page *p, fault meanwhile, char **text);

#endif
