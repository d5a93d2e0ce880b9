/* describe.c - a graph as a table for people. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "graph/build.h"

enum { LAYER, WHAT, FROM, OUTPUT, PARAMETERS, COLUMNS };
enum { CELL = 64 };

struct line {
    char cells[COLUMNS][CELL];
};

static const char *const headings[COLUMNS] = {"layer", "what", "from", "output", "parameters"};

static void print_window(char *text, size_t n, const struct op *op)
{
    int k = snprintf(text, n, "%s %zux%zu", op_rows[op->kind].name, op->kernel, op->kernel);
    bool plain = op->stride == (op->kind == OP_CONV ? 1 : op->kernel);
    if (!plain)
        k += snprintf(text + k, n - (size_t)k, ", stride %zu", op->stride);
    if (op->pad)
        k += snprintf(text + k, n - (size_t)k, ", pad %zu", op->pad);
    if (op->groups > 1)
        snprintf(text + k, n - (size_t)k, ", groups %zu", op->groups);
}

static void print_what(char *text, size_t n, const struct op *op)
{
    const char *name = op_rows[op->kind].name;
    if (op->kernel)
        print_window(text, n, op);
    else if (op->kind == OP_SHORTCUT)
        snprintf(text, n, "%s, stride %zu", name, op->stride);
    else if (op->kind == OP_DROPOUT)
        snprintf(text, n, "%s %g", name, op->rate);
    else
        snprintf(text, n, "%s%s", name, op->relu ? " + relu" : "");
}

static const char *maker_of(const struct graph *g, int tensor)
{
    int op = g->tensors[tensor].producer;
    return op < 0 ? "input" : g->ops[op].name;
}

/* What an op reads where that is not just the op before. */
static void print_from(char *text, size_t n, const struct graph *g, const struct op *op)
{
    if (op->in[1] >= 0)
        snprintf(text, n, "%s, %s", maker_of(g, op->in[0]), maker_of(g, op->in[1]));
    else if (g->tensors[op->in[0]].producer != (int)(op - g->ops) - 1)
        snprintf(text, n, "%s", maker_of(g, op->in[0]));
}

static struct line op_line(const struct graph *g, const struct op *op)
{
    struct line l = {0};
    size_t n_params = 0;
    n_params += op->weight >= 0 ? g->params[op->weight].size : 0;
    n_params += op->bias >= 0 ? g->params[op->bias].size : 0;
    snprintf(l.cells[LAYER], CELL, "%s", op->name);
    print_what(l.cells[WHAT], CELL, op);
    print_from(l.cells[FROM], CELL, g, op);
    if (op->out >= 0)
        snprintf(l.cells[OUTPUT], CELL, "%.60s", shape_text(g->tensors[op->out].shape).text);
    if (n_params)
        snprintf(l.cells[PARAMETERS], CELL, "%s", text_count(n_params).text);
    return l;
}

static void widen(size_t width[COLUMNS], const struct line *l)
{
    for (int c = 0; c < COLUMNS; c++)
        if (strlen(l->cells[c]) > width[c])
            width[c] = strlen(l->cells[c]);
}

/* A column without width is left out. */
static void print_line(FILE *to, const size_t width[COLUMNS], const struct line *l)
{
    char text[COLUMNS * (CELL + 2)];
    int n = 0;
    for (int c = 0; c < COLUMNS; c++) {
        int side = c == PARAMETERS ? (int)width[c] : -(int)width[c];
        if (width[c])
            n += snprintf(text + n, sizeof text - (size_t)n, "%s%*s", c ? "  " : "", side, l->cells[c]);
    }
    while (n > 0 && text[n - 1] == ' ')
        n--;
    fprintf(to, "%.*s\n", n, text);
}

static void print_table(FILE *to, const struct graph *g)
{
    struct line head = {0}, input = {{"input"}};
    size_t width[COLUMNS] = {0};
    for (int c = 0; c < COLUMNS; c++)
        snprintf(head.cells[c], CELL, "%s", headings[c]);
    snprintf(input.cells[OUTPUT], CELL, "%.60s", shape_text(g->input).text);
    widen(width, &input);
    for (size_t i = 0; i < g->n_ops; i++) {
        struct line l = op_line(g, &g->ops[i]);
        widen(width, &l);
    }
    if (!width[FROM])
        head.cells[FROM][0] = '\0';
    widen(width, &head);
    print_line(to, width, &head);
    print_line(to, width, &input);
    for (size_t i = 0; i < g->n_ops; i++) {
        struct line l = op_line(g, &g->ops[i]);
        print_line(to, width, &l);
    }
}

static void print_flops(FILE *to, double flops)
{
    if (flops < 1e6)
        fprintf(to, "%.1f kFLOP", flops / 1e3);
    else
        fprintf(to, "%.1f MFLOP", flops / 1e6);
}

static void print_totals(FILE *to, const struct graph *g)
{
    fprintf(to, "%s: %s parameters, ", g->name, text_count(g->size).text);
    print_flops(to, g->flops_forward);
    fprintf(to, " forward and ");
    print_flops(to, g->flops_learn);
    fprintf(to, " learning, a sample\n");
}

void graph_describe(const struct graph *g, FILE *to)
{
    print_table(to, g);
    print_totals(to, g);
}
