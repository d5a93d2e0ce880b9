/* checkpoint.c - the last few generations of a run's state.
 *
 * A new checkpoint is whole and on the disk before an old one goes, so at every moment at least one whole
 * checkpoint is there once the first has been saved.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/inside.h"
#include "record/file.h"

#define HEAD "checkpoint-"
#define TAIL ".safetensors"

struct generations {
    uint64_t *rounds; /* owned, newest first */
    size_t n;
};

static fault checkpoint_path(const struct run_folder *r, uint64_t round, char path[FILE_PATH])
{
    char name[64];
    snprintf(name, sizeof name, HEAD "%08" PRIu64 TAIL, round);
    return path_join(r->path, name, FILE_PATH, path);
}

/* The round in a checkpoint's name; false for the names of other files, also of those merely alike. */
static bool round_of(const char *name, uint64_t *round)
{
    char again[64];
    if (strncmp(name, HEAD, sizeof HEAD - 1) != 0 || !isdigit((unsigned char)name[sizeof HEAD - 1]))
        return false;
    *round = strtoull(name + sizeof HEAD - 1, NULL, 10);
    snprintf(again, sizeof again, HEAD "%08" PRIu64 TAIL, *round);
    return strcmp(name, again) == 0;
}

static fault add_generation(void *ctx, const char *name)
{
    struct generations *g = ctx;
    uint64_t round;
    if (!round_of(name, &round))
        return OK;
    uint64_t *more = realloc(g->rounds, (g->n + 1) * sizeof *more);
    if (!more)
        return OUT_OF_MEMORY;
    g->rounds = more;
    g->rounds[g->n++] = round;
    return OK;
}

static int newer_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

static fault list_generations(const struct run_folder *r, struct generations *out)
{
    struct generations g = {0};
    fault f = folder_each(r->path, add_generation, &g);
    if (f) {
        free(g.rounds);
        return f;
    }
    if (g.n)
        qsort(g.rounds, g.n, sizeof *g.rounds, newer_first);
    *out = g;
    return OK;
}

/* Removes those of rounds after `round` and those beyond the last `keep`. */
static fault thin_out(const struct run_folder *r, uint64_t round)
{
    struct generations g;
    int64_t kept = 0;
    TRY(list_generations(r, &g));
    fault f = OK;
    for (size_t i = 0; i < g.n && !f; i++) {
        char path[FILE_PATH];
        if (g.rounds[i] <= round && (kept == 0 || kept < r->keep)) {
            kept++;
            continue;
        }
        f = checkpoint_path(r, g.rounds[i], path);
        if (!f && unlink(path) != 0)
            f = FAIL(FAULT_FILE, "%s: cannot be removed: %s", path, strerror(errno));
    }
    free(g.rounds);
    return f;
}

fault run_save(struct run_folder *r, uint64_t round, const struct named_floats *tensors, size_t n_tensors,
               const struct metadata *metadata, size_t n_metadata)
{
    char path[FILE_PATH];
    TRY(checkpoint_path(r, round, path));
    TRY(tensors_write(path, tensors, n_tensors, metadata, n_metadata));
    return thin_out(r, round);
}

/* Tries one generation. *whole tells whether it was read; a broken one leaves its sentence, if it is the
 * first. */
static fault try_generation(const struct run_folder *r, uint64_t round, struct tensors *out,
                            char broken[RUN_PATH], bool *whole)
{
    char path[FILE_PATH];
    TRY(checkpoint_path(r, round, path));
    fault f = tensors_read(path, out);
    *whole = !f;
    if (f && fault_kind_of(f) == FAULT_MEMORY)
        return f;
    if (f && broken[0] == '\0')
        snprintf(broken, RUN_PATH, "%s", fault_text(f));
    fault_drop(f);
    return OK;
}

fault run_newest(const struct run_folder *r, bool (*fits)(const void *ctx, const struct tensors *t),
                 const void *ctx, struct tensors *out, char passed_over[RUN_PATH])
{
    struct generations g;
    char broken[RUN_PATH] = "";
    bool whole = false, found = false;
    TRY(list_generations(r, &g));
    fault f = OK;
    for (size_t i = 0; i < g.n && !found && !f; i++) {
        f = try_generation(r, g.rounds[i], out, broken, &whole);
        found = whole && (!fits || fits(ctx, out));
        if (whole && !found)
            tensors_release(out);
    }
    if (!f && !found && (g.n == 0 || !broken[0]))
        f = FAIL(FAULT_CHECKPOINT, "%s: has no checkpoint to go on from", r->path);
    else if (!f && !found)
        f = FAIL(FAULT_CHECKPOINT, "%s: none of %zu checkpoints is whole; %s", r->path, g.n, broken);
    if (!f && passed_over)
        memcpy(passed_over, broken, sizeof broken);
    free(g.rounds);
    return f;
}
