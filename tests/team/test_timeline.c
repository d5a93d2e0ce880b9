/* When passes begin and end: closed forms of the literature for stages alike and unlike, the longest path through the schedule's graph, and
 * where cards carry one message at a time another simulation. */
#include "team/written.h"

#include <math.h>

#include "base/rng.h"
#include "team/timeline.h"

/* ---- words ---- */

struct made {
    struct arena arena;
    struct schedule s;
    struct timeline t;
};

static struct made make(const char *kind, size_t p, size_t chunks, size_t m, size_t n_rounds, const struct part_cost *parts,
                        double latency_s)
{
    struct made d = {.arena = {0}};
    d.s = written(kind, p, chunks, m, 0, &d.arena);
    struct timeline_needs needs = {.schedule = &d.s, .parts = parts, .latency_s = latency_s, .n_rounds = n_rounds};
    must(timeline_make(&needs, &d.arena, &d.t));
    return d;
}

static void release(struct made *d)
{
    arena_release(&d->arena);
}

static void must_be(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-9 * fmax(1, fabs(wanted))))
        fail_msg("%.17g, not %.17g", got, wanted);
}

static void takes(const char *kind, size_t p, size_t chunks, size_t m, const struct part_cost *parts, double seconds)
{
    struct made d = make(kind, p, chunks, m, 1, parts, 0);
    must_be(d.t.round_s, seconds);
    release(&d);
}

enum { MOST_PARTS = 64 };

/* Forward f, backward 2 f in two halves alike, on each of n parts. */
static const struct part_cost *alike(double f, struct part_cost parts[MOST_PARTS])
{
    for (size_t i = 0; i < MOST_PARTS; i++)
        parts[i] = (struct part_cost){f, f, f};
    return parts;
}

/* ---- closed forms ---- */

static void four_equal_stages_take_what_the_literature_says(void **state)
{
    (void)state;
    struct part_cost parts[MOST_PARTS];
    alike(1, parts);
    takes("gpipe", 4, 1, 8, parts, 33);
    takes("1f1b", 4, 1, 8, parts, 33);
    takes("zb-h1", 4, 1, 8, parts, 27);
    alike(0.5, parts);
    takes("interleaved", 4, 2, 8, parts, 28.5);
}

static void a_stage_twice_as_slow_costs_what_the_literature_says(void **state)
{
    (void)state;
    for (size_t slow = 0; slow < 2; slow++) {
        struct part_cost parts[MOST_PARTS];
        alike(1, parts);
        parts[slow] = (struct part_cost){2, 2, 2};
        takes("1f1b", 4, 1, 8, parts, slow ? 53 : 51);
        takes("gpipe", 4, 1, 8, parts, 57);
    }
}

/* (p-1)(f+b) for gpipe and 1f1b, that over v for interleaved, for any m >= p; for zb-h1, with f no shorter than W, (p-1)(f+I-W), and
 * (p-1)f where W takes longer than I. */
static void idle_times_of_equal_stages_are_those_of_the_table(void **state)
{
    (void)state;
    struct rng random = rng_stream(21, 0, RNG_TEST, 7);
    for (size_t p = 1; p <= 8; p++)
        for (size_t m = p; m <= 3 * p + 2; m++) {
            double i = rng_uniform(&random), w = rng_uniform(&random), f = w + rng_uniform(&random), work = (double)m * (f + i + w);
            double others = (double)(p - 1);
            struct part_cost parts[MOST_PARTS];
            for (size_t v = 4; v >= 1; v--) {
                double n = (double)v;
                for (size_t part = 0; part < MOST_PARTS; part++)
                    parts[part] = (struct part_cost){f / n, i / n, w / n};
                takes("interleaved", p, v, m, parts, work + others * (f + i + w) / n);
            }
            takes("gpipe", p, 1, m, parts, work + others * (f + i + w));
            takes("1f1b", p, 1, m, parts, work + others * (f + i + w));
            takes("zb-h1", p, 1, m, parts, work + others * (f + fmax(i - w, 0)));
            struct made d = make("1f1b", p, 1, m, 1, parts, 0);
            must_be(d.t.bubble, others / ((double)m + others));
            release(&d);
        }
}

static double sum_of(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

static double most_of(const double *x, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, x[i]);
    return most;
}

struct sums {
    double f, b, most_f, most_b, most_fb, first_fb;
};

static struct sums sums_of(const struct part_cost *parts, size_t p)
{
    double f[MOST_PARTS], b[MOST_PARTS], fb[MOST_PARTS];
    for (size_t i = 0; i < p; i++) {
        f[i] = parts[i].forward_s;
        b[i] = parts[i].inputs_s + parts[i].weights_s;
        fb[i] = f[i] + b[i];
    }
    return (struct sums){sum_of(f, p), sum_of(b, p), most_of(f, p), most_of(b, p), most_of(fb, p), fb[0]};
}

static void unequal_stages_of_gpipe_take_what_the_formula_says(void **state)
{
    (void)state;
    struct rng random = rng_stream(21, 0, RNG_TEST, 3);
    for (size_t trial = 0; trial < 500; trial++) {
        size_t p = 1 + rng_below(&random, 8), m = 1 + rng_below(&random, 12);
        struct part_cost parts[MOST_PARTS];
        for (size_t i = 0; i < p; i++)
            parts[i] = (struct part_cost){rng_uniform(&random), rng_uniform(&random), rng_uniform(&random)};
        struct sums k = sums_of(parts, p);
        takes("gpipe", p, 1, m, parts, k.f + k.b + (double)(m - 1) * (k.most_f + k.most_b));
    }
}

/* With T = max (f+b), passes that begin at F_g(i): iT + sum_{j<g} f_j and B_g(i): that + (p-1-g)T + f_g keep every order and end after
 * (m+p-2)T + f_0 + b_0; none ends later than that. Where b is everywhere as many times f, sum (f+b) + (m-1)T is a bound, too; else it need
 * not be one. */
static void unequal_stages_of_1f1b_take_no_longer_than_the_bounds(void **state)
{
    (void)state;
    struct rng random = rng_stream(21, 0, RNG_TEST, 6);
    for (size_t trial = 0; trial < 1000; trial++) {
        size_t p = 1 + rng_below(&random, 8), m = 1 + rng_below(&random, 12);
        bool alike_b = trial % 2;
        double times = 3 * rng_uniform(&random);
        struct part_cost parts[MOST_PARTS];
        for (size_t i = 0; i < p; i++) {
            double f = rng_below(&random, 3) * rng_uniform(&random), w = alike_b ? f * times : rng_below(&random, 3) * rng_uniform(&random);
            parts[i] = (struct part_cost){f, 0, w};
        }
        struct sums k = sums_of(parts, p);
        struct made d = make("1f1b", p, 1, m, 1, parts, 0);
        assert_true(d.t.round_s <= k.first_fb + (double)(m + p - 2) * k.most_fb + 1e-9);
        if (alike_b)
            assert_true(d.t.round_s <= k.f + k.b + (double)(m - 1) * k.most_fb + 1e-9);
        assert_true(d.t.round_s >= fmax(k.f + k.b, (double)m * k.most_fb) - 1e-9);
        release(&d);
    }
    /* one stage slow forward, the next backward: 10 > 2 + 7 */
    takes("1f1b", 3, 1, 8, (struct part_cost[]){{1, 0, 0}, {0, 1, 0}, {0, 0, 0}}, 10);
}

/* From a member's first backward pass to the last micro-batch of all that goes forward, it never waits. */
static void without_a_flush_no_equal_stage_waits_after_the_start(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++)
        for (size_t p = 1; p <= 8; p++) {
            size_t m = k ? p + 1 : 1, n_rounds = k ? 5 : 6 * p;
            struct part_cost parts[MOST_PARTS];
            struct made d = make(k ? "2bw" : "pipedream", p, 1, m, n_rounds, alike(1, parts), 0);
            for (size_t g = 0; g < p; g++) {
                const struct actions *list = &d.t.actions[g];
                size_t last = list->n - 1;
                while (list->at[last].kind != ACTION_FORWARD)
                    last--;
                assert_int_equal(list->at[last].micro, n_rounds * m - 1);
                bool started = false;
                for (size_t i = 0; i <= last; i++) {
                    if (started)
                        must_be(d.t.of[g][i].begin_s, d.t.of[g][i - 1].end_s);
                    started |= list->at[i].kind == ACTION_BACKWARD;
                }
                assert_true(started);
            }
            /* and to all of them a member's own work, one way there and one back */
            must_be(d.t.end_s, 3 * (double)(n_rounds * m + p - 1));
            release(&d);
        }
}

/* A latency of half a forward and a backward pass slows 1f1b down; the deepest warm-up hides it but for one way there and back. */
static void a_deep_warm_up_hides_latency(void **state)
{
    (void)state;
    for (size_t p = 2; p <= 8; p++) {
        struct arena arena = {0};
        struct part_cost parts[MOST_PARTS];
        double round_s[2], m = 10 * (double)p;
        for (size_t deep = 0; deep < 2; deep++) {
            struct schedule s = written("1f1b", p, 1, 10 * p, deep ? 2 * p - 1 : 0, &arena);
            struct timeline t;
            struct timeline_needs needs = {.schedule = &s, .parts = alike(1, parts), .latency_s = 1.5, .n_rounds = 1};
            must(timeline_make(&needs, &arena, &t));
            round_s[deep] = t.round_s;
        }
        double trip = 3 * (double)(p - 1) + 2 * 1.5 * (double)(p - 1);
        assert_true(round_s[1] <= 3 * m + trip + 1e-9);
        assert_true(round_s[0] >= m / (double)p * (3 * (double)p + 2 * 1.5 * (double)(p - 1)) - 1e-9); /* period by the formula */
        assert_true(round_s[0] > round_s[1]);
        arena_release(&arena);
    }
}

/* ---- the longest path, computed apart ---- */

struct vertex {
    double seconds, end_s;
};
struct arrow {
    size_t from, to;
    double seconds;
};

enum { MOST_VERTICES = 8192, MOST_ARROWS = 65536 };
struct paths {
    struct vertex v[MOST_VERTICES];
    struct arrow a[MOST_ARROWS];
    size_t first[16]; /* of each member's list */
    size_t n, n_arrows;
};

/* Of one micro-batch, which may be larger or smaller than others, and may be computed forward again before it goes backward. */
static double weight_of(const struct timeline_needs *n, size_t micro)
{
    return n->micro_shares ? n->micro_shares[micro % n->schedule->n_micros] : 1;
}

static double pass_seconds(const struct timeline_needs *n, struct action a)
{
    const struct part_cost *c = &n->parts[a.part];
    bool again = a.micro % n->schedule->n_micros < n->n_recomputed && (a.kind == ACTION_BACKWARD || a.kind == ACTION_INPUTS);
    double costs[] = {c->forward_s, c->inputs_s + c->weights_s, c->inputs_s, c->weights_s};
    if (again)
        costs[ACTION_INPUTS] = c->forward_s + c->inputs_s, costs[ACTION_BACKWARD] = costs[ACTION_INPUTS] + c->weights_s;
    return weight_of(n, a.micro) * costs[a.kind];
}

static size_t vertex_of(const struct paths *g, const struct actions *lists, size_t p, size_t part, size_t micro, bool forward)
{
    size_t member = part % p;
    for (size_t i = 0; i < lists[member].n; i++) {
        struct action a = lists[member].at[i];
        if (a.part == part && a.micro == micro && a.kind != ACTION_WEIGHTS && (a.kind == ACTION_FORWARD) == forward)
            return g->first[member] + i;
    }
    fail();
    return 0;
}

static void arrow(struct paths *g, size_t from, size_t to, double seconds)
{
    assert_true(g->n_arrows < MOST_ARROWS);
    g->a[g->n_arrows++] = (struct arrow){from, to, seconds};
}

/* Arrows: along each list, forward from each part to the next and to those a transfer leads to, backward the other way. */
static void draw_graph(struct paths *g, const struct timeline_needs *n, const struct actions *lists, size_t n_micros)
{
    size_t p = n->schedule->n_members, parts = n->schedule->n_parts;
    g->n = g->n_arrows = 0;
    for (size_t r = 0; r < p; r++) {
        g->first[r] = g->n;
        for (size_t i = 0; i < lists[r].n; i++) {
            assert_true(g->n < MOST_VERTICES);
            g->v[g->n++] = (struct vertex){pass_seconds(n, lists[r].at[i]), 0};
            if (i > 0)
                arrow(g, g->n - 2, g->n - 1, 0);
        }
    }
    for (size_t micro = 0; micro < n_micros; micro++)
        for (size_t i = 0; i + 1 < parts + n->n_transfers; i++) {
            size_t from = i + 1 < parts ? i : n->transfers[i + 1 - parts].from, to = i + 1 < parts ? i + 1 : n->transfers[i + 1 - parts].to;
            double seconds = from % p == to % p ? 0 : n->latency_s;
            arrow(g, vertex_of(g, lists, p, from, micro, true), vertex_of(g, lists, p, to, micro, true), seconds);
            arrow(g, vertex_of(g, lists, p, to, micro, false), vertex_of(g, lists, p, from, micro, false), seconds);
        }
}

/* Bellman and Ford: every arrow in turn until no end moves. */
static void relax(struct paths *g)
{
    for (size_t i = 0; i < g->n; i++)
        g->v[i].end_s = g->v[i].seconds;
    for (bool moves = true; moves;) {
        moves = false;
        for (size_t i = 0; i < g->n_arrows; i++) {
            const struct arrow *a = &g->a[i];
            double end_s = g->v[a->from].end_s + a->seconds + g->v[a->to].seconds;
            if (end_s > g->v[a->to].end_s) {
                g->v[a->to].end_s = end_s;
                moves = true;
            }
        }
    }
}

/* ---- random teams ---- */

struct team {
    struct arena arena;
    struct schedule s;
    struct part_cost parts[MOST_PARTS];
    struct transfer_cost transfers[16];
    double shares[32];
    struct timeline_needs needs;
};

static void random_team(struct rng *random, struct team *t)
{
    static const char *const kinds[] = {"gpipe", "1f1b", "interleaved", "zb-h1", "pipedream", "2bw"};
    const char *kind = kinds[rng_below(random, 6)];
    size_t p = 1 + rng_below(random, 6), m = 1 + rng_below(random, 9);
    size_t chunks = strcmp(kind, "interleaved") == 0 ? 1 + rng_below(random, 3) : 1;
    if (strcmp(kind, "2bw") == 0)
        m += p;
    *t = (struct team){.arena = {0}};
    t->s = written(kind, p, chunks, m, strcmp(kind, "1f1b") == 0 ? rng_below(random, 2 * p) : 0, &t->arena);
    for (size_t i = 0; i < t->s.n_parts; i++)
        t->parts[i] = (struct part_cost){rng_uniform(random), rng_uniform(random), 2 * rng_uniform(random)};
    size_t n_transfers = t->s.n_parts > 1 ? rng_below(random, 12) : 0;
    for (size_t i = 0; i < n_transfers; i++) {
        size_t from = rng_below(random, t->s.n_parts - 1), to = from + 1 + rng_below(random, t->s.n_parts - 1 - from);
        t->transfers[i] = (struct transfer_cost){from, to, rng_uniform(random)};
    }
    t->needs = (struct timeline_needs){.schedule = &t->s, .parts = t->parts, .transfers = t->transfers, .n_transfers = n_transfers,
                                       .latency_s = rng_below(random, 3) * rng_uniform(random), .n_rounds = 1 + rng_below(random, 3)};
    for (size_t i = 0; i < m; i++)
        t->shares[i] = 0.1 + rng_uniform(random);
    if (rng_below(random, 2))
        t->needs.micro_shares = t->shares;
    if (rng_below(random, 2))
        t->needs.n_recomputed = rng_below(random, m + 1);
}

static void every_end_is_a_longest_path(void **state)
{
    (void)state;
    struct rng random = rng_stream(21, 0, RNG_TEST, 4);
    struct paths *g = calloc(1, sizeof *g);
    for (size_t trial = 0; trial < 1000; trial++) {
        struct team t;
        struct timeline line;
        random_team(&random, &t);
        must(timeline_make(&t.needs, &t.arena, &line));
        draw_graph(g, &t.needs, line.actions, t.needs.n_rounds * t.s.n_micros);
        relax(g);
        double last = 0;
        for (size_t r = 0; r < t.s.n_members; r++)
            for (size_t i = 0; i < line.actions[r].n; i++) {
                const struct vertex *v = &g->v[g->first[r] + i];
                assert_true(line.of[r][i].end_s == v->end_s); /* the same sums: to the bit */
                last = fmax(last, v->end_s);
            }
        assert_true(line.end_s == last);
        must_be(line.round_s, last / (double)t.needs.n_rounds);
        arena_release(&t.arena);
    }
    free(g);
}

/* ---- cards that carry one message at a time, simulated apart ---- */

struct message {
    size_t from, to;         /* parts */
    size_t micro;
    bool forward;
    double bytes;
    const struct event_s *maker; /* NULL: it is not known yet */
    bool sent;
    double there_s;
};

/* All messages as one list, sent in order of the moment at which they are ready; each pass as soon as its begin is known. Repeats over
 * everything until nothing changes: slow, and without a queue or a clock. */
struct cards {
    const struct timeline_needs *n;
    const struct actions *lists;
    struct event_s *of[16];
    size_t known[16]; /* how many events of each member are */
    struct message *messages;
    size_t n_messages;
    double out_s[16], in_s[16];
};

static void list_messages(struct cards *c, size_t n_micros)
{
    const struct schedule *s = c->n->schedule;
    c->messages = calloc(2 * n_micros * (s->n_parts + c->n->n_transfers + 1), sizeof *c->messages);
    for (size_t i = 0; i < c->n->n_transfers + s->n_parts - 1; i++) {
        struct transfer_cost t = i < c->n->n_transfers ? c->n->transfers[i]
                                                       : (struct transfer_cost){i - c->n->n_transfers, i - c->n->n_transfers + 1, 0};
        bool doubled = false;
        for (size_t j = 0; i >= c->n->n_transfers && j < c->n->n_transfers; j++)
            doubled |= c->n->transfers[j].from == t.from && c->n->transfers[j].to == t.to;
        for (size_t micro = 0; !doubled && micro < n_micros; micro++) {
            c->messages[c->n_messages++] = (struct message){t.from, t.to, micro, true, t.bytes, NULL, false, 0};
            c->messages[c->n_messages++] = (struct message){t.to, t.from, micro, false, t.bytes, NULL, false, 0};
        }
    }
}

static bool is_for(const struct message *m, struct action a, size_t part)
{
    return a.kind != ACTION_WEIGHTS && part == a.part && m->micro == a.micro && m->forward == (a.kind == ACTION_FORWARD);
}

/* Whether a member's next pass has all it needs; then its times. */
static bool compute_next(struct cards *c, size_t r)
{
    if (c->known[r] == c->lists[r].n)
        return false;
    struct action a = c->lists[r].at[c->known[r]];
    double begin_s = c->known[r] ? c->of[r][c->known[r] - 1].end_s : 0;
    for (size_t i = 0; i < c->n_messages; i++) {
        if (!is_for(&c->messages[i], a, c->messages[i].to))
            continue;
        if (!c->messages[i].sent)
            return false;
        begin_s = fmax(begin_s, c->messages[i].there_s);
    }
    struct event_s *e = &c->of[r][c->known[r]++];
    *e = (struct event_s){begin_s, begin_s + pass_seconds(c->n, a)};
    for (size_t i = 0; i < c->n_messages; i++)
        if (is_for(&c->messages[i], a, c->messages[i].from))
            c->messages[i].maker = e;
    return true;
}

/* Which of two is ready first; at one moment that of the lower member. */
static bool is_before(const struct message *a, const struct message *b, size_t p)
{
    if (a->maker->end_s != b->maker->end_s)
        return a->maker->end_s < b->maker->end_s;
    return a->from % p < b->from % p;
}

/* Of those that are made and not sent, the one that is ready first: nothing that is not known yet can be ready before it. */
static bool send_first(struct cards *c)
{
    struct message *first = NULL;
    size_t p = c->n->schedule->n_members;
    for (size_t i = 0; i < c->n_messages; i++) {
        struct message *m = &c->messages[i];
        if (m->maker && !m->sent && (!first || is_before(m, first, p)))
            first = m;
    }
    if (!first)
        return false;
    size_t from = first->from % p, to = first->to % p;
    first->sent = true;
    first->there_s = first->maker->end_s;
    if (from != to) {
        double begin_s = fmax(first->maker->end_s, fmax(c->out_s[from], c->in_s[to]));
        c->out_s[from] = c->in_s[to] = begin_s + first->bytes * weight_of(c->n, first->micro) / c->n->bytes_per_s;
        first->there_s = c->out_s[from] + c->n->latency_s;
    }
    return true;
}

static void cards_carry_one_message_at_a_time_in_the_order_in_which_they_are_ready(void **state)
{
    (void)state;
    struct rng random = rng_stream(21, 0, RNG_TEST, 5);
    for (size_t trial = 0; trial < 1000; trial++) {
        struct team t;
        struct timeline line;
        random_team(&random, &t);
        t.needs.bytes_per_s = 0.3 + 3 * rng_uniform(&random);
        must(timeline_make(&t.needs, &t.arena, &line));
        struct cards c = {.n = &t.needs, .lists = line.actions};
        for (size_t r = 0; r < t.s.n_members; r++)
            c.of[r] = calloc(c.lists[r].n + 1, sizeof *c.of[r]);
        list_messages(&c, t.needs.n_rounds * t.s.n_micros);
        for (bool goes_on = true; goes_on;) {
            goes_on = false;
            for (size_t r = 0; r < t.s.n_members; r++)
                while (compute_next(&c, r))
                    goes_on = true;
            goes_on |= send_first(&c);
        }
        for (size_t r = 0; r < t.s.n_members; r++) {
            assert_int_equal(c.known[r], line.actions[r].n);
            for (size_t i = 0; i < c.known[r]; i++)
                assert_true(c.of[r][i].begin_s == line.of[r][i].begin_s && c.of[r][i].end_s == line.of[r][i].end_s);
            free(c.of[r]);
        }
        free(c.messages);
        arena_release(&t.arena);
    }
}

/* Two members, one micro-batch, 3 bytes there and 3 back at 2 a second, 0.25 s of latency. */
static void a_message_takes_its_bytes_over_the_bandwidth_and_the_latency(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct schedule s = written("gpipe", 2, 1, 1, 0, &arena);
    struct part_cost parts[MOST_PARTS];
    struct timeline t;
    struct transfer_cost transfer = {0, 1, 3};
    struct timeline_needs needs = {.schedule = &s, .parts = alike(1, parts), .transfers = &transfer, .n_transfers = 1,
                                   .latency_s = 0.25, .bytes_per_s = 2, .n_rounds = 1};
    must(timeline_make(&needs, &arena, &t));
    must_be(t.of[1][0].begin_s, 1 + 1.5 + 0.25);
    must_be(t.of[0][1].begin_s, 1 + 1.75 + 3 + 1.75);
    must_be(t.end_s, 3 + 3 + 2 * 1.75);
    must_be(t.bubble, 1 - 6 / (2 * 9.5));
    must_be(timeline_busy_s(&t, 0), 3);
    arena_release(&arena);
}

/* ---- drawings ---- */

static char *drawn(const struct schedule *s, const struct timeline *t, const char *title)
{
    char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    assert_non_null(to);
    must(timeline_draw(s, t, title, to));
    assert_int_equal(fclose(to), 0);
    return text;
}

static size_t times_in(const char *text, const char *word)
{
    size_t n = 0;
    for (; (text = strstr(text, word)); text += strlen(word))
        n++;
    return n;
}

/* Every pass is a box, as long as it takes; axis and figures are those of the time line. */
static void a_drawing_has_a_box_for_every_pass(void **state)
{
    (void)state;
    struct part_cost parts[MOST_PARTS];
    struct made d = make("zb-h1", 4, 1, 8, 1, alike(1, parts), 0);
    char *text = drawn(&d.s, &d.t, "a <team> & its line");
    assert_int_equal(times_in(text, "<g><title>"), 4 * 3 * 8);
    assert_int_equal(times_in(text, "<g><title>forward"), 4 * 8);
    assert_int_equal(times_in(text, "<g><title>gradients of weights"), 4 * 8);
    assert_int_equal(times_in(text, "a &lt;team&gt; &amp; its line"), 2);
    assert_int_equal(times_in(text, "27 s a round, 11.1 % idle"), 1);
    assert_int_equal(times_in(text, ">11.1 %<"), 4);
    assert_int_equal(times_in(text, ">machine "), 4);
    assert_int_equal(times_in(text, "<g") - times_in(text, "</g"), 0);
    assert_int_equal(times_in(text, "<text") - times_in(text, "</text"), 0);
    assert_int_equal(times_in(text, "\"nan") + times_in(text, "\"-nan") + times_in(text, "inf"), 0);
    /* the first pass of the last member: 3 s to 4 s of 27 on 760 pixels */
    char box[160];
    snprintf(box, sizeof box, "<title>forward, part 3, micro-batch 0: 3 to 4 s</title><rect x=\"%.2f\" y=\"174.0\" width=\"%.2f\"",
             92 + 760 * 3 / 27.0, 760 / 27.0);
    assert_non_null(strstr(text, box));
    free(text);
    release(&d);
}

static void times_are_drawn_in_a_unit_that_fits_them(void **state)
{
    (void)state;
    static const struct {
        double f;
        const char *says, *ticks;
    } cases[] = {{1e-6, "; 3 \xc2\xb5s a round", "0 0.5 1 1.5 2 2.5 3 "},
                 {1e-3, "; 3 ms a round", "0 0.5 1 1.5 2 2.5 3 "},
                 {0.5, "; 1500 ms a round", "0 200 400 600 800 1000 1200 1400 "},
                 {1, "; 3 s a round", "0 0.5 1 1.5 2 2.5 3 "},
                 {200, "; 600 s a round", "0 100 200 300 400 500 600 "},
                 {0, "; 0 \xc2\xb5s a round, 0.0 % idle", "0 "}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct part_cost parts[MOST_PARTS];
        struct made d = make("gpipe", 1, 1, 1, 1, alike(cases[i].f, parts), 0);
        char *text = drawn(&d.s, &d.t, "gpipe");
        if (!strstr(text, cases[i].says))
            fail_msg("'%s' is not in %s", cases[i].says, text);
        assert_int_equal(times_in(text, "nan"), 0);
        char ticks[256] = "";
        for (const char *at = text; (at = strstr(at, "stroke=\"#d9d9d0\"/>"));) {
            at = strchr(strstr(at, "<text"), '>') + 1;
            size_t n = strlen(ticks);
            snprintf(ticks + n, sizeof ticks - n, "%.*s ", (int)strcspn(at, "<"), at);
        }
        assert_string_equal(ticks, cases[i].ticks);
        free(text);
        release(&d);
    }
}

static void a_time_line_that_nobody_could_read_is_not_drawn(void **state)
{
    (void)state;
    struct part_cost parts[MOST_PARTS];
    struct made d = make("gpipe", 4, 1, 2501, 1, alike(1, parts), 0);
    must_fail(timeline_draw(&d.s, &d.t, "long", stderr), "a time line of 20,008 passes is too long to be drawn: 20,000 are the most");
    release(&d);
}

static void what_never_ends_and_what_leads_nowhere_is_refused(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct part_cost parts[MOST_PARTS];
    struct timeline t;
    struct schedule s = written("gpipe", 2, 1, 1, 0, &arena);
    struct transfer_cost transfer = {1, 1, 3};
    struct timeline_needs needs = {.schedule = &s, .parts = alike(1, parts), .transfers = &transfer, .n_transfers = 1, .n_rounds = 1};
    must_fail(timeline_make(&needs, &arena, &t), "a transfer from part 1 to part 1 of 2");
    transfer.to = 2;
    must_fail(timeline_make(&needs, &arena, &t), "a transfer from part 1 to part 2 of 2");
    needs.n_transfers = 0;
    s.first[0].n = 0;
    must_fail(timeline_make(&needs, &arena, &t), "member 1 waits for ever before 1F0");
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_equal_stages_take_what_the_literature_says),
        cmocka_unit_test(a_stage_twice_as_slow_costs_what_the_literature_says),
        cmocka_unit_test(idle_times_of_equal_stages_are_those_of_the_table),
        cmocka_unit_test(unequal_stages_of_gpipe_take_what_the_formula_says),
        cmocka_unit_test(unequal_stages_of_1f1b_take_no_longer_than_the_bounds),
        cmocka_unit_test(without_a_flush_no_equal_stage_waits_after_the_start),
        cmocka_unit_test(a_deep_warm_up_hides_latency),
        cmocka_unit_test(every_end_is_a_longest_path),
        cmocka_unit_test(cards_carry_one_message_at_a_time_in_the_order_in_which_they_are_ready),
        cmocka_unit_test(a_message_takes_its_bytes_over_the_bandwidth_and_the_latency),
        cmocka_unit_test(a_drawing_has_a_box_for_every_pass),
        cmocka_unit_test(times_are_drawn_in_a_unit_that_fits_them),
        cmocka_unit_test(a_time_line_that_nobody_could_read_is_not_drawn),
        cmocka_unit_test(what_never_ends_and_what_leads_nowhere_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
