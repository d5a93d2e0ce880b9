/* text.h - small questions about words. */
#ifndef VECHE_BASE_TEXT_H
#define VECHE_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

bool text_is(const char *a, const char *b);
bool text_starts(const char *text, const char *head);

/* The candidate nearest to a mistyped word (by edits), or NULL when none is near enough to be meant. `candidate(ctx,
 * i)` gives the i-th, NULL after the last. */
const char *text_nearest(const char *word, const char *(*candidate)(const void *ctx, size_t i), const void *ctx);

/* What a user wrote, fit for one line of a sentence: cut where it is long, without control characters. */
struct shown {
    char text[64];
};
struct shown text_shown(const char *text);

/* 1475338 as "1,475,338". */
struct counted {
    char text[32];
};
struct counted text_count(size_t n);

#endif
