/* text.c - a network as tables: as it is written, what passes did, what is computed, and in which parts. */
#include "base/page.h"
#include "base/text.h"
#include "graph/build.h"
#include "graph/describe.h"
#include "graph/passes/passes.h"
#include "graph/columns.h"
#include "graph/view/view.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static void add_headings(struct columns *t, const char *const *headings)
{
    for (size_t c = 0; c < t->n_columns; c++)
        columns_cell(t, "%s", headings[c]);
}

static void add_op(struct columns *t, const struct graph *g, size_t i, const size_t *part_of)
{
    const struct op *op = &g->ops[i];
    struct shape out = op->out < 0 ? (struct shape){0} : g->tensors[op->out].shape;
    columns_cell(t, "%zu", i);
    if (part_of)
        columns_cell(t, "%zu", part_of[i]);
    else
        columns_cell(t, "%s", "");
    columns_cell(t, "%s", op->name);
    columns_cell(t, "%s", op_what(op).text);
    columns_cell(t, "%s%s%s", op_reads(g, op, 0), op->in[1] < 0 ? "" : ", ",
                 op->in[1] < 0 ? "" : op_reads(g, op, 1));
    columns_cell(t, "%s", op->out < 0 ? "" : shape_text(out).text);
    columns_count(t, (double)shape_size(out));
    columns_count(t, (double)op_parameters(g, op));
    columns_count(t, op_flops(g, op) / 2);
}

static fault print_ops(FILE *to, const struct graph *g, const size_t *part_of)
{
    static const bool right[] = {true, true, false, false, false, false, true, true, true};
    static const char *const headings[] = {"op",     "part",   "layer",      "what",         "reads",
                                           "output", "floats", "parameters", "multiply-adds"};
    struct columns t = {.n_columns = COUNT(headings), .right = right, .indent = 2};
    add_headings(&t, headings);
    for (size_t i = 0; i < g->n_ops; i++)
        add_op(&t, g, i, part_of);
    return columns_print(&t, to);
}

static void print_sums(FILE *to, const char *when, const struct graph *g)
{
    fprintf(to, "%s: %zu operation%s, %s parameters; ", when, g->n_ops, g->n_ops == 1 ? "" : "s",
            text_count(g->size).text);
    fprintf(to, "a sample takes %s floats ", text_count(view_floats(g)).text);
    fprintf(to, "and %s multiply-adds\n", text_count((size_t)(g->flops_forward / 2)).text);
}

static void print_passes(FILE *to, const struct graph *g)
{
    fputs(g->n_gone ? "passes:\n" : "passes: nothing to change\n", to);
    for (size_t i = 0; i < g->n_gone; i++) {
        fprintf(to, "  %s: ", pass_names[g->gone[i].pass]);
        pass_tell(&g->gone[i], to);
        fputc('\n', to);
    }
}

static fault print_parts(FILE *to, const struct network_view *v, const struct traffic *traffic)
{
    static const bool right[] = {true, false, true, true, true};
    static const char *const headings[] = {"part", "begins with", "operations", "parameters",
                                           "multiply-adds"};
    struct columns t = {.n_columns = COUNT(headings), .right = right, .indent = 2};
    add_headings(&t, headings);
    for (size_t k = 0; k < v->n_parts; k++) {
        const struct part_load *p = &traffic->parts[k];
        columns_cell(&t, "%zu", k);
        columns_cell(&t, "%s", v->g->ops[p->first_op].name);
        columns_count(&t, (double)p->n_ops);
        columns_count(&t, (double)p->parameters);
        columns_count(&t, p->flops_forward / 2);
    }
    fprintf(to, "\nparts:\n");
    return columns_print(&t, to);
}

static fault print_traffic(FILE *to, const struct network_view *v, const struct traffic *traffic)
{
    static const bool right[] = {false, false, true, true, true, true};
    static const char *const headings[] = {"made by", "output", "from part", "to part", "forward", "back"};
    struct columns t = {.n_columns = COUNT(headings), .right = right, .indent = 2};
    add_headings(&t, headings);
    for (size_t i = 0; i < traffic->n_crossed; i++) {
        const struct crossed *c = &traffic->crossed[i];
        const struct tensor *tensor = &v->g->tensors[c->tensor];
        columns_cell(&t, "%s", v->g->ops[tensor->producer].name);
        columns_cell(&t, "%s", shape_text(tensor->shape).text);
        columns_cell(&t, "%zu", c->from);
        columns_cell(&t, "%zu", c->to);
        columns_count(&t, (double)(c->floats * sizeof(float)));
        columns_count(&t, (double)(c->floats_back * sizeof(float)));
    }
    fprintf(to, "\nwhat crosses, in bytes a sample:%s\n", traffic->n_crossed ? "" : " nothing");
    return columns_print(&t, to);
}

static fault print_cut(FILE *to, const struct network_view *v)
{
    struct arena arena = {0};
    struct traffic traffic;
    fault f = traffic_find(v, &arena, &traffic);
    if (!f)
        f = print_parts(to, v, &traffic);
    if (!f)
        f = print_traffic(to, v, &traffic);
    arena_release(&arena);
    return f;
}

static fault print_all(FILE *to, const struct network_view *v)
{
    fprintf(to, "%s: samples of %s, %zu classes\n\n", v->g->name, shape_text(v->g->input).text,
            v->g->classes);
    print_sums(to, "as written", v->written);
    if (v->g->n_gone) {
        TRY(print_ops(to, v->written, NULL));
        fputc('\n', to);
    }
    print_passes(to, v->g);
    if (v->g->n_gone) {
        fputc('\n', to);
        print_sums(to, "after the passes", v->g);
    }
    TRY(print_ops(to, v->g, v->part_of));
    return v->part_of ? print_cut(to, v) : OK;
}

fault view_text(const struct network_view *v, char **text)
{
    struct page page;
    TRY(page_open(&page));
    return page_close(&page, print_all(page.out, v), text);
}
