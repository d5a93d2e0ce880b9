/* layers.c - a network under `model:`: a name, or a list of layers.
 *
 *   - relu                                  a layer as it comes
 *   - conv: {out: 16, name: first}          with settings
 *   - residual: [conv: {out: 16}, relu]     a layer made of layers
 *   - residual: {name: block, layers: [...]}
 */
#include "base/field.h"
#include "base/text.h"
#include "experiment/decode.h"

static fault decode_layers(const struct decoder *d, const struct node *list, struct layer **out);

static fault decode_layer_settings(const struct decoder *d, const struct node *node,
                                   const struct node *settings, struct choice *choice, struct layer *layer)
{
    static const char *const holder[] = {"layers", NULL};
    const struct kind *kind = choice->kind;
    struct form form = {
        .kind = kind,
        .rows = {{kind->fields, kind->n_fields, choice->settings}, decode_rows_of(SECTION_LAYER, layer)},
        .others = kind->holds_layers ? holder : NULL};
    const struct node *body = settings && kind->holds_layers ? settings : NULL;
    if (body && body->kind == NODE_LIST)
        settings = NULL;
    else if (body)
        body = node_find(settings, "layers");
    TRY(decode_map(d, settings, &form, node));
    if (layer->name && !experiment_is_name(layer->name))
        return fail_node(node_find(settings, "name"), "'%s' cannot be a layer's name: " NAME_RULE,
                         text_shown(layer->name).text);
    if (!kind->holds_layers)
        return OK;
    if (!body)
        return fail_node(node, "%s holds layers, but none are written", kind->name);
    return decode_layers(d, body, &layer->body);
}

static fault decode_layer(const struct decoder *d, const struct node *node, struct layer **out)
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

static fault decode_layers(const struct decoder *d, const struct node *list, struct layer **out)
{
    if (list->kind != NODE_LIST || list->n == 0)
        return fail_node(list, "a list of one or more layers is expected here");
    for (const struct node *item = list->first; item; item = item->next) {
        TRY(decode_layer(d, item, out));
        out = &(*out)->next;
    }
    return OK;
}

fault decode_model(const struct decoder *d, const struct node *node, struct model_settings *out)
{
    out->place = node->place;
    if (node->kind == NODE_LIST)
        return decode_layers(d, node, &out->layers);
    static const char *const others[] = {"kind", NULL};
    return decode_choice(d, node, KIND_MODEL, NULL, (struct form){.others = others}, &out->named);
}
