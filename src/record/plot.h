/* plot.h - the arithmetic of a figure: ranges, ticks, magnitudes, and the words on them. Draws nothing. */
#ifndef VECHE_RECORD_PLOT_H
#define VECHE_RECORD_PLOT_H

#include <stdbool.h>
#include <stddef.h>

enum { PLOT_TICKS = 24, PLOT_TEXT = 32 };

struct scale {
    double lo, hi; /* lo < hi; both above 0 where `log` holds */
    bool log;
};

/* A range that holds lo..hi with a little air and is never empty, whatever the numbers (NaN: 0 to 1). */
struct scale scale_linear(double lo, double hi);
struct scale scale_log(double lo, double hi); /* both above 0 */

/* Where x stands: 0 at lo, 1 at hi; beyond them for what lies outside. NaN where x has no place. */
double scale_at(const struct scale *s, double x);

/* Round values inside the range, in order: at most `most` (and PLOT_TICKS), on a linear scale steps of 1, 2
 * or 5 times a power of ten; on a logarithmic one powers of ten, with 2 and 5 times them where there are few.
 */
size_t scale_ticks(const struct scale *s, size_t most, double ticks[PLOT_TICKS]);

/* A tick in as few digits as tell it from its neighbours. */
void tick_text(const struct scale *s, const double *ticks, size_t n, size_t i, char text[PLOT_TEXT]);

/* The magnitude in which numbers up to `most` are best read. */
struct magnitude {
    const char *name;
    double size; /* x / size is the number to show */
};
struct magnitude magnitude_of_seconds(double most);
struct magnitude magnitude_of_bytes(double most);

/* Of n points, every how many-th to take so that there are about `most`; and the index after i when the last
 * one is taken in any case (n after the last). */
size_t thin_stride(size_t n, size_t most);
size_t thin_next(size_t i, size_t n, size_t most);

#endif
