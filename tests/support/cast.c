/* cast.c - see cast.h. */
#include "support/cast.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "api/registry.h"
#include "base/rng.h"
#include "experiment/machines.h"

/* Where there is OpenMP: one thread for the small matrices of a topology. On a busy machine threads that spin
 * for one another make seconds of milliseconds. */
void omp_set_num_threads(int n) __attribute__((weak));

static fault nothing_more(void *ctx)
{
    (void)ctx;
    return OK;
}

static void write_note(void *ctx, double now_s, size_t agent, const char *kind, const char *text)
{
    struct cast *g = ctx;
    char *line = text_of("%.6f %zu %s: %s\n", now_s, agent, kind, text);
    size_t n = strlen(line);
    if (g->notes_length + n >= g->notes_room) {
        g->notes_room = 2 * (g->notes_room + n + 1);
        g->notes = realloc(g->notes, g->notes_room);
        assert_non_null(g->notes);
    }
    memcpy(g->notes + g->notes_length, line, n + 1);
    g->notes_length += n;
    g->n_notes++;
    free(line);
}

static fault parse(const char *text, int rounds, unsigned seed, struct experiment **out)
{
    struct registry registry = registry_of_everything();
    char *train =
        text_of("train: {epochs: 1, seed: %u, evaluate_every: never, checkpoint_every: never}\n", seed);
    char *whole = text_of("%s%s", text, strstr(text, "train: {") ? "" : train);
    fault f = experiment_parse(whole, strlen(whole), "group", NULL, 0, &registry, out);
    free(train);
    free(whole);
    (void)rounds;
    if (!f && !strstr(text, "notice_s"))
        (*out)->network.notice_s = 0;
    return f;
}

static fault open_cast(struct cast *g, struct experiment *e, int rounds)
{
    if (omp_set_num_threads)
        omp_set_num_threads(1);
    TRY(session_open(e, NULL, NULL, &g->run));
    g->world = (struct local *)g->run->world;
    g->world->watcher = (struct watcher){.ctx = g, .moment = nothing_more, .note = write_note};
    g->run->stage.rounds = (uint64_t)rounds;
    g->n = g->run->n_agents;
    g->size = g->run->graph->size;
    g->ops = local_link;
    for (size_t i = 0; i < g->run->stage.n_members; i++)
        g->world->actors[i].link.ops = &g->ops;
    g->rows = calloc(g->n * g->size, sizeof *g->rows);
    assert_non_null(g->rows);
    return OK;
}

fault cast_try(struct cast *g, const char *text, int rounds, unsigned seed)
{
    struct experiment *e = NULL;
    *g = (struct cast){0};
    TRY(parse(text, rounds, seed, &e));
    return open_cast(g, e, rounds);
}

static void put_in_place(struct cast *g, struct experiment *e, strategy_run *program)
{
    g->row.run = program;
    g->kind = (struct kind){.name = "test", .row = &g->row};
    e->strategy.kind = &g->kind;
}

void cast_form(struct cast *g, const char *text, int rounds, unsigned seed, strategy_run *program)
{
    struct experiment *e = NULL;
    *g = (struct cast){.row = {.forms_group = true}};
    must(parse(text, rounds, seed, &e));
    put_in_place(g, e, program);
    must(open_cast(g, e, rounds));
}

void cast_serve(struct cast *g, const char *text, unsigned seed, strategy_run *program,
                fault (*rejoin)(struct agent *a))
{
    struct experiment *e = NULL;
    *g = (struct cast){.row = {.hears_everyone = true, .rejoin = rejoin}};
    must(parse(text, 1, seed, &e));
    put_in_place(g, e, program);
    must(open_cast(g, e, 1));
}

void cast_open(struct cast *g, const char *text, int rounds)
{
    must(cast_try(g, text, rounds, 1));
}

void cast_close(struct cast *g)
{
    session_close(g->run);
    free(g->notes);
    free(g->rows);
}

fault cast_go(struct cast *g)
{
    return local_play(g->world);
}

void cast_play(struct cast *g)
{
    must(cast_go(g));
}

const float *cast_row(struct cast *g, size_t agent)
{
    float *row = g->rows + agent * g->size;
    must(local_settle(g->world));
    must(g->run->engine->ops->read(g->run->engine, ROW_PARAMS, agent, row));
    return row;
}

void cast_write(struct cast *g, size_t agent, const float *floats)
{
    must(g->run->engine->ops->write(g->run->engine, ROW_PARAMS, agent, floats));
}

double *cast_rows(struct cast *g)
{
    double *rows = calloc(g->n * g->size, sizeof *rows);
    assert_non_null(rows);
    for (size_t i = 0; i < g->n; i++) {
        const float *row = cast_row(g, i);
        for (size_t j = 0; j < g->size; j++)
            rows[i * g->size + j] = row[j];
    }
    return rows;
}

void cast_scatter(struct cast *g, uint64_t seed)
{
    struct rng r = rng_stream(seed, 0, RNG_TEST, 1);
    double *x = calloc(g->n * g->size, sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < g->n * g->size; i++)
        x[i] = rng_normal(&r);
    for (size_t j = 0; j < g->size; j++) {
        double mean = 0;
        for (size_t i = 0; i < g->n; i++)
            mean += x[i * g->size + j] / (double)g->n;
        for (size_t i = 0; i < g->n; i++)
            g->rows[i * g->size + j] = (float)(x[i * g->size + j] - mean);
    }
    for (size_t i = 0; i < g->n; i++)
        cast_write(g, i, g->rows + i * g->size);
    free(x);
}

static fault idle_lesson(struct link *l, uint64_t lesson)
{
    struct actor *a = (struct actor *)l;
    const struct experiment *e = a->world->stage->experiment;
    double slowdown = machine_slowdown(&e->machines, a->world->stage->seed, l->self, lesson);
    a->lesson_began_s = a->world->now_s;
    a->lesson_takes_s = (double)e->data.batch / (e->machines.rate * a->machines->speed) * slowdown;
    return OK;
}

static fault idle_step(struct link *l, size_t first, size_t end, double lr, uint64_t t)
{
    (void)l, (void)first, (void)end, (void)lr, (void)t;
    return OK;
}

void cast_keep_from_learning(struct cast *g)
{
    g->ops.learn = idle_lesson;
    g->ops.update = idle_step;
}

void cast_run_instead(struct cast *g, strategy_run *program)
{
    put_in_place(g, g->run->experiment, program);
}

struct cast *cast_of_agent(const struct agent *a)
{
    return ((const struct actor *)a->link)->world->watcher.ctx;
}

static void mean_of(const double *rows, size_t n, size_t size, double *mean)
{
    for (size_t j = 0; j < size; j++) {
        mean[j] = 0;
        for (size_t i = 0; i < n; i++)
            mean[j] += rows[i * size + j] / (double)n;
    }
}

double disagreement_of(const double *rows, size_t n, size_t size)
{
    double *mean = calloc(size, sizeof *mean), sum = 0;
    assert_non_null(mean);
    mean_of(rows, n, size, mean);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < size; j++)
            sum += (rows[i * size + j] - mean[j]) * (rows[i * size + j] - mean[j]);
    free(mean);
    return sum;
}

double furthest_mean(const double *rows, const double *others, size_t n, size_t size)
{
    double *a = calloc(2 * size, sizeof *a), *b = a + size, most = 0;
    assert_non_null(a);
    mean_of(rows, n, size, a);
    mean_of(others, n, size, b);
    for (size_t j = 0; j < size; j++)
        most = fmax(most, fabs(a[j] - b[j]));
    free(a);
    return most;
}

struct link_counts cast_counts(const struct cast *g)
{
    struct link_counts sum = {0};
    for (size_t i = 0; i < g->run->stage.n_members; i++) {
        struct link_counts c = local_counts(g->world, i);
        sum.bytes += c.bytes;
        sum.messages += c.messages;
        sum.lost += c.lost;
        sum.received += c.received;
        sum.unread += c.unread;
        sum.waiting_s += c.waiting_s;
    }
    return sum;
}

bool cast_noted(const struct cast *g, const char *words)
{
    return g->notes && strstr(g->notes, words);
}
