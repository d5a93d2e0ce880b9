/* catalogue.h - where known data sets come from, and whether what lies here is them. */
#ifndef VECHE_DATA_CATALOGUE_H
#define VECHE_DATA_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"

/* Called now and then with what is done and to be done, in bytes of a fetch or an archive, else in samples or files
 * (total 0: not known). Return false to stop. */
typedef bool catalogue_progress(void *ctx, const char *what, uint64_t done, uint64_t total);

struct catalogue_entry {
    const char *name;
    const char *help;    /* what it is and where it comes from */
    const char *folder;  /* where it lies when it is here (owned by the catalogue's caller's buffer), else NULL */
    bool here;
};

/* The folder for data sets: $VECHE_DATA, else $XDG_DATA_HOME/veche, else ~/.local/share/veche. */
fault data_folder(char *path, size_t n);

size_t catalogue_count(void);
fault catalogue_look(size_t i, struct catalogue_entry *out, char *folder, size_t n_folder);

/* Fetches and verifies; an existing good copy is kept and nothing is fetched. `from` (or NULL) is a local folder or
 * archive to take it from. All or nothing: an interrupted fetch leaves no half set behind. */
fault catalogue_get(const char *name, const char *from, catalogue_progress *progress, void *ctx);
/* SHA-256 of every file and counts of every label. */
fault catalogue_verify(const char *name, catalogue_progress *progress, void *ctx);

#endif
