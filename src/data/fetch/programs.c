/* programs.c - how each program is called that can bring an archive. */
#include "data/fetch/programs.h"

#include <stdio.h>

#include "base/sha256.h"
#include "base/text.h"
#include "data/fetch/child.h"

enum { MOST_ARGS = 12 };

struct recipe {
    const char *args[MOST_ARGS]; /* "@" stands for the address */
    enum tells tells;
    uint64_t times; /* how often the archive's bytes come to lie in the folder */
};

static const struct recipe recipes[] = {
    /* npm keeps a copy in its cache; here that is in the folder too, so that it is seen to grow and goes with
       it. */
    [FETCH_NPM] = {{"npm", "pack", "@", "--cache=cache", "--loglevel=error", "--update-notifier=false"},
                   TELLS_FIRST,
                   2},
    [FETCH_APT] = {{"apt-get", "--quiet", "download", "@"}, TELLS_LAST, 1},
    [FETCH_CURL] = {{"curl", "--fail", "--silent", "--show-error", "--location", "--retry", "2", "--output",
                     "archive", "@"},
                    TELLS_LAST,
                    1},
};

static fault check_archive(const struct origin *o, const char *path)
{
    char found[SHA256_HEX];
    if (!o->sha256)
        return OK;
    TRY(sha256_of_file(path, found));
    if (!text_is(found, o->sha256))
        return FAIL(FAULT_DATA, "%s came with the SHA-256 %s, but should have %s", o->address, found,
                    o->sha256);
    return OK;
}

fault fetch_archive(const struct origin *o, const char *folder, const struct listener *listener, char *path,
                    size_t n_path)
{
    const struct recipe *r = &recipes[o->fetcher];
    const char *argv[MOST_ARGS + 1] = {0};
    char what[64];
    for (size_t i = 0; i < MOST_ARGS && r->args[i]; i++)
        argv[i] = text_is(r->args[i], "@") ? o->address : r->args[i];
    snprintf(what, sizeof what, "fetching with %s", argv[0]);
    TRY(child_run(&(struct child){.argv = argv,
                                  .folder = folder,
                                  .what = what,
                                  .total = o->n_bytes * r->times,
                                  .patience_s = FETCH_PATIENCE_S,
                                  .tells = r->tells},
                  listener));
    TRY(folder_only_file(folder, path, n_path));
    return check_archive(o, path);
}
