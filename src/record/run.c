/* run.c - the folder of a run: made (folder.h), opened again, closed.
 *
 *   open:  lock -> sweep parts of interrupted writes -> cut a half-written event
 */
#include "record/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/inside.h"
#include "record/file.h"
#include "record/seal.h"

fault run_create(const char *parent, const char *name, const char *experiment_yaml, int64_t keep,
                 struct run_folder *out)
{
    struct run_folder r = {.lock = -1, .events = -1, .keep = keep};
    char *sealed;
    TRY(seal_text(&seal_of_yaml, experiment_yaml, &sealed));
    fault f = folder_create(parent, name, false, "experiment.yaml", sealed, r.path, &r.lock);
    free(sealed);
    TRY(f);
    f = events_open(&r);
    if (f) {
        run_close(&r);
        fault_drop(folder_discard(r.path));
        return f;
    }
    *out = r;
    return OK;
}

static fault look_inside(struct run_folder *r)
{
    char path[FILE_PATH];
    TRY(path_join(r->path, "experiment.yaml", sizeof path, path));
    if (access(path, R_OK) != 0)
        return FAIL(FAULT_FILE, "%s: is not a run: experiment.yaml cannot be read: %s", r->path,
                    strerror(errno));
    TRY(folder_lock(r->path, &r->lock));
    TRY(folder_sweep(r->path));
    return events_open(r);
}

fault run_open(const char *path, int64_t keep, struct run_folder *out)
{
    struct run_folder r = {.lock = -1, .events = -1, .keep = keep};
    if (snprintf(r.path, sizeof r.path, "%s", path) >= (int)sizeof r.path)
        return FAIL(FAULT_FILE, "%.200s...: the path is too long", path);
    fault f = look_inside(&r);
    if (f)
        run_close(&r);
    else
        *out = r;
    return f;
}

fault run_write_team(struct run_folder *r, const char *svg)
{
    char path[FILE_PATH];
    TRY(path_join(r->path, "team.svg", sizeof path, path));
    return file_replace(path, &(struct piece){svg, strlen(svg)}, 1);
}

fault run_write_experiment(struct run_folder *r, const char *experiment_yaml)
{
    char path[FILE_PATH], *sealed;
    TRY(path_join(r->path, "experiment.yaml", sizeof path, path));
    TRY(seal_text(&seal_of_yaml, experiment_yaml, &sealed));
    fault f = file_replace(path, &(struct piece){sealed, strlen(sealed)}, 1);
    free(sealed);
    return f;
}

void run_close(struct run_folder *r)
{
    if (r->events >= 0)
        close(r->events);
    if (r->lock >= 0)
        close(r->lock);
    r->events = r->lock = -1;
}
