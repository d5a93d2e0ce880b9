/* events.c - what happens to machines and links on the way: the section `events`.
 *
 *   events:
 *     - {at_s: 10, crash: 3}
 *     - {at_s: 12, stall: 2}
 *     - {at_s: 20, return: 3}
 *     - {at_s: 5, cut: [0, 1]}
 *     - {at_s: 7, mend: [0, 1]}
 *     - {at_s: 8, partition: [[0, 1], [2, 3]]}
 *     - {at_s: 9, heal: all}
 *     - {random: {crash_every_s: 100, down_s: 20, cut_every_s: 200, cut_s: 10}}
 *
 * An item is one thing at one time, or the chances of everything.
 */
#include "experiment/decode.h"

const char *const event_names[N_EVENTS] = {
    [EVENT_CRASH] = "crash", [EVENT_STALL] = "stall",         [EVENT_RETURN] = "return", [EVENT_CUT] = "cut",
    [EVENT_MEND] = "mend",   [EVENT_PARTITION] = "partition", [EVENT_HEAL] = "heal",
};

static fault decode_random(const struct document *d, const struct node *item, struct event_settings *out)
{
    static const char *const others[] = {"random", NULL};
    const struct node *node = node_find(item, "random");
    struct random_events *r = &out->random;
    TRY(decode_map(d, item, &(struct form){.others = others}, item));
    if (out->has_random)
        return fail_node(item, "the chances of events are written twice");
    TRY(decode_map(d, node, &(struct form){.fields = {decode_fields_of(SECTION_RANDOM, r)}}, node));
    if (r->crash_every_s == 0 && r->cut_every_s == 0)
        return fail_node(node, "nothing ever happens: crash_every_s or cut_every_s is expected");
    if (r->crash_every_s == 0 && r->down_s > 0)
        return fail_node(node_find(node, "down_s"), "nobody ever crashes: crash_every_s is not written");
    if (r->cut_every_s == 0 && r->cut_s > 0)
        return fail_node(node_find(node, "cut_s"), "nothing is ever cut: cut_every_s is not written");
    r->place = node->place;
    out->has_random = true;
    return OK;
}

/* What an item says beside its time. */
static fault find_event(const struct node *item, const struct node **what, enum event_kind *kind)
{
    *what = NULL;
    for (int k = 0; k < N_EVENTS; k++) {
        const struct node *node = node_find(item, event_names[k]);
        if (node && *what)
            return fail_key(node, "an item is one event, and this one is a %s already", event_names[*kind]);
        if (node) {
            *what = node;
            *kind = (enum event_kind)k;
        }
    }
    if (*what)
        return OK;
    return fail_node(item,
                     "nothing happens here: crash, stall, return, cut, mend, partition or heal is expected");
}

static fault decode_event(const struct document *d, struct roll *roll, const struct node *item,
                          struct event *out)
{
    static const char *const others[] = {"partition", NULL};
    struct event_written written = {0};
    const struct node *what;
    TRY(decode_map(
        d, item, &(struct form){.fields = {decode_fields_of(SECTION_EVENT, &written)}, .others = others}, item));
    TRY(find_event(item, &what, &out->kind));
    out->at_s = written.at_s;
    out->place = item->place;
    switch (out->kind) {
    case EVENT_CRASH:
    case EVENT_STALL:
    case EVENT_RETURN:
        return roll_agents(roll, what, &written.who[out->kind], &out->who);
    case EVENT_CUT:
    case EVENT_MEND:
        return roll_pair(roll, what, &written.who[out->kind], &out->who);
    case EVENT_PARTITION:
        return roll_groups(roll, what, &out->who);
    default:
        return OK;
    }
}

fault decode_events(const struct document *d, int64_t members, struct event_settings *out)
{
    const struct node *node = node_find(d->top, "events");
    if (!node)
        return OK;
    if (node->kind != NODE_LIST)
        return fail_node(node, "a list of events is expected here: [{at_s: 10, crash: 3}]");
    struct roll roll;
    struct event *events = ARENA_NEW(d->arena, struct event, node->n + 1);
    if (!events)
        return OUT_OF_MEMORY;
    TRY(roll_init(&roll, d, members));
    for (const struct node *item = node->first; item; item = item->next) {
        if (node_find(item, "random"))
            TRY(decode_random(d, item, out));
        else
            TRY(decode_event(d, &roll, item, &events[out->n++]));
    }
    out->at = events;
    return OK;
}
