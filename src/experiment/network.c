/* network.c - who can reach whom, and at what price: the sections `topology` and `network`.
 *
 *   network: {latency_ms: 1, bandwidth_mbps: 1000, sites: [[0, 1], [2, 3]],
 *             across: {latency_ms: 30, bandwidth_mbps: 50}, links: [{between: [0, 3], bandwidth_mbps: 1}]}
 *
 * The wire between two agents is that of their link where one is written, else `across` when they are of
 * different sites, else the network's own. What an inner wire does not say it takes from the wire it stands
 * for.
 */
#include <stdlib.h>

#include "experiment/decode.h"

fault decode_topology(const struct document *d, struct topology_settings *out)
{
    const struct node *node = node_find(d->top, "topology"), *graph = node;
    struct fields fields = decode_fields_of(SECTION_TOPOLOGY, out);
    struct choice named;
    if (!node)
        return field_defaults(fields.at, fields.n, d->arena, out);
    if (node->kind == NODE_MAP) {
        TRY(decode_map(d, node, &(struct form){.fields = {fields}}, node));
        graph = node_find(node, "graph");
    } else {
        TRY(decode_field(d, node, &fields.at[0], out));
        TRY(field_defaults(fields.at, fields.n, d->arena, out));
    }
    out->written = true;
    out->place = graph->place;
    return decode_kind(d, graph, out->graph, KIND_TOPOLOGY, &named);
}

static void wire_finish(struct wire *w)
{
    w->latency_s = w->latency_ms / 1000;
    w->bytes_per_s = w->bandwidth_mbps * (1e6 / 8);
}

/* Agents that learn must each have a site; those that help are at the first one where nothing else is said. */
static fault decode_sites(const struct document *d, const struct node *node, int64_t agents, int64_t members,
                          struct network_settings *out)
{
    struct roll roll;
    uint32_t *site_of = ARENA_NEW(d->arena, uint32_t, members);
    if (!site_of)
        return OUT_OF_MEMORY;
    TRY(roll_init(&roll, d, members));
    TRY(roll_groups(&roll, node, &out->sites));
    for (int64_t i = 0; i < agents; i++)
        if (roll.called[i] != roll.call)
            return fail_node(node, "agent %lld is at no site", (long long)i);
    for (size_t i = 0; i < out->sites.n; i++)
        site_of[out->sites.agents[i]] = out->sites.group[i];
    out->site_of = site_of;
    return OK;
}

static fault decode_across(const struct document *d, const struct node *node, struct network_settings *out)
{
    out->across = out->within;
    if (!node)
        return OK;
    if (!out->site_of)
        return fail_key(node, "this is the wire between sites, but no sites are written");
    TRY(decode_map(d, node, &(struct form){.fields = {decode_fields_of(SECTION_WIRE, &out->across)}}, node));
    wire_finish(&out->across);
    return OK;
}

/* A link in the making: with the node it came from, for complaints. */
struct found_link {
    struct wire_between it;
    const struct node *node;
    size_t index;
};

static int compare_pairs(const struct wire_between *x, const struct wire_between *y)
{
    return x->a != y->a ? (x->a > y->a) - (x->a < y->a) : (x->b > y->b) - (x->b < y->b);
}

static int compare_links(const void *x, const void *y)
{
    const struct found_link *a = x, *b = y;
    int by_pair = compare_pairs(&a->it, &b->it);
    return by_pair ? by_pair : (a->index > b->index) - (a->index < b->index);
}

static fault decode_link(const struct document *d, struct roll *roll, const struct node *node,
                         const struct network_settings *network, struct found_link *out)
{
    struct link_written written;
    struct groups ends;
    /* the pair first: what is not written of the wire follows from it */
    struct wire ignored;
    struct form form = {
        .fields = {decode_fields_of(SECTION_LINK, &written), decode_fields_of(SECTION_WIRE, &ignored)}};
    TRY(decode_map(d, node, &form, node));
    TRY(roll_pair(roll, node_find(node, "between"), &written.between, &ends));
    uint32_t a = ends.agents[0], b = ends.agents[1];
    out->it = (struct wire_between){a < b ? a : b, a < b ? b : a, network_wire(network, a, b)};
    form.fields[1].settings = &out->it.wire;
    TRY(decode_map(d, node, &form, node));
    wire_finish(&out->it.wire);
    return OK;
}

static fault decode_links(const struct document *d, const struct node *node, int64_t members,
                          struct network_settings *out)
{
    if (node->kind != NODE_LIST)
        return fail_node(node, "a list of links is expected here: [{between: [0, 1], latency_ms: 20}]");
    struct roll roll;
    struct found_link *links = ARENA_NEW(d->arena, struct found_link, node->n + 1);
    struct wire_between *plain = ARENA_NEW(d->arena, struct wire_between, node->n + 1);
    if (!links || !plain)
        return OUT_OF_MEMORY;
    TRY(roll_init(&roll, d, members));
    size_t n = 0;
    for (const struct node *item = node->first; item; item = item->next, n++) {
        links[n] = (struct found_link){.node = item, .index = n};
        TRY(decode_link(d, &roll, item, out, &links[n]));
    }
    qsort(links, n, sizeof *links, compare_links);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && compare_pairs(&links[i - 1].it, &links[i].it) == 0)
            return fail_node(links[i].node, "the link between %u and %u is written twice", links[i].it.a,
                             links[i].it.b);
        plain[i] = links[i].it;
    }
    out->links = plain;
    out->n_links = n;
    return OK;
}

fault decode_network(const struct document *d, int64_t agents, int64_t members, struct network_settings *out)
{
    static const char *const others[] = {"sites", "across", "links", NULL};
    const struct node *node = node_find(d->top, "network");
    TRY(decode_map(d, node, &(struct form){.fields = {decode_fields_of(SECTION_NETWORK, out)}, .others = others},
                   d->top));
    wire_finish(&out->within);
    out->across = out->within;
    if (!node) {
        out->notice_s = 0;
        return OK;
    }
    out->written = true;
    const struct node *sites = node_find(node, "sites"), *links = node_find(node, "links");
    if (sites)
        TRY(decode_sites(d, sites, agents, members, out));
    if (sites && !node_find(node, "across"))
        return fail_key(sites, "sites are told apart by the wire between them, but no across is written");
    TRY(decode_across(d, node_find(node, "across"), out));
    return links ? decode_links(d, links, members, out) : OK;
}

static int compare_wires(const void *x, const void *y)
{
    return compare_pairs(x, y);
}

struct wire network_wire(const struct network_settings *n, size_t a, size_t b)
{
    struct wire_between key = {.a = (uint32_t)(a < b ? a : b), .b = (uint32_t)(a < b ? b : a)};
    const struct wire_between *link =
        n->n_links ? bsearch(&key, n->links, n->n_links, sizeof key, compare_wires) : NULL;
    if (link)
        return link->wire;
    return n->site_of && n->site_of[a] != n->site_of[b] ? n->across : n->within;
}
