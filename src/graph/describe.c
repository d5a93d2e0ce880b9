/* describe.c - a graph as a table for people. */
#include "graph/describe.h"

#include "base/text.h"
#include "graph/build.h"
#include "graph/passes/passes.h"
#include "graph/columns.h"

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

struct op_text op_what(const struct op *op)
{
    struct op_text what;
    const char *name = op_rows[op->kind].name;
    if (op->kernel)
        print_window(what.text, sizeof what.text, op);
    else if (op->kind == OP_SHORTCUT)
        snprintf(what.text, sizeof what.text, "%s, stride %zu", name, op->stride);
    else if (op->kind == OP_DROPOUT)
        snprintf(what.text, sizeof what.text, "%s %g", name, op->rate);
    else
        snprintf(what.text, sizeof what.text, "%s%s", name, op->relu ? " + relu" : "");
    return what;
}

const char *op_reads(const struct graph *g, const struct op *op, int k)
{
    int producer = g->tensors[op->in[k]].producer;
    return producer < 0 ? "input" : g->ops[producer].name;
}

size_t op_parameters(const struct graph *g, const struct op *op)
{
    return (op->weight >= 0 ? g->params[op->weight].size : 0) + (op->bias >= 0 ? g->params[op->bias].size : 0);
}

/* What an op reads where that is not just the op before. */
static void add_from(struct columns *t, const struct graph *g, const struct op *op)
{
    if (op->in[1] >= 0)
        columns_cell(t, "%s, %s", op_reads(g, op, 0), op_reads(g, op, 1));
    else
        columns_cell(t, "%s",
                   g->tensors[op->in[0]].producer != (int)(op - g->ops) - 1 ? op_reads(g, op, 0) : "");
}

static void add_op(struct columns *t, const struct graph *g, const struct op *op)
{
    columns_cell(t, "%s", op->name);
    columns_cell(t, "%s", op_what(op).text);
    add_from(t, g, op);
    columns_cell(t, "%s", op->out >= 0 ? shape_text(g->tensors[op->out].shape).text : "");
    columns_count(t, (double)op_parameters(g, op));
}

static fault print_table(FILE *to, const struct graph *g)
{
    static const bool right[] = {false, false, false, false, true};
    static const char *const headings[] = {"layer", "what", "from", "output", "parameters"};
    struct columns t = {.n_columns = sizeof right, .right = right};
    for (size_t c = 0; c < t.n_columns; c++)
        columns_cell(&t, "%s", headings[c]);
    columns_cell(&t, "input");
    columns_cell(&t, "%s", "");
    columns_cell(&t, "%s", "");
    columns_cell(&t, "%s", shape_text(g->input).text);
    columns_cell(&t, "%s", "");
    for (size_t i = 0; i < g->n_ops; i++)
        add_op(&t, g, &g->ops[i]);
    return columns_print(&t, to);
}

/* Fused relus stand with the op that they are part of. */
static void print_gone(FILE *to, const struct graph *g)
{
    for (size_t i = 0; i < g->n_gone; i++)
        if (g->gone[i].pass != FUSE_PASS) {
            fputs("not computed: ", to);
            pass_tell(&g->gone[i], to);
            fputc('\n', to);
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

fault graph_describe(const struct graph *g, FILE *to)
{
    TRY(print_table(to, g));
    print_gone(to, g);
    print_totals(to, g);
    return OK;
}
