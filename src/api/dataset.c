/* dataset.c - the catalogue of data sets, as the library shows it. */
#include "base/plain.h"
#include "data/catalogue.h"
#include "veche.h"

veche_fault *veche_data_folder(char *path, size_t n)
{
    return data_folder(path, n);
}

size_t veche_dataset_count(void)
{
    return catalogue_count();
}

veche_fault *veche_dataset_at(size_t i, veche_dataset *out)
{
    struct catalogue_entry entry;
    veche_dataset d = {0};
    TRY(catalogue_look(i, &entry, d.folder, sizeof d.folder));
    d.name = entry.name;
    d.help = entry.help;
    d.here = entry.here;
    *out = d;
    return OK;
}

veche_fault *veche_dataset_get(const char *name, const char *from, veche_fetch_progress *progress, void *ctx)
{
    PLAIN_NUMBERS;
    return catalogue_get(name, from, progress, ctx);
}

veche_fault *veche_dataset_verify(const char *name, veche_fetch_progress *progress, void *ctx)
{
    PLAIN_NUMBERS;
    return catalogue_verify(name, progress, ctx);
}
