/* digest.c - one number for all that a set holds, by which processes tell that they see the same data.
 *
 * Each part goes in as a line of text (its sizes, then means and deviations to the last bit), the labels and
 * the pixels. The line says how many bytes follow, so no two different sets are the same bytes.
 */
#include <stdio.h>
#include <string.h>

#include "base/sha256.h"
#include "data/data.h"

static void add_line(struct sha256 *h, const struct samples *s)
{
    char text[96];
    snprintf(text, sizeof text, "%zu x %zu x %zu x %zu in %zu", s->n, s->c, s->h, s->w, s->classes);
    sha256_add(h, text, strlen(text));
    for (size_t c = 0; c < s->c; c++) {
        snprintf(text, sizeof text, " %a %a", (double)s->mean[c], (double)s->deviation[c]);
        sha256_add(h, text, strlen(text));
    }
    sha256_add(h, "\n", 1);
}

static void add_samples(struct sha256 *h, const struct samples *s)
{
    add_line(h, s);
    sha256_add(h, s->labels, s->n * sizeof *s->labels);
    sha256_add(h, s->pixels, s->n * s->c * s->h * s->w);
}

fault dataset_digest(const struct dataset *d, bool train_too, char hex[65])
{
    struct sha256 h;
    TRY(sha256_open(&h));
    add_samples(&h, &d->test);
    if (train_too)
        add_samples(&h, &d->train);
    sha256_close(&h, hex);
    return OK;
}

fault dataset_share_digest(const struct dataset *d, size_t agent, char hex[65])
{
    struct sha256 h;
    struct samples share = d->train;
    size_t first = d->file_first[agent];
    share.n = d->file_first[agent + 1] - first;
    share.labels += first;
    share.pixels += first * share.c * share.h * share.w;
    TRY(sha256_open(&h));
    add_samples(&h, &share);
    sha256_close(&h, hex);
    return OK;
}
