/* resume.h - a run that goes on: its folder, the checkpoint from which, and the experiment with which. */
#ifndef VECHE_API_RESUME_H
#define VECHE_API_RESUME_H

#include "experiment/experiment.h"
#include "record/run.h"

struct resumption {
    struct run_folder folder;   /* owned, locked; the run takes it */
    struct tensors checkpoint;  /* owned */
    char passed_over[RUN_PATH]; /* what is wrong with a newer checkpoint; empty: nothing */
    bool goes_back; /* newer checkpoints are whole, but would have been others with these epochs */
    bool is_over;               /* the checkpoint is of the run's end */
    bool regroups;  /* with another number of agents than the checkpoint's */
    bool reprints;  /* experiment.yaml is not what the program would write */
    char *text;     /* owned: the experiment to go on with, resolved */
};

#define NO_RESUMPTION                                                                                        \
    {                                                                                                        \
        .folder = {.lock = -1, .events = -1 }                                                                \
    }

/* Opens the folder of a run to go on with it, by so many ranks of the world `mpi` or by one process, with
 * "train.epochs=20" and others in place of what was. An experiment.yaml that was edited, or a setting that
 * may not change any more, is a fault that names the setting. */
fault resumption_open(const char *path, const char *const *assignments, size_t n, size_t n_ranks,
                      struct resumption *out);
void resumption_close(struct resumption *r);

/* The experiment the checkpoint was made by. */
const char *resumption_was(const struct resumption *r);

#endif
