/* catalogue.c - the known sets as the commands see them. */
#include "data/catalogue.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "data/fetch/fetch.h"
#include "data/known_sets.h"

static fault set_folder(char *path, size_t n, const char *base, const char *below)
{
    int length = snprintf(path, n, "%s%s", base, below);
    if (length < 0 || (size_t)length >= n)
        return FAIL(FAULT_FILE, "%s: the path is too long", base);
    return OK;
}

fault data_folder(char *path, size_t n)
{
    static const struct {
        const char *variable, *below;
    } places[] = {{"VECHE_DATA", ""}, {"XDG_DATA_HOME", "/veche"}, {"HOME", "/.local/share/veche"}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *base = getenv(places[i].variable);
        if (base && *base)
            return set_folder(path, n, base, places[i].below);
    }
    return FAIL(FAULT_FILE, "no folder for data is known: set VECHE_DATA or HOME");
}

size_t catalogue_count(void)
{
    size_t n = 0;
    while (known_sets[n])
        n++;
    return n;
}

fault catalogue_look(size_t i, struct catalogue_entry *out, char *folder, size_t n_folder)
{
    char data[PATH_ROOM];
    bool here;
    if (i >= catalogue_count())
        return FAIL(FAULT_USAGE, "the catalogue has no entry %zu", i);
    const struct known *k = known_sets[i];
    TRY(data_folder(data, sizeof data));
    TRY(known_look(k, data, folder, n_folder, &here));
    *out = (struct catalogue_entry){
        .name = k->name, .help = k->help, .folder = here ? folder : NULL, .here = here};
    return OK;
}

static const char *name_of(const void *ctx, size_t i)
{
    (void)ctx;
    return known_sets[i] ? known_sets[i]->name : NULL;
}

static fault find(const char *name, const struct known **out)
{
    *out = known_find(name);
    if (*out)
        return OK;
    const char *near = text_nearest(name, name_of, NULL);
    if (near)
        return FAIL(FAULT_DATA, "there is no known data set '%s'; did you mean '%s'?", name, near);
    return FAIL(FAULT_DATA, "there is no known data set '%s'; `veche data list` shows all", name);
}

fault catalogue_get(const char *name, const char *from, catalogue_progress *progress, void *ctx)
{
    const struct known *k;
    char data[PATH_ROOM];
    TRY(find(name, &k));
    TRY(data_folder(data, sizeof data));
    return known_get(k, data, from, &(struct listener){progress, ctx});
}

fault catalogue_verify(const char *name, catalogue_progress *progress, void *ctx)
{
    const struct known *k;
    char data[PATH_ROOM], folder[PATH_ROOM];
    bool here;
    struct intake train = {0}, test = {0};
    TRY(find(name, &k));
    TRY(data_folder(data, sizeof data));
    TRY(known_look(k, data, folder, sizeof folder, &here));
    if (!here)
        return known_missing(k, data);
    TRY(known_read(k, folder, &(struct listener){progress, ctx}, &train, &test));
    intake_close(&train);
    intake_close(&test);
    return OK;
}
