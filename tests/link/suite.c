/* suite.c - see suite.h. */
#include "link/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "api/registry.h"

/* ---- watching ---- */

static void hear(void *ctx, const veche_event *event)
{
    struct play *p = ctx;
    size_t length = strlen(p->notes);
    if (event->kind == VECHE_NOTICE)
        snprintf(p->notes + length, sizeof p->notes - length, "%s\n", event->text);
}

/* ---- playing ---- */

struct suite {
    const struct suite_world *world;
    const struct ranks *ranks;
    size_t n;
};

struct staged {       /* what a case's program finds by its stage */
    struct play play; /* first */
    const struct suite *suite;
    struct strategy_row row;
    struct kind kind;
};

static size_t few(const struct row_needs *needs)
{
    (void)needs;
    return SUITE_FEW;
}

static void put_program_in_place(struct staged *s, struct experiment *e)
{
    s->row = s->play.which->row;
    s->row.run = s->play.which->program;
    s->row.hears_everyone = true;
    s->row.kept[0].name = "ones";
    s->row.kept[1].name = "ramp";
    s->row.kept[2].name = "few";
    s->row.kept[2].size = few;
    s->row.kept[3].name = "ought";
    s->kind = (struct kind){.name = "case", .row = &s->row};
    e->strategy.kind = &s->kind;
}

static double patience_of_case(const struct link_case *c)
{
    return c->patience_s > 0 ? c->patience_s : c->one_falls ? SUITE_PATIENCE_S : 20;
}

static struct experiment *parse(const struct suite *suite, const struct link_case *c)
{
    struct registry registry = registry_of_everything();
    struct experiment *e = NULL;
    bool scripted = !world_named(suite->world->name)->is_in_real_time;
    char *script = scripted && c->script ? text_of(c->script, suite->n - 1, suite->n - 1) : text_of("%s", "");
    char *text = text_of(
        "data: {set: {kind: blobs, classes: 3, features: 16, samples: 210, test_samples: 10}, batch: 2}\n"
        "model: [{linear: {out: 1400}}, batchnorm, relu, {linear: {out: 3}}]\n"
        "optim: {kind: adam, lr: 0.001}\nengine: {kind: ref, threads: 1}\nworld: %s\nagents: %zu\n"
        "topology: \"complete:%zu\"\nnetwork: {patience_s: %g}\n"
        "train: {epochs: 1, seed: 1, evaluate_every: never, checkpoint_every: never}\n%s",
        suite->world->name, suite->n, suite->n, patience_of_case(c),
        script);
    free(script);
    fault f = experiment_parse(text, strlen(text), "suite", NULL, 0, &registry, &e);
    free(text);
    must(f);
    return e;
}

static fault write_row(struct world *w, enum row row, size_t member, double more, float *floats, size_t n)
{
    for (size_t i = 0; i < n; i++)
        floats[i] = (float)(more > 0 ? more * (double)i : 1);
    return w->ops->write(w, row, member, floats);
}

/* Everybody's ones and ramp. */
static fault write_rows(struct veche_run *r)
{
    struct world *w = r->world;
    size_t n = row_size(&r->engine->setup, ROW_ONES);
    float *floats = malloc(n * sizeof *floats);
    fault f = floats ? w->ops->restore(w, 0) : OUT_OF_MEMORY;
    for (size_t i = 0; !f && i < r->stage.n_members; i++) {
        f = write_row(w, ROW_ONES, i, 0, floats, n);
        if (!f)
            f = write_row(w, ROW_RAMP, i, 1, floats, n);
    }
    free(floats);
    return f;
}

/* The last member, where a machine of its own goes down, hears so; the others have to do with nothing but
 * its absence. */
static bool is_as_it_should_be(const struct staged *s, fault f)
{
    const struct ranks *ranks = s->suite->ranks;
    if (s->play.which->diverges)
        return f && fault_kind_of(f) == (ranks->self ? FAULT_ELSEWHERE : FAULT_NUMBER);
    if (s->play.which->one_falls && ranks->n && ranks->self == ranks->n - 1)
        return f && fault_kind_of(f) == FAULT_GIVEN_UP;
    return !f;
}

static void run_case(void **state)
{
    const struct suite *suite = ((struct suite **)*state)[0];
    const struct link_case *c = ((const struct link_case **)*state)[1];
    static const struct staged empty;
    struct staged *s = malloc(sizeof *s);
    struct experiment *e = parse(suite, c);
    assert_non_null(s);
    *s = empty;
    s->play.which = c;
    s->suite = suite;
    s->play.n = suite->n;
    put_program_in_place(s, e);
    must(session_open(e, suite->ranks, &(veche_options){.watch = hear, .ctx = s}, &s->play.run));
    struct veche_run *r = s->play.run;
    bool leads = r->world->ops->leads(r->world);
    r->stage.shared = s;
    if (suite->world->open)
        suite->world->open(r, c);
    fault f = leads ? write_rows(r) : OK;
    if (!f)
        f = r->world->ops->play(r->world);
    if (!f && leads && c->look)
        f = c->look(&s->play);
    session_close(r);
    if (suite->world->close)
        suite->world->close(c);
    bool well = is_as_it_should_be(s, f);
    fault wrong = well ? OK : FAIL(FAULT_USAGE, "%s", f ? fault_text(f) : "it goes well, and should not");
    fault_drop(f);
    free(s);
    must(world_agree(suite->ranks, wrong, 60)); /* where one fails all do, and none is ahead of the others */
}

/* Where time is real, patience is spent once, by as few as are needed. */
static bool is_played(const struct suite *suite, const struct link_case *c)
{
    bool takes_long = (c->patience_s > 0 || c->one_falls) && world_named(suite->world->name)->is_in_real_time;
    return takes_long ? c->least == suite->n : c->least <= suite->n;
}

static size_t count(const struct suite *suite, const struct link_case *c)
{
    size_t n = 0;
    for (; c->name; c++)
        n += is_played(suite, c);
    return n;
}

static const struct link_case *const all[] = {cases_of_messages, cases_of_rows, cases_of_peers};

int suite_run(const struct suite_world *world, const struct ranks *ranks, size_t n_members)
{
    struct suite suite = {world, ranks, n_members};
    size_t n = 0, at = 0;
    for (size_t i = 0; i < 3; i++)
        n += count(&suite, all[i]);
    struct CMUnitTest *tests = calloc(n, sizeof *tests);
    const void **states = calloc(2 * n, sizeof *states);
    for (size_t i = 0; tests && states && i < 3; i++)
        for (const struct link_case *c = all[i]; c->name; c++) {
            if (!is_played(&suite, c))
                continue;
            states[2 * at] = &suite;
            states[2 * at + 1] = c;
            tests[at] =
                (struct CMUnitTest){.name = c->name, .test_func = run_case, .initial_state = &states[2 * at]};
            at++;
        }
    int n_failed = tests && states ? _cmocka_run_group_tests("link", tests, n, NULL, NULL) : 1;
    free(tests);
    free(states);
    return n_failed;
}

/* ---- for cases ---- */

static const struct suite_world *world_of(const struct agent *a)
{
    return ((const struct staged *)a->stage->shared)->suite->world;
}

fault suite_fall(struct agent *a)
{
    return world_of(a)->fall ? world_of(a)->fall(a) : link_sleep(a->link, 1e6);
}

fault suite_be_absent(struct agent *a, double seconds)
{
    if (!world_of(a)->be_absent)
        return link_sleep(a->link, seconds);
    world_of(a)->be_absent(a, seconds);
    return OK;
}

fault suite_fill(struct agent *a, enum row row, double value)
{
    const struct term ones = {value, ROW_ONES, NULL, 0};
    return link_mix(a->link, row, 0, TO_END, &ones, 1);
}

fault suite_row_is(struct agent *a, enum row row, size_t first, size_t end, double start, double more,
                   bool *is)
{
    const struct term less[] = {{1, row, NULL, 0}, {-start, ROW_ONES, NULL, 0}, {-more, ROW_RAMP, NULL, 0}};
    double off;
    TRY(link_mix(a->link, ROW_OUGHT, first, end, less, 3));
    TRY(link_number(a->link, &(struct question){NUMBER_DOT, ROW_OUGHT, ROW_OUGHT, first, end, 0}, &off));
    *is = off == 0;
    return OK;
}

fault suite_parcel_is(struct agent *a, const struct parcel *p, enum row row, size_t first, size_t end,
                      double value, bool *is)
{
    const struct term less[] = {{1, row, p, 0}, {-value, ROW_ONES, NULL, 0}};
    double off;
    TRY(link_mix(a->link, ROW_OUGHT, first, end, less, 2));
    TRY(link_number(a->link, &(struct question){NUMBER_DOT, ROW_OUGHT, ROW_OUGHT, first, end, 0}, &off));
    *is = off == 0;
    return OK;
}

fault suite_barrier(struct agent *a, uint64_t tag)
{
    char nothing = 0;
    for (size_t i = 0; i < a->link->n_members; i++)
        TRY(link_send(a->link, i, tag, &nothing, 0));
    for (size_t i = 0; i < a->link->n_members; i++)
        TRY(link_recv(a->link, i, tag, &nothing, 0, NULL));
    return OK;
}
