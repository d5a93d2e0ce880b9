/* mirror.c - see mirror.h. */
#include "engine/mirror.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/host.h"

struct mirror {
    struct host host;       /* first */
    struct engine_ops ops;  /* the host's, under the device's name */
    struct engine *device;  /* owned */
    struct lesson *lessons; /* owned: [replicas] as the device gets them */
};

/* A row that nobody asked for is nowhere: what crosses, of a whole network. */
static bool has_row(const struct mirror *m, enum row row)
{
    return row_size(&m->host.engine.setup, row) > 0;
}

static fault send(struct mirror *m, enum row row, size_t replica)
{
    if (!has_row(m, row))
        return OK;
    return m->device->ops->write(m->device, row, replica, host_row(&m->host, row, replica));
}

static fault fetch(struct mirror *m, enum row row, size_t replica)
{
    if (!has_row(m, row))
        return OK;
    return m->device->ops->read(m->device, row, replica, host_row(&m->host, row, replica));
}

static fault send_model(struct mirror *m, size_t replica)
{
    TRY(send(m, ROW_PARAMS, replica));
    return send(m, ROW_STATS, replica);
}

/* The device tells nobody of gradients, since they are not here yet. */
static fault mirror_learn(struct engine *e, struct lesson *lessons, size_t n)
{
    struct mirror *m = (struct mirror *)e;
    for (size_t i = 0; i < n; i++) {
        TRY(send_model(m, lessons[i].replica));
        m->lessons[i] = lessons[i];
        m->lessons[i].ready = NULL;
    }
    TRY(m->device->ops->learn(m->device, m->lessons, n));
    for (size_t i = 0; i < n; i++) {
        TRY(fetch(m, ROW_GRADS, lessons[i].replica));
        TRY(fetch(m, ROW_STATS, lessons[i].replica));
        lessons[i].loss = m->lessons[i].loss;
        lessons[i].hits = m->lessons[i].hits;
    }
    lessons_tell(lessons, n);
    return OK;
}

/* What a pass reads is here, and what it makes is wanted here: rows of all flights, since rows go as they are. */
static fault send_pass(struct mirror *m, const struct pass *p)
{
    TRY(send_model(m, p->replica));
    if (p->kind == PASS_FORWARD)
        return send(m, ROW_INPUTS, p->replica);
    if (p->adds)
        TRY(send(m, ROW_GRADS, p->replica));
    return send(m, ROW_OUTPUT_GRADS, p->replica);
}

static fault fetch_pass(struct mirror *m, const struct pass *p)
{
    if (p->kind == PASS_FORWARD) {
        TRY(fetch(m, ROW_STATS, p->replica));
        return fetch(m, ROW_OUTPUTS, p->replica);
    }
    TRY(fetch(m, ROW_GRADS, p->replica));
    return fetch(m, ROW_INPUT_GRADS, p->replica);
}

static fault mirror_pass(struct engine *e, struct pass *passes, size_t n)
{
    struct mirror *m = (struct mirror *)e;
    TRY(engine_check_passes(e, passes, n));
    for (size_t i = 0; i < n; i++)
        TRY(send_pass(m, &passes[i]));
    TRY(m->device->ops->pass(m->device, passes, n));
    for (size_t i = 0; i < n; i++)
        TRY(fetch_pass(m, &passes[i]));
    return OK;
}

static fault mirror_examine(struct engine *e, struct exam *exams, size_t n)
{
    struct mirror *m = (struct mirror *)e;
    for (size_t i = 0; i < n; i++)
        TRY(send_model(m, exams[i].replica));
    return m->device->ops->examine(m->device, exams, n);
}

static void mirror_describe(const struct engine *e, char *text, size_t n)
{
    const struct mirror *m = (const struct mirror *)e;
    m->device->ops->describe(m->device, text, n);
    size_t used = strlen(text);
    snprintf(text + used, n - used, "; %.1f MiB of rows on the host",
             (double)host_row_bytes(&m->host) / 0x1p20);
}

static void mirror_close(struct engine *e)
{
    struct mirror *m = (struct mirror *)e;
    engine_close(m->device);
    host_release(&m->host);
    free(m->lessons);
    free(m);
}

/* What is only mixed and stepped is never there. */
static struct engine_setup device_setup(const struct engine_setup *setup)
{
    struct engine_setup s = *setup;
    s.rows_on_host = false;
    s.rows = rows_of(s.graph, NULL);
    for (enum row row = ROW_INPUTS; row < setup->rows.n; row++)
        s.rows.of[row] = setup->rows.of[row];
    s.rows.n = setup->rows.n > ROW_INPUTS ? setup->rows.n : s.rows.n;
    s.optim = NULL;
    return s;
}

fault mirror_open(const struct engine_ops *device, const struct engine_setup *setup, struct engine **out)
{
    struct engine_setup far = device_setup(setup);
    struct mirror *m = calloc(1, sizeof *m);
    if (!m)
        return OUT_OF_MEMORY;
    m->ops = (struct engine_ops){.name = device->name,
                                 .gradients_late = true,
                                 .close = mirror_close,
                                 .learn = mirror_learn,
                                 .pass = mirror_pass,
                                 .examine = mirror_examine,
                                 .update = host_update,
                                 .mix = host_mix,
                                 .read = host_read,
                                 .write = host_write,
                                 .floats = host_floats,
                                 .exchange = host_exchange,
                                 .describe = mirror_describe};
    fault f = host_init(&m->host, &m->ops, setup);
    if (f) {
        free(m);
        return f;
    }
    m->lessons = calloc(setup->n_replicas, sizeof *m->lessons);
    f = m->lessons ? device->open(&far, &m->device) : OUT_OF_MEMORY;
    if (f)
        mirror_close(&m->host.engine);
    else
        *out = &m->host.engine;
    return f;
}
