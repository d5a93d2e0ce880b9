/* layers.c - a network under `model:`: a name, or a list of layers.
 *
 *   - relu                                  a layer as it comes
 *   - conv: {out: 16, name: first}          with settings
 *   - residual: [conv: {out: 16}, relu]     a layer made of layers
 *   - residual: {name: block, layers: [...]}
 *   - conv: {out: 16, from: first}          a layer that reads another than the one before
 *   - concat: [first, block]                a layer that joins several: {from: [first, block]}
 */
#include "base/field.h"
#include "base/text.h"
#include "experiment/decode.h"

static fault decode_layers(const struct document *d, const struct node *list, struct layer **out);

/* `settings` of a layer that joins others may be what stands for `from` alone. */
static bool is_from(const struct kind *kind, const struct node *settings)
{
    return kind->joins_layers && settings && settings->kind != NODE_MAP;
}

static fault decode_from(const struct document *d, const struct node *node, const struct node *from,
                         struct layer *layer)
{
    const struct kind *kind = layer->kind;
    if (from && !layer->from.n)
        TRY(decode_field(d, from, &section_table[SECTION_LAYER].fields[LAYER_FROM], layer));
    if (from && !layer->from.n)
        return fail_node(from, "a layer's name is expected here, or a list of names");
    if (kind->joins_layers && !from)
        return fail_node(node, "%s joins layers, but none are named, as in '%s: [a, b]'", kind->name,
                         kind->name);
    layer->from_place = from ? from->place : layer->place;
    return OK;
}

static fault decode_layer_settings(const struct document *d, const struct node *node,
                                   const struct node *settings, struct choice *choice, struct layer *layer)
{
    static const char *const holder[] = {"layers", NULL};
    const struct kind *kind = choice->kind;
    struct form form = {
        .kind = kind,
        .fields = {{kind->fields, kind->n_fields, choice->settings}, decode_fields_of(SECTION_LAYER, layer)},
        .others = kind->holds_layers ? holder : NULL};
    const struct node *body = settings && kind->holds_layers ? settings : NULL;
    const struct node *from = is_from(kind, settings) ? settings : NULL;
    if (body && body->kind == NODE_LIST)
        settings = NULL;
    else if (body)
        body = node_find(settings, "layers");
    if (from)
        settings = NULL;
    else if (settings)
        from = node_find(settings, "from");
    TRY(decode_map(d, settings, &form, node));
    if (layer->name && !experiment_is_name(layer->name))
        return fail_node(node_find(settings, "name"), "'%s' cannot be a layer's name: " NAME_RULE,
                         text_shown(layer->name).text);
    TRY(decode_from(d, node, from, layer));
    if (!kind->holds_layers)
        return OK;
    if (!body)
        return fail_node(node, "%s holds layers, but none are written", kind->name);
    return decode_layers(d, body, &layer->body);
}

static fault decode_layer(const struct document *d, const struct node *node, struct layer **out)
{
    struct choice choice;
    struct layer *layer = ARENA_NEW(d->arena, struct layer, 1);
    if (!layer)
        return OUT_OF_MEMORY;
    const struct node *settings = NULL;
    if (node->kind == NODE_MAP && node->n == 1) {
        settings = node->first;
        struct node name = *settings; /* the name of the layer is the key */
        name.place = settings->key_place;
        TRY(decode_kind(d, &name, name.key, KIND_LAYER, &choice));
        if (node_is_nothing(settings))
            settings = NULL;
    } else if (node->kind == NODE_VALUE && !node_is_nothing(node)) {
        TRY(decode_kind(d, node, node->text, KIND_LAYER, &choice));
    } else {
        return fail_node(node,
                         "a layer is written as a name or as one key with its settings: 'conv: {out: 16}'");
    }
    layer->kind = choice.kind;
    layer->settings = choice.settings;
    layer->place = choice.place;
    TRY(decode_layer_settings(d, settings ? settings : node, settings, &choice, layer));
    *out = layer;
    return OK;
}

static fault decode_layers(const struct document *d, const struct node *list, struct layer **out)
{
    if (list->kind != NODE_LIST || list->n == 0)
        return fail_node(list, "a list of one or more layers is expected here");
    for (const struct node *item = list->first; item; item = item->next) {
        TRY(decode_layer(d, item, out));
        out = &(*out)->next;
    }
    return OK;
}

fault decode_model(const struct document *d, const struct node *node, struct model_settings *out)
{
    out->place = node->place;
    if (node->kind == NODE_LIST)
        return decode_layers(d, node, &out->layers);
    static const char *const others[] = {"kind", NULL};
    return decode_choice(d, node, KIND_MODEL, NULL, (struct form){.others = others}, &out->named);
}
