/* handle.h - what is behind a veche_experiment: its text, and what was put over it. */
#ifndef VECHE_API_HANDLE_H
#define VECHE_API_HANDLE_H

#include "experiment/experiment.h"
#include "veche.h"

struct veche_experiment {
    char *text, *source; /* owned */
    char **overrides;    /* owned */
    size_t n_overrides;
    struct experiment *parsed; /* owned: text and overrides, checked */
};

/* The experiment with a few more overrides, read together. */
fault experiment_with(const veche_experiment *e, const char *const *more, size_t n_more,
                      struct experiment **out);

bool experiment_is_for_ranks(const struct experiment *e);
/* A fault where an experiment for several ranks was started as one process, with no launcher. */
fault experiment_check_launch(const struct experiment *e);
/* How many agents learn where there are so many ranks, helpers among them. */
fault experiment_agents_of_ranks(const struct experiment *e, size_t n_ranks, int64_t *agents);

/* How an agent's machines share the network, by the speeds that the experiment gives them; NULL in *out: an agent is one. */
struct graph;
struct team;
fault experiment_team(const struct experiment *e, const struct graph *g, struct team **out);

/* All that can be found wrong with an experiment before it is run; the network's lines where `layers` is not
 * NULL. */
fault experiment_examine(const struct experiment *e, char **layers);

#endif
