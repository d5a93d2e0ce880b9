/* compare.h - a comparison: which experiments it is made of, and where it stands.
 *
 *   experiment, lists -> compare_schedule -> DIR/compare.json -> one run after the other -> table, page
 *
 * compare.json holds the resolved experiment of every method, so that a comparison can go on from its folder
 * alone. Whether a method is done is said by its run's own folder.
 *
 * On ranks, the processes of a world that has one for each member, rank 0 leads: it alone has the schedule and
 * the folder, and tells the others which run comes next.
 */
#ifndef VECHE_API_COMPARE_COMPARE_H
#define VECHE_API_COMPARE_COMPARE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "record/folder.h"
#include "veche.h"
#include "world/world.h"

struct method {
    const char *label;   /* for people: "consensus, every 5"    */
    const char *name;    /* of its run's folder                 */
    const char *yaml;    /* its resolved experiment             */
    const char *failure; /* why its run failed; NULL: it did not */
};

struct run_schedule {
    struct arena arena; /* owned: holds everything below */
    const char *name;   /* of the experiment              */
    double target;      /* percent; NaN: none             */
    struct method *methods;
    size_t n;
    size_t n_ranks; /* 0: one process */
};

struct veche_comparison {
    struct run_schedule schedule; /* owned; without methods where another rank leads */
    char path[RUN_PATH];
    int lock; /* owned */
    veche_options options;
    atomic_bool stop;
    veche_run
        *run; /* owned: of the method at hand; NULL: none is open; another thread may ask it who is lost */
    pthread_mutex_t run_is_there;
    size_t at; /* the method at hand */
    struct ranks ranks;
    double patience_s; /* with the others */
    double told_s;     /* when they were told something last */
    bool alone;        /* the method at hand is the leader's alone */
    char engine[16];   /* the name of the one that was told last */
    bool places_are_told;
};

static inline bool comparison_leads(const veche_comparison *c)
{
    return c->ranks.self == 0;
}

/* compare.c: a run that was opened stops with the comparison. */
void comparison_hold(veche_comparison *c, veche_run *r);
void comparison_let_go(veche_comparison *c);

/* over.c: "KEY=VALUE,VALUE": commas in brackets or quotes do not separate. */
struct over {
    const char *key;
    const char **values;
    size_t n;
};
fault over_read(const char *text, struct arena *arena, struct over *out);
/* "every 5", "ps, mode async": how a person would call a value of a key. */
const char *over_words(const char *key, const char *value, struct arena *arena);

/* schedule.c: every method as an experiment that is known to be good. What was left out or added is told
 * to the watcher. `n_ranks`: members of each method are as many; 0: as many as the experiment says.
 * schedule_release in any case. */
fault compare_schedule(const veche_experiment *e, const char *const *over, size_t n_over,
                   const veche_options *options, size_t n_ranks, struct run_schedule *out);
void schedule_release(struct run_schedule *p);
fault method_is_for_one(const struct method *m, bool *out);               /* agent */
fault method_door(const struct method *m, const struct world_door **out); /* of its world */

/* ranks.c: what the leader tells the other ranks to do together with it, and what a rank does that does not lead
 * until it is told that all is over. Nothing where there is one process. */
enum order { ORDER_START = 's', ORDER_RESUME = 'r', ORDER_WAIT = 'w', ORDER_END = 'e' };
fault compare_order_others(veche_comparison *c, enum order order,
                           const char *text); /* the experiment, or the folder */
fault compare_follow_orders(veche_comparison *c);
void compare_keep_others_waiting(veche_comparison *c); /* from time to time while the leader trains alone */

/* file.c */
#define COMPARE_FILE "compare.json"
bool comparison_is_folder(const char *folder);
fault schedule_read(const char *folder, struct run_schedule *out);
/* The whole of compare.json, or, without the experiments, what is printed for programs. `folder` is NULL
 * before there is one. Caller frees. */
fault schedule_text(const struct run_schedule *p, const char *folder, bool whole, char **out);
/* The table, and the page at DIR/report.html as far as anything was evaluated. */
fault schedule_table(const struct run_schedule *p, const char *folder, char **out);
fault schedule_page(const struct run_schedule *p, const char *folder);
/* Folders of the methods that have been evaluated, in the arena; for the report. */
fault schedule_runs(const struct run_schedule *p, const char *folder, struct arena *arena, const char ***paths,
                size_t *n);
bool method_is_done(const struct method *m, const char *folder);

#endif
