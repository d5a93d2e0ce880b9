/* sort.h - putting numbers in order within a step, where nothing may be allocated: the C library's qsort takes memory. */
#ifndef VECHE_BASE_SORT_H
#define VECHE_BASE_SORT_H

#include <stddef.h>
#include <stdint.h>

/* The numbers rise afterwards. In place. */
void sort_rising(uint64_t *numbers, size_t n);

#endif
