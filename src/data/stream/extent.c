/* extent.c - see extent.h. Samples side by side, with what lies between them, are one call of preadv. */
#include "data/stream/extent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/arena.h"

enum { MOST_BETWEEN = 16, MOST_RUN = 64 }; /* bytes between two samples; samples in one call */

void extents_close(struct extents *e)
{
    for (size_t i = 0; i < e->n; i++) {
        close(e->at[i].file);
        free(e->at[i].path);
    }
    free(e->at);
    *e = (struct extents){0};
}

uint64_t extents_bytes(const struct extents *e)
{
    return e->n ? (uint64_t)(e->at[e->n - 1].first + e->at[e->n - 1].n) * e->n_bytes : 0;
}

const struct extent *extents_find(const struct extents *e, size_t sample)
{
    size_t low = 0, high = e->n - 1;
    while (low < high) {
        size_t middle = (low + high + 1) / 2;
        if (e->at[middle].first <= sample)
            low = middle;
        else
            high = middle - 1;
    }
    return &e->at[low];
}

static bool is_same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* What was read is only good when the file was, before and after, what it was at first. */
static fault check_unchanged(const struct extent *x)
{
    struct stat is;
    if (fstat(x->file, &is) != 0)
        return FAIL(FAULT_FILE, "%s: cannot be read any more: %s", x->path, strerror(errno));
    if (is.st_nlink == 0)
        return FAIL(FAULT_FILE, "%s: was removed or replaced while the run was reading samples from it",
                    x->path);
    if (is.st_size < x->was.st_size)
        return FAIL(FAULT_FILE,
                    "%s: was cut short, to %lld of %lld bytes, while the run was reading samples from it",
                    x->path, (long long)is.st_size, (long long)x->was.st_size);
    if (is.st_size != x->was.st_size || !is_same_time(is.st_mtim, x->was.st_mtim))
        return FAIL(FAULT_FILE, "%s: was changed while the run was reading samples from it", x->path);
    return OK;
}

fault extents_add(struct extents *e, const struct extent *extent)
{
    struct extent *longer = realloc(e->at, (e->n + 1) * sizeof *longer), x = *extent;
    if (longer)
        e->at = longer;
    x.path = longer ? strdup(extent->path) : NULL;
    if (!x.path)
        return OUT_OF_MEMORY;
    fault f = check_unchanged(&x);
    if (f) {
        free(x.path);
        return f;
    }
    x.first = e->n ? e->at[e->n - 1].first + e->at[e->n - 1].n : 0;
    e->at[e->n++] = x;
    return OK;
}

static uint64_t byte_of(const struct extent *x, size_t sample)
{
    return x->first_byte + (uint64_t)(sample - x->first) * x->step;
}

/* One after the other and piece by piece, where a call gave less than was asked for. */
static fault read_slowly(const struct extent *x, const struct wish *wishes, size_t n, size_t n_bytes)
{
    for (size_t i = 0; i < n; i++)
        for (size_t done = 0; done < n_bytes;) {
            ssize_t got = pread(x->file, wishes[i].to + done, n_bytes - done,
                                (off_t)(byte_of(x, wishes[i].sample) + done));
            if (got < 0 && errno == EINTR)
                continue;
            if (got < 0)
                return FAIL(FAULT_FILE, "%s: cannot be read any more: %s", x->path, strerror(errno));
            TRY(got ? OK : check_unchanged(x));
            if (got == 0)
                return FAIL(FAULT_FILE, "%s: ends before sample %zu", x->path, wishes[i].sample - x->first);
            done += (size_t)got;
        }
    return OK;
}

static fault read_run(const struct extent *x, const struct wish *wishes, size_t n, size_t n_bytes)
{
    uint8_t between[MOST_BETWEEN];
    struct iovec parts[2 * MOST_RUN];
    size_t n_parts = 0, want = n * n_bytes + (n - 1) * (x->step - n_bytes);
    for (size_t i = 0; i < n; i++) {
        if (i && x->step > n_bytes)
            parts[n_parts++] = (struct iovec){between, x->step - n_bytes};
        parts[n_parts++] = (struct iovec){wishes[i].to, n_bytes};
    }
    ssize_t got = preadv(x->file, parts, (int)n_parts, (off_t)byte_of(x, wishes[0].sample));
    return got >= 0 && (size_t)got == want ? OK : read_slowly(x, wishes, n, n_bytes);
}

static size_t run_from(const struct extent *x, const struct wish *wishes, size_t n, size_t n_bytes)
{
    size_t i = 1, most = x->step - n_bytes <= MOST_BETWEEN ? MOST_RUN : 1;
    while (i < n && i < most && wishes[i].sample == wishes[0].sample + i &&
           wishes[i].sample < x->first + x->n)
        i++;
    return i;
}

fault extents_read(const struct extents *e, const struct wish *wishes, size_t n)
{
    const struct extent *before = NULL;
    for (size_t done = 0, run; done < n; done += run) {
        const struct extent *x = extents_find(e, wishes[done].sample);
        if (before && before != x)
            TRY(check_unchanged(before));
        run = run_from(x, wishes + done, n - done, e->n_bytes);
        TRY(read_run(x, wishes + done, run, e->n_bytes));
        before = x;
    }
    return before ? check_unchanged(before) : OK;
}
