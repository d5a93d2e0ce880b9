/* profile.c - see profile.h: a profile from a file, or from a network's ops. */
#include "team/profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/field.h"
#include "base/text.h"
#include "graph/graph.h"

enum { MOST_BYTES = 1 << 24, MOST_LAYERS = 10000 };

/* ---- the chain ---- */

static int by_reader(const void *a, const void *b)
{
    const struct profile_flow *x = a, *y = b;
    return x->from != y->from ? (x->from > y->from) - (x->from < y->from) : (x->to > y->to) - (x->to < y->to);
}

/* What a layer makes crosses every cut up to its last reader. */
static fault lay_edges(struct profile *p, struct arena *arena)
{
    p->edge = ARENA_NEW(arena, double, p->n_layers + 1);
    if (!p->edge)
        return OUT_OF_MEMORY;
    qsort(p->flows, p->n_flows, sizeof *p->flows, by_reader);
    for (size_t k = 0; k < p->n_flows; k++) {
        const struct profile_flow *f = &p->flows[k];
        bool is_last = k + 1 == p->n_flows || f[1].from != f->from;
        for (size_t i = f->from + 1; is_last && i <= f->to; i++)
            p->edge[i] += f->bytes;
    }
    return OK;
}

static const char *layer_candidate(const void *ctx, size_t i)
{
    const struct profile *p = ctx;
    return i < p->n_layers ? p->layers[i].name : NULL;
}

fault profile_find(const struct profile *p, const char *name, size_t *out)
{
    for (size_t i = 0; i < p->n_layers; i++)
        if (text_is(p->layers[i].name, name)) {
            *out = i;
            return OK;
        }
    const char *nearest = text_nearest(name, layer_candidate, p);
    struct shown said = text_shown(name);
    return nearest ? FAIL(FAULT_USAGE, "there is no layer '%s'; did you mean '%s'?", said.text, nearest)
                   : FAIL(FAULT_USAGE, "there is no layer '%s'; the first is '%s', the last '%s'", said.text,
                          p->layers[0].name, p->layers[p->n_layers - 1].name);
}

/* ---- from a file ---- */

struct line { /* of the file, as it is written there */
    const char *layer;
    double forward_ms, backward_ms, weights_ms, activation_bytes, parameter_bytes;
};

enum { COLUMN_LAYER, COLUMN_WEIGHTS = 5, N_COLUMNS };
static const struct field columns[N_COLUMNS] = {
    TEXT_FIELD(struct line, layer, NULL, "its name"),
    REAL_FIELD(struct line, forward_ms, NULL, 0, 1e12, "of a micro-batch"),
    REAL_FIELD(struct line, backward_ms, NULL, 0, 1e12, "of a micro-batch"),
    REAL_FIELD(struct line, activation_bytes, NULL, 0, 1e18, "that it hands on"),
    REAL_FIELD(struct line, parameter_bytes, NULL, 0, 1e18, "of its parameters"),
    REAL_FIELD(struct line, weights_ms, NULL, 0, 1e12, "of backward_ms, for gradients of weights", .optional = true),
};

static const char *column_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return i < N_COLUMNS ? columns[i].name : NULL;
}

struct csv {
    const char *source;
    char *at;      /* what is left of the text */
    size_t line;   /* from 1 */
    char *begin;   /* of the line */
    size_t n_columns;
    size_t column_of[N_COLUMNS]; /* per column of the file: which it is */
    struct arena *arena;
};

/* The next line, without its end. False: there is none. */
static bool next_line(struct csv *c)
{
    if (!*c->at)
        return false;
    c->begin = c->at;
    size_t n = strcspn(c->at, "\n");
    c->at += n + (c->at[n] == '\n');
    c->begin[n] = 0;
    if (n && c->begin[n - 1] == '\r')
        c->begin[n - 1] = 0;
    c->line++;
    return true;
}

/* Cuts the next cell off the line; NULL after the last. `column` becomes where it begins, from 1. */
static char *next_cell(const struct csv *c, char **rest, size_t *column)
{
    char *cell = *rest;
    if (!cell)
        return NULL;
    size_t n = strcspn(cell, ",");
    *rest = cell[n] ? cell + n + 1 : NULL;
    cell[n] = 0;
    while (*cell == ' ' || *cell == '\t')
        cell++;
    for (n = strlen(cell); n && (cell[n - 1] == ' ' || cell[n - 1] == '\t'); n--)
        cell[n - 1] = 0;
    *column = (size_t)(cell - c->begin) + 1;
    return cell;
}

static fault place_column(struct csv *c, const char *name, size_t column)
{
    size_t k = 0;
    while (k < N_COLUMNS && !text_is(columns[k].name, name))
        k++;
    if (k == N_COLUMNS) {
        const char *nearest = text_nearest(name, column_candidate, NULL);
        return FAIL(FAULT_DATA, "%s:%zu:%zu: there is no column '%s'; %s%s%s", c->source, c->line, column,
                    text_shown(name).text, nearest ? "did you mean '" : "the columns are ",
                    nearest ? nearest : "layer, forward_ms, backward_ms, activation_bytes, parameter_bytes and weights_ms",
                    nearest ? "'?" : "");
    }
    for (size_t i = 0; i < c->n_columns; i++)
        if (c->column_of[i] == k)
            return FAIL(FAULT_DATA, "%s:%zu:%zu: the column '%s' is there twice", c->source, c->line, column, name);
    c->column_of[c->n_columns++] = k;
    return OK;
}

static fault read_head(struct csv *c)
{
    size_t column;
    if (!next_line(c))
        return FAIL(FAULT_DATA, "%s: is empty; a line with the names of its columns comes first", c->source);
    char *rest = c->begin, *cell;
    while ((cell = next_cell(c, &rest, &column)))
        TRY(place_column(c, cell, column));
    for (size_t k = 0; k < COLUMN_WEIGHTS; k++) {
        size_t i = 0;
        while (i < c->n_columns && c->column_of[i] != k)
            i++;
        if (i == c->n_columns)
            return FAIL(FAULT_DATA, "%s:%zu:1: the column '%s' is missing", c->source, c->line, columns[k].name);
    }
    return OK;
}

static fault read_cells(struct csv *c, struct line *out)
{
    size_t n = 0, column = 1;
    char *rest = c->begin, *cell;
    while ((cell = next_cell(c, &rest, &column))) {
        if (n == c->n_columns)
            return FAIL(FAULT_DATA, "%s:%zu:%zu: there are more cells than the %zu columns", c->source, c->line,
                        column, c->n_columns);
        const struct field *field = &columns[c->column_of[n++]];
        fault f = *cell ? field_read(field, cell, c->arena, out) : FAIL(FAULT_DATA, "the cell is empty");
        if (f)
            return fault_before(f, "%s:%zu:%zu: %s: ", c->source, c->line, column, field->name);
    }
    if (n < c->n_columns)
        return FAIL(FAULT_DATA, "%s:%zu:%zu: the line ends before its column '%s'", c->source, c->line, column,
                    columns[c->column_of[n]].name);
    if (out->weights_ms > out->backward_ms)
        return FAIL(FAULT_DATA, "%s:%zu:1: weights_ms is more than backward_ms, of which it is a part", c->source,
                    c->line);
    return OK;
}

static fault add_layer(struct csv *c, const struct line *l, struct profile *p)
{
    for (size_t i = 0; i < p->n_layers; i++)
        if (text_is(p->layers[i].name, l->layer))
            return FAIL(FAULT_DATA, "%s:%zu:1: there are two layers '%s'", c->source, c->line,
                        text_shown(l->layer).text);
    if (p->n_layers == MOST_LAYERS)
        return FAIL(FAULT_DATA, "%s:%zu:1: more than %d layers are too many", c->source, c->line, MOST_LAYERS);
    double weights_ms = l->weights_ms < 0 ? l->backward_ms / 2 : l->weights_ms;
    p->layers[p->n_layers++] = (struct profile_layer){.name = l->layer,
                                                      .forward_s = l->forward_ms / 1e3,
                                                      .inputs_s = (l->backward_ms - weights_ms) / 1e3,
                                                      .weights_s = weights_ms / 1e3,
                                                      .parameter_bytes = l->parameter_bytes,
                                                      .kept_bytes = l->activation_bytes,
                                                      .mixes = l->parameter_bytes > 0};
    return OK;
}

/* Each layer's values are read by the next. */
static fault chain_up(struct profile *p, struct arena *arena)
{
    p->flows = ARENA_NEW(arena, struct profile_flow, p->n_layers);
    if (!p->flows)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i + 1 < p->n_layers; i++)
        p->flows[p->n_flows++] = (struct profile_flow){i, i + 1, p->layers[i].kept_bytes};
    return lay_edges(p, arena);
}

static size_t count_lines(const char *text)
{
    size_t n = 1;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

fault profile_read_text(char *text, const char *source, struct arena *arena, struct profile *out)
{
    struct csv c = {.source = source, .at = text, .arena = arena};
    struct profile p = {.source = source, .layers = ARENA_NEW(arena, struct profile_layer, count_lines(text))};
    if (!p.layers)
        return OUT_OF_MEMORY;
    TRY(read_head(&c));
    while (next_line(&c)) {
        struct line l = {.weights_ms = -1}; /* it is not said */
        if (!*c.begin)
            continue;
        TRY(read_cells(&c, &l));
        TRY(add_layer(&c, &l, &p));
    }
    if (!p.n_layers)
        return FAIL(FAULT_DATA, "%s:%zu:1: there are no layers after the names of the columns", source, c.line);
    TRY(chain_up(&p, arena));
    *out = p;
    return OK;
}

static fault read_file(FILE *file, const char *path, char *text)
{
    size_t n = fread(text, 1, MOST_BYTES, file);
    if (ferror(file))
        return FAIL(FAULT_FILE, "%s: cannot be read: %s", path, strerror(errno));
    if (n == MOST_BYTES)
        return FAIL(FAULT_DATA, "%s: is longer than 16 MiB, which no profile needs", path);
    const char *zero = memchr(text, 0, n);
    if (zero)
        return FAIL(FAULT_DATA, "%s: byte %zu is zero; a profile is plain text", path, (size_t)(zero - text));
    text[n] = 0;
    return OK;
}

fault profile_read(const char *path, struct arena *arena, struct profile *out)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return FAIL(FAULT_FILE, "%s: cannot be read: %s", path, strerror(errno));
    char *text = malloc(MOST_BYTES + 1), *source = arena_text(arena, path);
    fault f = text && source ? read_file(file, path, text) : OUT_OF_MEMORY;
    if (!f)
        f = profile_read_text(text, source, arena, out);
    free(text);
    fclose(file);
    return f;
}

/* ---- from a network ---- */

static double param_bytes(const struct graph *g, int param)
{
    return param < 0 ? 0 : (double)g->params[param].size * sizeof(float);
}

/* Whether an op's backward pass reads the tensor. */
static bool is_kept(const struct graph *g, int tensor)
{
    bool kept = op_rows[g->ops[g->tensors[tensor].producer].kind].keeps_out;
    for (size_t i = 0; i < g->n_ops && !kept; i++)
        kept = op_rows[g->ops[i].kind].keeps_in && (g->ops[i].in[0] == tensor || g->ops[i].in[1] == tensor);
    return kept;
}

static void describe_op(const struct graph *g, size_t i, size_t n_samples, struct profile *p)
{
    const struct op *op = &g->ops[i];
    p->layers[i] = (struct profile_layer){.name = op->name,
                                          .parameter_bytes = param_bytes(g, op->weight) + param_bytes(g, op->bias),
                                          .mixes = op->kind == OP_CONV || op->kind == OP_LINEAR};
    if (op->out >= 0 && is_kept(g, op->out))
        p->layers[i].kept_bytes =
            (double)(n_samples * shape_size(g->tensors[op->out].shape)) * (double)sizeof(float);
    for (int k = 0; k < 2 && op->in[k] >= 0; k++) {
        const struct tensor *t = &g->tensors[op->in[k]];
        if (t->producer >= 0 && !(k == 1 && op->in[0] == op->in[1]))
            p->flows[p->n_flows++] = (struct profile_flow){
                (size_t)t->producer, i, (double)(n_samples * shape_size(t->shape)) * (double)sizeof(float)};
    }
}

fault profile_of_graph(const struct graph *g, size_t n_samples, struct arena *arena, struct profile *out)
{
    struct profile p = {.source = g->name,
                        .layers = ARENA_NEW(arena, struct profile_layer, g->n_ops),
                        .n_layers = g->n_ops,
                        .flows = ARENA_NEW(arena, struct profile_flow, 2 * g->n_ops)};
    if (!p.layers || !p.flows)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < g->n_ops; i++)
        describe_op(g, i, n_samples, &p);
    TRY(lay_edges(&p, arena));
    *out = p;
    return OK;
}

void profile_share_out(const struct graph *g, double micro_batch_s, struct profile *p)
{
    double each = g->flops_learn > 0 ? micro_batch_s / g->flops_learn : 0;
    for (size_t i = 0; i < p->n_layers; i++) {
        struct op_work work = graph_op_work(g, &g->ops[i]);
        struct profile_layer *l = &p->layers[i];
        l->forward_s = each > 0 ? work.forward * each : micro_batch_s / (double)p->n_layers;
        l->inputs_s = work.inputs * each;
        l->weights_s = work.weights * each;
    }
}
