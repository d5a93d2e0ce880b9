/* agent.c - the verbs, each a request over the agent's link. */
#include "strategy/agent.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"

static void free_room(struct agent *a)
{
    free(a->parcels);
    free(a->shares);
    free(a->terms);
    free(a->missed);
    a->parcels = NULL;
    a->shares = NULL;
    a->terms = NULL;
    a->missed = NULL;
}

/* Where agents are at several sites, as if all were apart. */
static void know_network(struct group *g, const struct network_settings *n)
{
    struct wire wire = n->sites.n > 1 ? n->across : n->within;
    g->alpha_s = wire.latency_s;
    g->beta_s = wire.bytes_per_s > 0 ? sizeof(float) / wire.bytes_per_s : 0;
}

fault agent_init(struct agent *a, const struct stage *stage, size_t index, const uint32_t *share,
                 size_t n_share)
{
    const struct experiment *e = stage->experiment;
    *a = (struct agent){.index = index, .stage = stage, .settings = e->strategy.settings};
    size_t degree = agent_degree(a);
    const struct strategy_row *row = strategy_row(e);
    a->parcel_room = 1 + (row->hears_everyone || row->forms_group ? stage->n_members : degree);
    a->parcels = calloc(a->parcel_room, sizeof *a->parcels);
    a->shares = calloc(a->parcel_room, sizeof *a->shares);
    a->terms = calloc(a->parcel_room + 1, sizeof *a->terms);
    a->missed = calloc(1 + (agent_helps(a) ? stage->n_members : degree), sizeof *a->missed);
    fault f = a->parcels && a->shares && a->terms && a->missed ? OK : OUT_OF_MEMORY;
    if (!f && row->forms_group && !agent_helps(a)) {
        f = group_init(&a->group, index, a->parcels, stage->n_agents);
        know_network(&a->group, &e->network);
    }
    if (!f && !agent_helps(a))
        f = feed_init(&a->feed, &e->data, stage->seed, (uint32_t)index, share, n_share);
    return f;
}

void agent_release(struct agent *a)
{
    feed_release(&a->feed);
    group_release(&a->group);
    free_room(a);
}

struct rows strategy_rows(const struct row_needs *n)
{
    const struct experiment *e = n->experiment;
    struct rows rows = rows_of(n->graph, &e->optim);
    const struct kept_row *kept = strategy_row(e)->kept;
    for (size_t i = 0; i < KEPT_ROWS && kept[i].name; i++) {
        bool is_needed = !kept[i].is_needed || kept[i].is_needed(e);
        size_t size = !is_needed ? 0 : kept[i].size ? kept[i].size(n) : n->graph->size;
        rows_keep(&rows,
                  (struct row_entry){.name = kept[i].name,
                                     .size = size,
                                     .awaits_data = is_needed && kept[i].size && !size && !n->longest_share,
                                     .like = kept[i].size ? LIKE_NOTHING : LIKE_PARAMS});
    }
    return rows;
}

bool agent_goes_on(struct agent *a)
{
    const struct stage *s = a->stage;
    return s->asynchronous ? link_take_round(a->link, &a->ended) : a->k < s->rounds;
}

bool agent_is_in_last_round(const struct agent *a)
{
    return !a->stage->asynchronous && a->k + 1 >= a->stage->rounds;
}

void agent_prepare(struct agent *a, uint64_t lesson, struct pick *picks, uint64_t *seed)
{
    struct rng r = rng_stream(a->stage->seed, (uint32_t)a->index, RNG_DROPOUT, lesson);
    *seed = rng_next(&r);
    feed_batch(&a->feed, lesson, picks);
}

fault agent_answered(struct agent *a, uint64_t lesson, double loss, size_t hits)
{
    if (!isfinite(loss))
        return FAIL(
            FAULT_NUMBER,
            "the loss of agent %zu became %s in lesson %llu (epoch %.2f, learning rate %g): training has "
            "diverged; a smaller optim.lr or a longer schedule.warmup_epochs may help",
            a->index, isnan(loss) ? "NaN" : "infinite", (unsigned long long)lesson + 1,
            feed_epochs(&a->feed, lesson), a->lr);
    a->loss = loss;
    a->tally.loss += loss;
    a->tally.hits += hits;
    a->tally.samples += a->feed.batch;
    a->tally.lessons++;
    return OK;
}

fault agent_begin(struct agent *a)
{
    return link_learn(a->link, a->lessons);
}

fault agent_await(struct agent *a, size_t first)
{
    TRY(link_await(a->link, first));
    a->lessons += first == 0;
    return OK;
}

fault agent_learn(struct agent *a)
{
    TRY(agent_begin(a));
    return agent_await(a, 0);
}

/* The round by which the learning rate moves: an agent's own, or where all share their rounds that of the
 * group. A helper takes no rounds: its k is the group's, as its strategy counts it. */
static uint64_t round_of_schedule(const struct agent *a)
{
    return a->stage->asynchronous && !agent_helps(a) ? a->ended / a->stage->n_agents : a->k;
}

double agent_rate(struct agent *a)
{
    const struct stage *s = a->stage;
    a->lr = optim_lr(&s->experiment->optim, (int64_t)s->n_agents, round_of_schedule(a), s->rounds_per_epoch,
                     s->epochs);
    return a->lr;
}

fault agent_update(struct agent *a)
{
    uint64_t stale = link_staleness(a->link);
    a->staleness.sum += stale;
    a->staleness.most = stale > a->staleness.most ? stale : a->staleness.most;
    a->staleness.n++;
    return link_update(a->link, 0, TO_END, agent_rate(a), ++a->steps);
}

static fault mix_row(struct agent *a, enum row row, double self, size_t n)
{
    a->terms[0] = (struct term){self, row, NULL, 0};
    for (size_t i = 0; i < n; i++)
        a->terms[i + 1] = (struct term){a->shares[i], row, &a->parcels[i], 0};
    return link_mix(a->link, row, 0, TO_END, a->terms, n + 1);
}

fault agent_mix(struct agent *a, row_set rows, double self, size_t n)
{
    fault f = OK;
    for (enum row row = 0; !f && row < N_ROWS; row++)
        if (rows & 1u << row)
            f = mix_row(a, row, self, n);
    for (size_t i = 0; i < n; i++)
        link_drop(a->link, &a->parcels[i]);
    return f;
}

fault agent_combine(struct agent *a, enum row into, const struct term *terms, size_t n)
{
    return link_mix(a->link, into, 0, TO_END, terms, n);
}

fault agent_dot(struct agent *a, enum row row, enum row other, double *out)
{
    return link_number(a->link, &(struct question){.about = NUMBER_DOT, .row = row, .other = other, .end = TO_END}, out);
}

fault agent_norm(struct agent *a, enum row row, double *out)
{
    double square;
    TRY(agent_dot(a, row, row, &square));
    *out = sqrt(square);
    return OK;
}

fault agent_loss(struct agent *a, double *out)
{
    return link_number(a->link, &(struct question){.about = NUMBER_LOSS}, out);
}

fault agent_end_round(struct agent *a)
{
    a->k++;
    group_forgive(&a->group);
    link_forget(a->link, a->k);
    return link_end_round(a->link);
}

struct caller *agent_caller(struct agent *a)
{
    a->caller.link = a->link;
    a->caller.patience_s = a->stage->experiment->network.patience_s;
    a->caller.name = agent_helps(a) ? "helper" : "agent";
    return &a->caller;
}

struct service *agent_serves(struct agent *a, struct service *s)
{
    s->link = a->link;
    s->patience_s = a->stage->experiment->network.patience_s;
    return s;
}

struct group *agent_group(struct agent *a)
{
    a->group.link = a->link;
    return &a->group;
}

static void note_reunion(struct agent *a, const char *why)
{
    const struct group *g = &a->group;
    char text[256];
    if (g->rank == 0) {
        snprintf(text, sizeof text, "%zu of %zu agents go on together from round %llu: %.120s", g->n,
                 g->n_all, (unsigned long long)a->k, why);
        link_note(a->link, "group", text);
    }
}

/* Where an agent has done all its rounds, mine are done, too, with its rows. Not done: there is no such agent, or
 * none can be reached any more. */
static fault end_as_others_did(struct agent *a, bool *done)
{
    struct group *g = agent_group(a);
    size_t peer;
    *done = false;
    while (!*done && group_finds_ended(g, &peer)) {
        uint64_t round;
        fault f = link_adopt(a->link, peer, &round);
        if (f && !is_about_peers(f))
            return f;
        *done = f == OK;
        if (f)
            group_leave_out(g, peer);
        else
            a->k = round;
        fault_drop(f);
    }
    if (*done) {
        char text[128];
        snprintf(text, sizeof text,
                 "agent %zu ends with the rows of agent %zu, which has done all its rounds", a->index, peer);
        link_note(a->link, "group", text);
    }
    return OK;
}

fault agent_regroup(struct agent *a, const char *why)
{
    struct reunion r = {0};
    struct group *g = agent_group(a);
    bool again, done;
    do {
        TRY(group_reform(g, a->k, why, &r));
        TRY(end_as_others_did(a, &done));
        if (done)
            return OK;
        fault f = r.adopt ? group_end(g, link_adopt(a->link, r.leader, NULL)) : OK;
        if (f && !is_about_peers(f))
            return f;
        if (f && fault_kind_of(f) == FAULT_TIMEOUT)
            group_leave_out(g, r.leader);
        again = f != OK;
        fault_drop(f);
    } while (again);
    a->k = r.round;
    note_reunion(a, why);
    return OK;
}

/* Of a group's members, the first to end decides: the others take over what it has. */
fault agent_agree(struct agent *a)
{
    bool done;
    if (!group_is_a_part(agent_group(a)))
        return OK;
    TRY(end_as_others_did(a, &done));
    return done ? OK : agent_regroup(a, "others are at work, and this part has ended");
}

/* The fault is let go before anything is waited for: a program that is dropped there must hold nothing. */
fault agent_regroup_after(struct agent *a, fault f)
{
    char why[128];
    if (!is_about_peers(f))
        return f;
    snprintf(why, sizeof why, "%s", fault_text(f));
    fault_drop(f);
    return agent_regroup(a, why);
}

fault agent_rejoin_group(struct agent *a)
{
    char why[64];
    snprintf(why, sizeof why, "agent %zu is back", a->index);
    agent_group(a)->is_newcomer = true;
    return agent_regroup(a, why);
}

static fault rejoin_peers(struct agent *a)
{
    for (size_t i = 0; i < agent_peers(a); i++) {
        size_t peer = agent_peer(a, i);
        fault f = link_adopt(a->link, peer, NULL);
        if (!f) {
            char text[96];
            snprintf(text, sizeof text, "agent %zu is back with the parameters of agent %zu", a->index, peer);
            link_note(a->link, "return", text);
            return OK;
        }
        if (!is_about_peers(f))
            return f;
        fault_drop(f);
    }
    link_note(a->link, "return", "an agent is back with its old parameters: no other agent could be reached");
    return OK;
}

fault agent_rejoin(struct agent *a)
{
    const struct strategy_row *row = strategy_row(a->stage->experiment);
    a->returned = false;
    a->has_been_down = true;
    if (row->rejoin)
        return row->rejoin(a);
    return row->forms_group && !agent_helps(a) ? agent_rejoin_group(a) : rejoin_peers(a);
}

/* Where a neighbour's entry is; the degree for one that is no neighbour. A helper knows all members. */
static size_t entry_of(const struct agent *a, size_t peer)
{
    if (agent_helps(a))
        return peer;
    size_t i = 0, degree = agent_degree(a);
    while (i < degree && agent_neighbour(a, i) != peer)
        i++;
    return i;
}

void agent_misses(struct agent *a, size_t peer, const char *kind, const char *text)
{
    bool *missed = &a->missed[entry_of(a, peer)];
    if (!*missed)
        link_note(a->link, kind, text);
    *missed = true;
}

/* The centre, where the method has one; other members by their number. */
static const char *called(const struct agent *a, size_t member, char name[static 32])
{
    if (member == a->stage->n_agents && strategy_row(a->stage->experiment)->has_centre)
        return "the centre";
    snprintf(name, 32, "agent %zu", member);
    return name;
}

fault agent_does_without(struct agent *a, size_t peer, fault f)
{
    if (f && is_about_peers(f) && peer != ANYONE) {
        char text[192], round[32] = "", mine[32], theirs[32];
        if (!agent_helps(a))
            snprintf(round, sizeof round, " in round %llu", (unsigned long long)a->k);
        snprintf(text, sizeof text, "%s goes on without %s%s: %.100s", called(a, a->index, mine),
                 called(a, peer, theirs), round, fault_text(f));
        agent_misses(a, peer, "without", text);
    }
    return forgive(f);
}

void agent_meets(struct agent *a, size_t peer)
{
    a->missed[entry_of(a, peer)] = false;
}

size_t agent_degree(const struct agent *a)
{
    const struct topology *t = a->stage->topology;
    return t && !agent_helps(a) ? t->first[a->index + 1] - t->first[a->index] : 0;
}

size_t agent_neighbour(const struct agent *a, size_t i)
{
    const struct topology *t = a->stage->topology;
    return t->neighbour[t->first[a->index] + i];
}

size_t agent_peers(const struct agent *a)
{
    return a->stage->topology ? agent_degree(a) : a->stage->n_agents - 1;
}

size_t agent_peer(const struct agent *a, size_t i)
{
    return a->stage->topology ? agent_neighbour(a, i) : (a->index + 1 + i) % a->stage->n_agents;
}

double agent_weight(const struct agent *a, size_t i)
{
    const struct topology *t = a->stage->topology;
    return a->stage->weights->edge[t->edge_of[t->first[a->index] + i]];
}
