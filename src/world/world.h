/* world.h - where agents live, as those who run an experiment see it.
 *
 *   door: join -> (open all that an experiment names) -> agree that all could -> open
 *   world: [restore] -> play (at each moment the watcher is told, who may look) -> look -> close
 *
 * A world's door is a row of world_kinds; nothing outside this room calls a world by its name. Agents see
 * their world through links (link.h). A world knows the members of its stage by number, whether they live in
 * this process or not. One process leads a play: it is told of moments and notes, and may look at the rows of
 * all; the processes of the others only take part.
 */
#ifndef VECHE_WORLD_WORLD_H
#define VECHE_WORLD_WORLD_H

#include "strategy/agent.h"
#include "world/waits.h"

enum { WORLD_HOST = 64 }; /* bytes of a machine's name, with its final zero */

struct watcher {
    void *ctx;
    /* Nothing more happens at this moment. A fault ends the play; FAULT_STOPPED is not an error. */
    fault (*moment)(void *ctx);
    void (*note)(void *ctx, double now_s, size_t agent, const char *kind, const char *text);
    /* The moment at the end of this round wants to look at the numbers of all; NULL: none does. */
    bool (*is_due)(void *ctx, uint64_t round);
    /* This process was asked to stop; NULL: it never is. */
    bool (*has_to_stop)(void *ctx);
    void (*stop)(void *ctx); /* another process was asked to */
};

struct totals {     /* of all agents that learn, so far */
    uint64_t begun; /* rounds that were taken, where all share them */
    uint64_t ended; /* rounds */
    uint64_t samples;
};

struct world {
    const struct world_ops *ops;
};

/* The processes that live through a world together, and which of them this one is. */
struct ranks {
    const struct world_door *door; /* of the world */
    size_t self, n;                /* n 0: all members live in this process, which is the only one */
    size_t here;                   /* how many ranks before this one are on the same machine */
    int threads;          /* what is its own of the machine's cores; 0: whatever the experiment says */
    bool outnumber_cores; /* on this machine, so none may spin */
};

/* What can be asked of a world before it is open. Of one in which all members live in one process
 * `launched` and all that follows up to `gather` are NULL. */
struct world_door {
    const char *name;     /* as written after `world:` */
    bool is_in_real_time; /* machines take the time that they take, and fail by themselves */

    /* How many processes a launcher has started for this world, as the environment says; 0: there was no
     * launcher. */
    size_t (*launched)(void);
    /* A fault where so many members would have to be started otherwise than this process was; it says how. */
    fault (*check_launch)(const struct experiment *e);
    /* Takes a place among all ranks, which call this together, or as the only one there is. */
    fault (*join)(bool alone, struct ranks *out);
    /* Bytes of every rank to every rank, as many as each likes. *all: owned by the caller, those of rank
     * 0, 1, ... one after the other, of lengths[i] each. All ranks call this together, and none waits
     * longer than patience for the others. */
    fault (*gather)(const struct ranks *ranks, const void *mine, size_t n, double patience_s,
                    unsigned char **all, size_t *lengths);

    /* What the engine of this process must have for its members: replicas, spare rows, where rows lie,
     * threads. */
    void (*furnish)(const struct ranks *ranks, const struct experiment *e, size_t n_links,
                    struct engine_setup *setup);
    /* Agents are borrowed, and those that live in this process get their links; `speeds` of machines are
     * copied. */
    fault (*open)(const struct ranks *ranks, const struct stage *stage, struct agent *agents,
                  struct engine *engine, const double *speeds, struct watcher watcher, struct world **out);

    const struct library_sum *library; /* NULL: it stands on no library that sums by itself */
};

/* For comparisons: a library's own sum of any memory over all ranks, as one call in which all of them wait. */
struct library_sum {
    const char *name;
    void (*version)(char *into, size_t n); /* "Open MPI v4.1.4"; at most n bytes with the final zero */
    void (*expect)(void);                  /* before `join`: there will be waiting in such calls */
    void (*sum)(struct link *l, float *floats, size_t n);
};

/* Real seconds that the engine worked for a world. */
struct engine_times {
    double learn_s, update_s, mix_s;
};

struct world_ops {
    void (*close)(struct world *w);
    /* Lets all members live to the end of the play. */
    fault (*play)(struct world *w);
    /* The play is over and has gone well, though rounds are left: the members that live elsewhere end so,
     * too. NULL: there are none. */
    void (*end_well)(struct world *w);
    /* Makes everything but the numbers as it was after so many steps: first of all `restore`, then every
     * row that is needed and every member's account are written, then `play`. */
    fault (*restore)(struct world *w, uint64_t steps);
    /* This process leads. */
    bool (*leads)(const struct world *w);

    /* Whether the process of another member on this machine is gone: 1: it is, and this one is the first
     * of those left; 2: it is; 0. From any thread; NULL: there are no other processes. */
    int (*lost)(const struct world *w, char *who, size_t n);

    /* Who is where: a line for each machine, and one where processors differ; the caller frees. NULL: all
     * are here. */
    fault (*places)(const struct world *w, char **text);

    /* For the leader, at a moment or when the play is over: does what takes long and asks nothing of
     * this world, as writing to disk does, and returns when it is done. The others hear meanwhile that
     * this process lives. NULL: there are no others. */
    fault (*aside)(struct world *w, fault (*task)(void *ctx), void *ctx);

    double (*now_s)(const struct world *w);
    uint64_t (*steps)(const struct world *w);
    /* Exact at a moment at which the leader looks; in between what this process knows. Nothing where it
     * does not lead. */
    struct totals (*totals)(const struct world *w);
    bool (*is_replaying)(const struct world *w);
    bool (*is_alive)(const struct world *w, size_t member);
    struct link_counts (*counts)(const struct world *w, size_t member);
    const struct waits *(*waits)(const struct world *w);
    struct engine_times (*times)(const struct world *w); /* NULL: not known */

    /* For the leader, at a moment or when the play is over. Computes everything asked for so far, so
     * that rows, tallies and counts are those of this moment. */
    fault (*settle)(struct world *w);
    /* Exams of members, or of the group's model: the row after all members'. */
    fault (*examine)(struct world *w, struct exam *exams, size_t n);
    fault (*read)(struct world *w, enum row row, size_t at, float *floats);
    fault (*write)(struct world *w, enum row row, size_t at, const float *floats);
    /* The row of the group's model becomes a weighted sum of the members' rows of this kind, without
     * shifts. */
    fault (*blend)(struct world *w, enum row row, const struct addend *addends, size_t n);
    /* Rows of a kind that `read` and `write` know, and which of them hold something that is still needed. */
    size_t (*n_rows)(const struct world *w);
    void (*rows_needed)(const struct world *w, enum row row, bool *needed);
    /* The numbers a member has asked for so far, in order: `restore` needs those of its steps, set before
     * it. NULL, both: this world does not live through its steps again. */
    const double *(*numbers)(const struct world *w, size_t member, size_t *n);
    fault (*set_numbers)(struct world *w, size_t member, const double *numbers, size_t n);
    /* What a member has done so far, where that does not follow from the steps: worlds that live through
     * them again have neither of these. */
    struct account (*account)(const struct world *w, size_t member);
    void (*set_account)(struct world *w, size_t member, const struct account *a);
};

/* The part of an agent that a checkpoint must hold. */
struct account {
    uint64_t k, lessons, steps, dropped;
    double lr, loss;
    struct staleness staleness;
    struct tally tally;
    struct link_counts counts;
};

/* The row of the group's model, for `examine`, `read` and `write`. */
static inline size_t world_model_row(const struct stage *s)
{
    return s->n_members;
}

/* ---- kinds.c ---- */

extern const struct kinds world_kinds;

static inline const struct world_door *world_door(const struct experiment *e)
{
    return e->world.kind->row;
}

/* Of the world of this name; NULL: there is none in this build. */
const struct world_door *world_named(const char *name);
/* Of the world that a launcher has started this process for, and how many processes in all; NULL, and 1:
 * no launcher has. */
const struct world_door *world_launched(size_t *n_processes);

/* ---- agree.c: what all ranks call together; a process that is the only one agrees with itself ---- */

/* `mine` is taken. Where a rank has a fault all get one: rank 0 its sentence, and whose it is; the
 * others FAULT_ELSEWHERE. */
fault world_agree(const struct ranks *ranks, fault mine, double patience_s);
/* A fault that names the first rank whose text differs from that of rank 0: "has another data set". */
fault world_compare(const struct ranks *ranks, const char *what, const char *mine, double patience_s);
/* The largest of all. */
fault world_largest(const struct ranks *ranks, uint64_t mine, double patience_s, uint64_t *out);
/* A text of each, of so many bytes with its final zero: *all has them one after the other; the caller
 * frees. */
fault world_gather_texts(const struct ranks *ranks, const char *mine, size_t n, double patience_s,
                         char **all);
/* The text of rank 0 to all; the caller frees. */
fault world_spread_text(const struct ranks *ranks, char **text, double patience_s);
/* The name of this machine. */
void world_host(char name[WORLD_HOST]);

#endif
