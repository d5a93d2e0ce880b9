/* team.h - the machines of one agent: which part of its network each has, and how they make a gradient together.
 *
 *        agent 0                              agent 1
 *   machine 0   layers 0 .. 4           machine 3   layers 0 .. 4
 *   machine 1   layers 5 .. 9    <->    machine 4   layers 5 .. 9        the same part, and the same floats of its rows
 *   machine 2   layers 10 ..            machine 5   layers 10 ..
 *
 * To a strategy a team is one agent: it asks for a lesson, gets a gradient, and speaks of rows and spans of them. What a machine has
 * of a row are the floats of its own layers. All teams of a run are cut alike. An agent that helps has one machine, and whole rows.
 */
#ifndef VECHE_TEAM_TEAM_H
#define VECHE_TEAM_TEAM_H

#include "engine/rows.h"
#include "experiment/experiment.h"
#include "graph/graph.h"
#include "team/schedule.h"
#include "team/timeline.h"

/* The rows after `team.kind`: `none`, and `pipeline`. */
extern const struct kinds team_kinds;

enum recompute { RECOMPUTE_NEVER, RECOMPUTE_ALWAYS, RECOMPUTE_EXCEPT_LAST };

struct pipeline { /* team: { kind: pipeline, ... } */
    int64_t size; /* first, as in every kind of team */
    const char *schedule;
    int64_t microbatches, chunks, warmup;
    int recompute;
    struct texts cut; /* "auto", "even", or the first layer of every part but the first */
};

/* The settings of a team that is a pipeline; NULL: an agent is one machine. */
static inline const struct pipeline *team_pipeline(const struct experiment *e)
{
    return e->team.settings;
}

/* Micro-batches that a lesson is made of. */
static inline size_t team_micro_batches(const struct experiment *e)
{
    const struct pipeline *p = team_pipeline(e);
    return (size_t)(p ? p->microbatches : e->train.accumulate);
}

struct team;

/* What can be wrong with the section `team` before there is a network. */
fault team_check(const struct experiment *e);
/* `speeds` of the first agents' machines, as many as there are agents times machines. NULL in *out: an agent is one machine. */
fault team_open(const struct experiment *e, const struct graph *g, const double *speeds, struct team **out);
void team_close(struct team *t);

size_t team_size(const struct team *t); /* machines; 1 where there is no team */
/* Into how many parts its network is cut, and in which of them an op of the whole is. */
size_t team_parts(const struct team *t);
size_t team_part_of(const struct team *t, size_t op);
/* How many of the floats [first, end) of a row machine i has. Rows that are like no others are the first machine's. */
size_t team_floats(const struct team *t, size_t i, const struct row_entry *row, size_t first, size_t end);

/* When a lesson's passes are over, in seconds after its beginning. */
struct team_lesson {
    const double *machine_s; /* [size]: what the whole lesson would take each machine alone */
    struct wire wire;        /* between two machines of the team */
    double ends_s;           /* out: all is done                                                     */
    double *done_s;          /* out, [size]: the machine's gradients are final                          */
    double bubble;           /* out: the share of the machines' time in which they computed nothing     */
    uint64_t bytes, messages; /* out: between the machines */
};
fault team_time(struct team *t, struct team_lesson *lesson);

/* The time line of a lesson as a drawing. */
fault team_draw(struct team *t, struct team_lesson *lesson, FILE *to);
/* A line for each part, for people; and one for a lesson, unless it is NULL. */
void team_describe(const struct team *t, const struct graph *g, const struct team_lesson *lesson, FILE *to);

#endif
