/* compare.h - a comparison: which experiments it is made of, and where it stands.
 *
 *   experiment, lists -> compare_plan -> DIR/compare.json -> one run after the other -> table, page
 *
 * compare.json holds the resolved experiment of every method, so that a comparison can go on from its folder
 * alone. Whether a method is done is said by its run's own folder.
 */
#ifndef VECHE_API_COMPARE_H
#define VECHE_API_COMPARE_H

#include "base/arena.h"
#include "veche.h"

struct method {
    const char *label;   /* for people: "consensus, every 5"    */
    const char *name;    /* of its run's folder                 */
    const char *yaml;    /* its resolved experiment             */
    const char *failure; /* why its run failed; NULL: it did not */
};

struct plan {
    struct arena arena; /* owned: holds everything below */
    const char *name;   /* of the experiment              */
    double target;      /* percent; NaN: none             */
    struct method *methods;
    size_t n;
};

/* compare_over.c: "KEY=VALUE,VALUE": commas in brackets or quotes do not separate. */
struct over {
    const char *key;
    const char **values;
    size_t n;
};
fault over_read(const char *text, struct arena *arena, struct over *out);
/* "every 5", "ps, mode async": how a person would call a value of a key. */
const char *over_words(const char *key, const char *value, struct arena *arena);

/* compare_plan.c: every method as an experiment that is known to be good. What was left out or added is told
 * to the watcher. plan_release in any case. */
fault compare_plan(const veche_experiment *e, const char *const *over, size_t n_over,
                   const veche_options *options, struct plan *out);
void plan_release(struct plan *p);

/* compare_file.c */
#define COMPARE_FILE "compare.json"
bool is_comparison(const char *folder);
fault plan_read(const char *folder, struct plan *out);
/* The whole of compare.json, or, without the experiments, what is printed for programs. `folder` is NULL
 * before there is one. Caller frees. */
fault plan_text(const struct plan *p, const char *folder, bool whole, char **out);
/* The table, and the page at DIR/report.html as far as anything was evaluated. */
fault plan_table(const struct plan *p, const char *folder, char **out);
fault plan_page(const struct plan *p, const char *folder);
/* Folders of the methods that have been evaluated, in the arena; for the report. */
fault plan_runs(const struct plan *p, const char *folder, struct arena *arena, const char ***paths,
                size_t *n);
bool method_is_done(const struct method *m, const char *folder);

#endif
