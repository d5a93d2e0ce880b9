/* json.c - a network as one JSON object: `written` and `computed` are it before and after the passes. */
#include <jansson.h>
#include <stdlib.h>

#include "graph/build.h"
#include "graph/describe.h"
#include "graph/passes/passes.h"
#include "graph/view/view.h"

static json_t *shape_json(struct shape s)
{
    return json_pack("[I, I, I]", (json_int_t)s.c, (json_int_t)s.h, (json_int_t)s.w);
}

static json_t *reads_json(const struct graph *g, const struct op *op)
{
    json_t *list = json_array();
    for (int k = 0; list && k < 2 && op->in[k] >= 0; k++)
        if (json_array_append_new(list, json_string(op_reads(g, op, k))) != 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

static json_t *op_json(const struct graph *g, size_t i, const size_t *part_of)
{
    const struct op *op = &g->ops[i];
    bool has_out = op->out >= 0;
    struct shape out = has_out ? g->tensors[op->out].shape : (struct shape){0};
    json_t *object = json_pack("{s:s, s:s, s:s, s:o, s:o, s:I, s:I, s:I}", "name", op->name, "kind",
                               op_rows[op->kind].name, "what", op_what(op).text, "reads", reads_json(g, op),
                               "output", has_out ? shape_json(out) : json_null(), "floats",
                               (json_int_t)shape_size(out), "parameters", (json_int_t)op_parameters(g, op),
                               "multiply_adds", (json_int_t)(op_flops(g, op) / 2));
    if (object && part_of && json_object_set_new(object, "part", json_integer((json_int_t)part_of[i])) != 0) {
        json_decref(object);
        object = NULL;
    }
    return object;
}

/* Lists of objects; NULL once memory is out, which json_pack passes on. */
static json_t *with(json_t *list, json_t *item)
{
    if (list && json_array_append_new(list, item) == 0)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *network_json(const struct graph *g, const size_t *part_of)
{
    json_t *ops = json_array();
    for (size_t i = 0; ops && i < g->n_ops; i++)
        ops = with(ops, op_json(g, i, part_of));
    return json_pack("{s:o, s:I, s:I, s:I}", "ops", ops, "floats", (json_int_t)view_floats(g), "parameters",
                     (json_int_t)g->size, "multiply_adds", (json_int_t)(g->flops_forward / 2));
}

static json_t *passes_json(const struct graph *g)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < g->n_gone; i++)
        list = with(list, json_pack("{s:s, s:s, s:s?}", "pass", pass_names[g->gone[i].pass], "op",
                                    g->gone[i].name, "instead", g->gone[i].instead));
    return list;
}

static json_t *parts_json(const struct network_view *v, const struct traffic *t)
{
    json_t *list = json_array();
    for (size_t k = 0; list && t->parts && k < v->n_parts; k++)
        list =
            with(list,
                 json_pack("{s:s, s:I, s:I, s:I}", "begins_with", v->g->ops[t->parts[k].first_op].name, "ops",
                           (json_int_t)t->parts[k].n_ops, "parameters", (json_int_t)t->parts[k].parameters,
                           "multiply_adds", (json_int_t)(t->parts[k].flops_forward / 2)));
    return list;
}

static json_t *crossed_json(const struct network_view *v, const struct traffic *t)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < t->n_crossed; i++) {
        const struct crossed *c = &t->crossed[i];
        const struct tensor *tensor = &v->g->tensors[c->tensor];
        list = with(list,
                    json_pack("{s:s, s:o, s:I, s:I, s:I, s:I}", "made_by", v->g->ops[tensor->producer].name,
                              "output", shape_json(tensor->shape), "from", (json_int_t)c->from, "to",
                              (json_int_t)c->to, "bytes", (json_int_t)(c->floats * sizeof(float)),
                              "bytes_back", (json_int_t)(c->floats_back * sizeof(float))));
    }
    return list;
}

static json_t *view_object(const struct network_view *v, const struct traffic *t)
{
    return json_pack("{s:s, s:o, s:I, s:o, s:o, s:o, s:o, s:o}", "name", v->g->name, "input",
                     shape_json(v->g->input), "classes", (json_int_t)v->g->classes, "written",
                     network_json(v->written, NULL), "passes", passes_json(v->g), "computed",
                     network_json(v->g, v->part_of), "parts", parts_json(v, t), "crosses",
                     crossed_json(v, t));
}

fault view_json(const struct network_view *v, char **json)
{
    struct arena arena = {0};
    struct traffic traffic;
    char *text = NULL;
    fault f = traffic_find(v, &arena, &traffic);
    if (!f) {
        json_t *object = view_object(v, &traffic);
        text = object ? json_dumps(object, JSON_COMPACT) : NULL;
        json_decref(object);
        f = text ? OK : OUT_OF_MEMORY;
    }
    if (!f)
        *json = text;
    arena_release(&arena);
    return f;
}
