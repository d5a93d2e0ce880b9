/* digest.c - one number for all that a set holds, by which processes tell that they see the same data.
 *
 * Samples go in as a line of text (its sizes, then means and deviations to the last bit), the labels and
 * the pixels. The line says how many bytes follow, so no two different sets are the same bytes.
 */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
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

/* The samples [first, first + n), a few at a time. */
static fault add_bytes(struct sha256 *h, const struct samples *s, size_t first, size_t n)
{
    samples_expect(s, first, n, SAMPLES_AT_ONCE);
    for (size_t done = 0, some; done < n; done += some) {
        struct pick picks[SAMPLES_AT_ONCE];
        struct held held;
        some = smaller(SAMPLES_AT_ONCE, n - done);
        for (size_t i = 0; i < some; i++)
            picks[i] = (struct pick){.sample = (uint32_t)(first + done + i)};
        TRY(samples_hold(s, picks, some, &held));
        sha256_add(h, samples_bytes(s, &held, 0, picks[0]), some * samples_one(s));
        samples_let_go(s, &held);
    }
    return OK;
}

/* Those [first, first + n) as if there were no others. */
static fault add_samples(struct sha256 *h, const struct samples *s, size_t first, size_t n)
{
    struct samples these = *s;
    these.n = n;
    add_line(h, &these);
    sha256_add(h, s->labels + first, n * sizeof *s->labels);
    return add_bytes(h, s, first, n);
}

fault dataset_digest(const struct dataset *d, bool train_too, char hex[65])
{
    struct sha256 h;
    TRY(sha256_open(&h));
    fault f = add_samples(&h, &d->test, 0, d->test.n);
    if (!f && train_too)
        f = add_samples(&h, &d->train, 0, d->train.n);
    sha256_close(&h, f ? NULL : hex);
    return f;
}

fault dataset_share_digest(const struct dataset *d, size_t agent, char hex[65])
{
    struct sha256 h;
    size_t first = d->file_first[agent];
    TRY(sha256_open(&h));
    fault f = add_samples(&h, &d->train, first, d->file_first[agent + 1] - first);
    sha256_close(&h, f ? NULL : hex);
    return f;
}
