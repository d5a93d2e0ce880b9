/* sections.h - the rows of the sections that every experiment has; offsets are into the structs of
 * experiment.h. */
#ifndef VECHE_EXPERIMENT_SECTIONS_H
#define VECHE_EXPERIMENT_SECTIONS_H

#include "experiment/experiment.h"

enum section_id {
    SECTION_TOP,      /* settings: struct experiment           */
    SECTION_DATA,     /* struct data_settings                  */
    SECTION_LAYER,    /* struct layer: what all layers may take */
    SECTION_OPTIM,    /* struct optim_settings                 */
    SECTION_SCHEDULE, /* struct optim_settings, too            */
    SECTION_TRAIN,    /* struct train_settings                 */
    SECTION_ENGINE,   /* struct engine_settings                */
    SECTION_MACHINES, /* struct machine_settings               */
    N_SECTIONS
};

extern const struct section section_rows[N_SECTIONS];

#endif
