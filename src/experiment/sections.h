/* sections.h - the fields of the sections that every experiment has; offsets are into the structs of
 * experiment.h. */
#ifndef VECHE_EXPERIMENT_SECTIONS_H
#define VECHE_EXPERIMENT_SECTIONS_H

#include "experiment/experiment.h"

enum section_id {
    SECTION_TOP,      /* settings: struct experiment           */
    SECTION_DATA,     /* struct data_settings                  */
    SECTION_LAYER,    /* struct layer: what all layers may take; `from` is field LAYER_FROM */
    SECTION_OPTIM,    /* struct optim_settings                 */
    SECTION_SCHEDULE, /* struct optim_settings, too            */
    SECTION_TRAIN,    /* struct train_settings                 */
    SECTION_STOP,     /* struct stop_settings                 */
    SECTION_ENGINE,   /* struct engine_settings                */
    SECTION_TOPOLOGY, /* struct topology_settings; the graph is the first field */
    SECTION_NETWORK,  /* struct network_settings               */
    SECTION_WIRE,     /* struct wire: what is not written stays as it is */
    SECTION_LINK,     /* struct link_written                   */
    SECTION_EVENT,    /* struct event_written                  */
    SECTION_RANDOM,   /* struct random_events                  */
    N_SECTIONS
};

enum { LAYER_FROM = 1 };

/* Items of lists as they are written; network.c and events.c make more of them. */
struct link_written {
    struct reals between;
};
struct event_written {
    double at_s;
    struct reals who[EVENT_PARTITION]; /* of crash, return, cut and mend */
    int heal;
};

extern const char *const event_names[N_EVENTS];

extern const struct section section_table[N_SECTIONS];

#endif
