/* split_files.c - each agent has a file of its own.
 *
 *   data: {set: {kind: cifar-binary, test: t.bin}, split: {files: [a.bin, b.bin]}, mean: ..., deviation: ...}
 *
 * A process that hosts one agent opens that agent's file and the test samples, and nothing else. So nothing
 * may depend on other agents' samples: neither a limit over all of them nor a normalisation measured on them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "data/split.h"

static int compare_texts(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static fault refuse_twins(const struct texts *files, struct place place)
{
    const char **sorted = malloc((files->n + 1) * sizeof *sorted);
    if (!sorted)
        return OUT_OF_MEMORY;
    fault f = OK;
    if (files->n)
        memcpy(sorted, files->at, files->n * sizeof *sorted);
    qsort(sorted, files->n, sizeof *sorted, compare_texts);
    for (size_t i = 1; !f && i < files->n; i++)
        if (text_is(sorted[i - 1], sorted[i]))
            f = fail_at(place, "data.split: the file %s is given to two agents", text_shown(sorted[i]).text);
    free(sorted);
    return f;
}

fault split_check_files(const void *settings, struct place place, size_t n_agents)
{
    const struct files_split *s = settings;
    if (s->files.n != n_agents)
        return fail_at(place, "data.split: %zu files for %zu agents", s->files.n, n_agents);
    if (s->labels.n && s->labels.n != n_agents)
        return fail_at(place, "data.split: %zu files of labels for %zu agents", s->labels.n, n_agents);
    return refuse_twins(&s->files, place);
}

static fault check_set(const struct data_settings *d, const struct set_row *row)
{
    const struct files_split *s = d->split.settings;
    const char *name = d->set.kind->name;
    struct place place = d->split.place;
    if (!row->read_share)
        return fail_at(place, "data.split: 'files' is for sets that lie in files, and %s is made up", name);
    if (row->labels_apart && s->labels.n == 0)
        return fail_at(
            place, "data.split: the key 'labels' is missing (%s has its labels in files of their own)", name);
    if (!row->labels_apart && s->labels.n)
        return fail_at(place, "data.split: labels: %s has its labels with the samples", name);
    if (d->limit)
        return fail_at(place,
                       "data.limit: cannot be used with the split 'files', in which each agent has the "
                       "samples of its own file");
    if (!row->mean && d->mean.n == 0)
        return fail_at(place,
                       "data.mean: must be written with the split 'files', and data.deviation: no agent sees "
                       "all samples to measure them");
    return OK;
}

static fault read_shares(const struct data_settings *d, const struct set_row *row, int64_t only_agent,
                         struct intake *intake, size_t *first)
{
    const struct files_split *s = d->split.settings;
    for (size_t i = 0; i < s->files.n; i++) {
        if (only_agent < 0 || (size_t)only_agent == i)
            TRY(row->read_share(row, &d->set, s->files.at[i], row->labels_apart ? s->labels.at[i] : NULL,
                                intake));
        first[i + 1] = intake->n;
    }
    return OK;
}

fault split_load_files(const struct data_settings *d, int64_t only_agent, struct loaded *out,
                       size_t **file_first)
{
    const struct set_row *row = d->set.kind->row;
    const struct files_split *s = d->split.settings;
    TRY(split_check_files(s, d->split.place, s->files.n));
    TRY(check_set(d, row));
    if (only_agent >= (int64_t)s->files.n)
        return FAIL(FAULT_USAGE, "agent %lld has none of the %zu files", (long long)only_agent, s->files.n);
    size_t *first = calloc(s->files.n + 1, sizeof *first);
    if (!first)
        return OUT_OF_MEMORY;
    fault f = read_shares(d, row, only_agent, &out->train, first);
    if (!f)
        f = row->read_test(row, &d->set, out);
    if (f)
        free(first);
    else
        *file_first = first;
    return f;
}
