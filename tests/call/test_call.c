/* Calls by themselves, in random worlds of callers, services and standbys, slow and thin wires, stalls, deaths,
 * returns and cuts. Whatever happens: every call ends within its bound, with an answer or with the name of the
 * service that is lost; nothing is applied twice; what was answered was applied; rows and numbers tell the same.
 *
 *   test_call [WORLDS [FIRST]]    other worlds than those of the suite: so many, from this seed on */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "call/letter.h"
#include "call/service.h"
#include "support/cast.h"
#include "support/trouble.h"

enum { SERVICES = 3, MOST_CALLERS = 6, QUESTIONS = 12, MOST_STEPS = 400000 };

/* A service keeps which questions it has applied, a bit for each of a caller's, and the sum of their rows. */
struct letter {
    struct call_head head; /* what: HAS_ROWS */
    uint64_t id;           /* asked: of the caller's questions; answered: the same */
    uint64_t applied[MOST_CALLERS];
};
enum { HAS_ROWS = 1 };

struct books {
    size_t n_callers;
    bool is_alone[SERVICES];           /* it has no standby */
    bool answers_rows_alone[SERVICES]; /* it has no letter to say */
    bool is_mute[SERVICES];            /* it lives, and answers nothing */
    struct asker {
        struct caller caller;
        struct call_line lines[SERVICES];
        struct letter questions[SERVICES];
        uint64_t next;     /* question */
        uint64_t had_rows; /* a bit for each */
    } askers[MOST_CALLERS];
    struct server {
        struct service service;
        uint64_t id[MOST_CALLERS], applied[MOST_CALLERS]; /* last question; all that are applied */
        uint64_t heard;                                   /* letters */
        bool is_back;
    } servers[2 * SERVICES];
    uint64_t answered, given_up, repeated, copied, taken_over;
};

static struct books *books_of(const struct agent *a)
{
    return cast_of_agent(a)->ctx;
}

static double patience_of(const struct agent *a)
{
    return a->stage->experiment->network.patience_s;
}

/* A random number of this member, about this. */
static uint64_t draw(const struct agent *a, uint64_t about, uint64_t n)
{
    struct rng r = rng_stream(a->stage->seed, (uint32_t)a->index, RNG_TEST, 100 + about);
    return rng_below(&r, n);
}

/* ---- a caller ---- */

static void open_lines(const struct agent *a, struct asker *k)
{
    const struct books *b = books_of(a);
    k->caller.link = a->link;
    k->caller.patience_s = patience_of(a);
    k->caller.name = "agent";
    for (size_t s = 0; s < SERVICES && !k->lines[s].service; s++) {
        size_t first = a->stage->n_agents + s, other = b->is_alone[s] ? first : first + SERVICES;
        k->lines[s] =
            b->answers_rows_alone[s]
                ? call_line_to("server", first)
                : call_line_to_pair("server", first, other, sizeof(struct letter), sizeof(struct letter));
        k->lines[s].question_bytes = sizeof(struct letter);
    }
}

static fault begin(struct agent *a, struct asker *k, size_t s)
{
    bool has_rows = books_of(a)->answers_rows_alone[s] || draw(a, k->next, 2);
    k->had_rows |= (uint64_t)has_rows << k->next;
    k->questions[s] = (struct letter){.head.what = has_rows ? HAS_ROWS : 0, .id = k->next++};
    return call_begin(&k->caller, &k->lines[s], &k->questions[s].head, whole(has_rows ? ROWS_PARAMS : 0));
}

/* An answer to the question, or a fault that names the service; in time. */
static fault end(struct agent *a, struct asker *k, size_t s)
{
    struct books *b = books_of(a);
    struct call_line *line = &k->lines[s];
    struct letter answer = {0};
    double since = link_now_s(a->link);
    fault f = call_end(line, b->answers_rows_alone[s] ? NULL : &answer.head, &a->parcels[0]);
    if (f && !is_about_peers(f))
        return f;
    assert_true(link_now_s(a->link) - since <= (line->silent + line->lost + 2) * patience_of(a) * (1 + 1e-9));
    if (f) {
        char *name = text_of("agent %zu has lost server %zu", a->index, line->asked);
        assert_non_null(strstr(fault_text(f), name));
        assert_null(a->parcels[0].rows);
        assert_int_equal(line->state, CALL_GIVEN_UP);
        free(name);
    } else {
        assert_true(line->state == CALL_ANSWERED && (answer.id == k->questions[s].id || !line->answer_bytes));
        assert_true(a->parcels[0].rows || line->answer_bytes);
    }
    b->answered += !f;
    b->given_up += f != NULL;
    link_drop(a->link, &a->parcels[0]);
    return forgive(f);
}

static fault ask(struct agent *a)
{
    struct asker *k = &books_of(a)->askers[a->index];
    open_lines(a, k);
    while (k->next < QUESTIONS) {
        size_t s = draw(a, 1000 + k->next, SERVICES), t = (s + 1) % SERVICES;
        bool asks_two = k->next + 1 < QUESTIONS && draw(a, 2000 + k->next, 3) == 0;
        TRY(link_sleep(a->link, 1e-4 * (double)draw(a, 3000 + k->next, 30)));
        TRY(begin(a, k, s));
        if (asks_two)
            TRY(begin(a, k, t));
        if (draw(a, 4000 + k->next, 2))
            TRY(link_sleep(a->link, 1e-3));
        TRY(end(a, k, s));
        if (asks_two)
            TRY(end(a, k, t));
    }
    for (size_t s = 0; s < SERVICES; s++)
        call_leave(&k->caller, &k->lines[s], &k->questions[s].head);
    return OK;
}

/* ---- a service ---- */

static struct parcel *came(struct agent *a)
{
    return &a->parcels[a->stage->n_members];
}

static fault add(struct agent *a, double old, struct parcel *p)
{
    struct term sum[] = {{old, ROW_PARAMS, NULL, 0}, {1, ROW_PARAMS, p, 0}};
    fault f = link_mix(a->link, ROW_PARAMS, 0, TO_END, sum, 2);
    link_drop(a->link, p);
    return f;
}

static fault copy(struct agent *a, struct server *s)
{
    struct letter x = {0};
    memcpy(x.applied, s->applied, sizeof x.applied);
    books_of(a)->copied++;
    return service_copy(&s->service, &x.head, whole(ROWS_PARAMS));
}

static fault apply(struct agent *a, struct server *s, size_t who)
{
    uint64_t bit = 1ull << s->id[who];
    assert_false(s->applied[who] & bit); /* twice */
    s->applied[who] |= bit;
    if (a->parcels[who].rows)
        TRY(add(a, 1, &a->parcels[who]));
    service_applied(&s->service, who);
    return copy(a, s);
}

static fault answer(struct server *s, size_t who, bool in_rows)
{
    struct letter x = {.id = s->id[who]};
    assert_true(s->applied[who] >> s->id[who] & 1);
    return service_answer(&s->service, who, in_rows ? NULL : &x.head,
                          whole(in_rows || s->heard % 2 ? ROWS_PARAMS : 0));
}

/* A question without rows is applied when it is heard; the others, and the answers, sooner or later. */
static fault hear(struct agent *a, struct server *s, const struct arrival *x)
{
    const struct letter *letter = x->letter;
    struct books *b = books_of(a);
    b->taken_over += x->takes_over;
    b->repeated += x->what == ARRIVED_REPEAT;
    for (size_t i = 0; x->yields && i < b->n_callers; i++)
        link_drop(a->link, &a->parcels[i]);
    if (x->what == ARRIVED_COPY) {
        TRY(add(a, 0, came(a)));
        memcpy(s->applied, letter->applied, sizeof s->applied);
    }
    if (!arrival_asks(x))
        return OK;
    s->id[x->who] = letter->id;
    if (x->what == ARRIVED_REPEAT)
        return OK;
    assert_true(!(letter->head.what & HAS_ROWS) == !came(a)->rows);
    link_drop(a->link, &a->parcels[x->who]);
    a->parcels[x->who] = *came(a);
    came(a)->rows = NULL;
    return s->service.visitors[x->who].pending ? OK : apply(a, s, x->who);
}

static fault go_on(struct agent *a, struct server *s, bool in_rows)
{
    for (size_t i = 0; i < books_of(a)->n_callers; i++) {
        struct visitor *v = &s->service.visitors[i];
        bool now = in_rows || draw(a, 10000 + 10 * s->heard + i, 3);
        if (v->pending && now)
            TRY(apply(a, s, i));
        if (v->waits && !v->pending && now)
            TRY(answer(s, i, in_rows));
    }
    return OK;
}

static void open_service(struct agent *a, struct server *s, size_t which)
{
    const struct books *b = books_of(a);
    size_t other = a->index < a->stage->n_agents + SERVICES ? a->index + SERVICES : a->index - SERVICES;
    if (!s->service.visitors) {
        must(service_init(&s->service, a->index, b->n_callers, b->n_callers, sizeof(struct letter),
                          b->answers_rows_alone[which] ? 0 : sizeof(struct letter)));
        s->service.leads = a->index < a->stage->n_agents + SERVICES;
        if (!b->is_alone[which])
            s->service.other = other;
    }
    s->service.link = a->link;
    s->service.patience_s = patience_of(a);
    if (s->is_back)
        service_return(&s->service);
    s->is_back = false;
}

static fault serve(struct agent *a)
{
    struct books *b = books_of(a);
    size_t which = (a->index - a->stage->n_agents) % SERVICES;
    struct server *s = &b->servers[a->index - a->stage->n_agents];
    open_service(a, s, which);
    while (service_is_needed(&s->service) && (!b->is_alone[which] || s->service.leads)) {
        struct arrival x;
        TRY(service_hear(&s->service, ANYONE, came(a), &x));
        s->heard++;
        TRY(hear(a, s, &x));
        service_look_who_is_gone(&s->service);
        if (s->service.leads && !b->is_mute[which])
            TRY(go_on(a, s, b->answers_rows_alone[which]));
    }
    return OK;
}

/* ---- worlds ---- */

static fault live(struct agent *a)
{
    return agent_helps(a) ? serve(a) : ask(a);
}

static fault come_back(struct agent *a)
{
    if (agent_helps(a))
        books_of(a)->servers[a->index - a->stage->n_agents].is_back = true;
    return OK;
}

static char *random_event(struct rng *r, uint64_t n)
{
    static const char *const alone[] = {"crash", "stall"}, *const pairs[] = {"cut", "cut", "mend"};
    double at_s = 0.06 * rng_uniform(r), later_s = at_s + 0.03 * rng_uniform(r);
    int who = (int)rng_below(r, n), other = (who + 1 + (int)rng_below(r, n - 1)) % (int)n;
    switch (rng_below(r, 8)) {
    case 0:
    case 1:
        return text_of("  - {at_s: %g, %s: %d}\n", at_s, alone[rng_below(r, 2)], who);
    case 2:
    case 3:
        return text_of("  - {at_s: %g, crash: %d}\n  - {at_s: %g, return: %d}\n", at_s, who, later_s, who);
    case 4:
    case 5:
        return text_of("  - {at_s: %g, %s: [%d, %d]}\n", at_s, pairs[rng_below(r, 3)], who, other);
    case 6:
        return text_of("  - {at_s: %g, partition: [[%d, %d]]}\n", at_s, who, other);
    default:
        return text_of("  - {at_s: %g, heal: all}\n", at_s);
    }
}

static char *random_text(struct rng *r, bool is_calm)
{
    static const char *const networks[] = {
        "latency_ms: 0.3, patience_s: 0.01",
        "latency_ms: 0.2, patience_s: 0.006, notice_s: 0.003",
        "latency_ms: 1, bandwidth_mbps: 4, patience_s: 0.02",
        "bandwidth_mbps: 1.5, patience_s: 0.02",
        "patience_s: 0.01",
    };
    uint64_t n = 1 + rng_below(r, MOST_CALLERS);
    char *text = text_of(
        "data: {set: {kind: blobs, classes: 2, features: 16, samples: 60, test_samples: 10}, batch: 1}\n"
        "model: logistic\noptim: {kind: sgd, lr: 0.1}\nengine: {kind: ref, threads: 1}\n"
        "strategy: {kind: ps, servers: %d, replicate_every: 1}\nagents: %d\nnetwork: {%s}\n"
        "events:\n  - {at_s: 0.5, heal: all}\n",
        SERVICES, (int)n, networks[rng_below(r, 5)]);
    for (size_t i = is_calm ? 0 : rng_below(r, 9); i-- > 0;) {
        char *event = random_event(r, n + 2 * SERVICES), *longer = text_of("%s%s", text, event);
        free(text);
        free(event);
        text = longer;
    }
    return text;
}

static fault no_end_in_sight(void *ctx)
{
    struct cast *g = ctx;
    return local_steps(g->world) < MOST_STEPS ? OK : FAIL(FAULT_USAGE, "this world goes on for ever");
}

static void fill_rows(struct cast *g)
{
    float *row = calloc(g->size, sizeof *row);
    assert_non_null(row);
    for (size_t i = 0; i < 2 * SERVICES; i++)
        must(g->run->engine->ops->write(g->run->engine, ROW_PARAMS, g->n + i, row));
    for (size_t j = 0; j < g->size; j++)
        row[j] = 1;
    for (size_t i = 0; i < g->n; i++)
        cast_write(g, i, row);
    free(row);
}

/* The rows of a service are the sum of as many as its numbers say. */
static void rows_say_what_numbers_say(struct cast *g, const struct books *b)
{
    float *row = calloc(g->size, sizeof *row);
    assert_non_null(row);
    must(local_settle(g->world));
    for (size_t i = 0; i < 2 * SERVICES; i++) {
        int sum = 0;
        for (size_t c = 0; c < b->n_callers; c++)
            for (uint64_t id = 0; id < QUESTIONS; id++)
                sum += b->servers[i].applied[c] & b->askers[c].had_rows & 1ull << id ? 1 : 0;
        must(g->run->engine->ops->read(g->run->engine, ROW_PARAMS, g->n + i, row));
        for (size_t j = 0; j < g->size; j++)
            assert_true(row[j] == (float)sum);
    }
    free(row);
}

struct history { /* over all worlds: that the chaos was one, and that most went well */
    uint64_t worlds, answered, given_up, repeated, copied, taken_over, all_down;
};

static void play(unsigned seed, struct history *h, void **state)
{
    struct rng r = rng_stream(seed, 0, RNG_TEST, 21);
    bool is_calm = rng_below(&r, 10) == 0;
    char *text = *state = random_text(&r, is_calm);
    struct books *b = calloc(1, sizeof *b);
    struct cast g;
    assert_non_null(b);
    cast_serve(&g, text, seed, live, come_back);
    g.ctx = b;
    g.world->watcher.ctx = &g;
    g.world->watcher.moment = no_end_in_sight;
    b->n_callers = g.n;
    for (size_t s = 0; s < SERVICES; s++) {
        b->answers_rows_alone[s] = rng_below(&r, 4) == 0;
        b->is_alone[s] = b->answers_rows_alone[s] || rng_below(&r, 3) == 0;
        b->is_mute[s] = !is_calm && rng_below(&r, 15) == 0;
    }
    fill_rows(&g);
    fault f = cast_go(&g);
    h->all_down += f != NULL;
    if (f)
        must_fail(f, "agents are down, and none came to its end");
    assert_true(!is_calm || (b->given_up == 0 && b->taken_over == 0 && b->answered == QUESTIONS * g.n));
    rows_say_what_numbers_say(&g, b);
    no_message_was_lost_or_doubled(&g);
    h->worlds++;
    h->answered += b->answered;
    h->given_up += b->given_up;
    h->repeated += b->repeated;
    h->copied += b->copied;
    h->taken_over += b->taken_over;
    for (size_t i = 0; i < 2 * SERVICES; i++)
        service_release(&b->servers[i].service);
    cast_close(&g);
    free(b);
    free(text);
    *state = NULL;
}

static unsigned n_worlds = 10000, first_world;

static void every_call_is_answered_or_given_up_by_name_and_applied_once(void **state)
{
    struct history h = {0};
    for (unsigned i = 0; i < n_worlds; i++)
        play(first_world + i, &h, state);
    print_message(
        "%llu worlds: %llu calls answered, %llu given up, %llu repeats, %llu copies, %llu takeovers\n",
        (unsigned long long)h.worlds, (unsigned long long)h.answered, (unsigned long long)h.given_up,
        (unsigned long long)h.repeated, (unsigned long long)h.copied, (unsigned long long)h.taken_over);
    assert_true(h.answered > 20 * h.worlds && h.copied > 10 * h.worlds);
    assert_true(h.worlds < 100 ||
                (h.given_up > h.worlds && h.repeated > h.worlds / 4 && h.taken_over > h.worlds / 10));
}

/* ---- letters by themselves ---- */

struct pipe { /* keeps what was sent last, and gives it to whoever waits for anything */
    struct link link;
    unsigned char bytes[sizeof(struct letter)];
    size_t n;
};

static fault keep(struct link *l, size_t to, uint64_t tag, const void *bytes, size_t n)
{
    struct pipe *w = (struct pipe *)l;
    (void)to, (void)tag;
    memcpy(w->bytes, bytes, n);
    w->n = n;
    return OK;
}

enum { WRITER = 7, READER = 3 };

static fault give(struct link *l, size_t from, uint64_t tag, void *bytes, size_t n, size_t *sender)
{
    const struct pipe *w = (struct pipe *)l;
    (void)from, (void)tag;
    assert_int_equal(n, w->n);
    memcpy(bytes, w->bytes, n);
    *sender = WRITER;
    return OK;
}

static const struct link_ops pipe_ops = {.send = keep, .recv = give};

static const struct letter some_letter = {
    .head = {.number = 0x0102030405060708, .kind = CALL_END | CALL_ROWS, .what = 0x11121314},
    .id = 0x2122232425262728,
    .applied = {1, UINT64_MAX}};

static void letters_are_numbers_in_one_order_on_every_machine(void **state)
{
    static const unsigned char expected[] = {
        8,    7,    6,    5,    4,    3,    2,    1, 1, 1, 0, 0, 0x14, 0x13, 0x12, 0x11, 0x28,
        0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, 1, 0, 0, 0, 0, 0,    0,    0,    0xff};
    struct pipe w = {.link = {.ops = &pipe_ops, .self = READER}};
    struct letter sent = some_letter, read;
    size_t who;
    (void)state;
    must(call_send_letter(&w.link, READER, CALL_ASK, &sent.head, sizeof sent));
    assert_int_equal(w.n, sizeof sent);
    assert_memory_equal(w.bytes, expected, sizeof expected);
    assert_memory_equal(&sent, &some_letter, sizeof sent);
    must(call_recv_letter(&w.link, ANYONE, CALL_ASK, &read.head, sizeof read, &who));
    assert_memory_equal(&read, &some_letter, sizeof read);
    assert_int_equal(who, WRITER);
}

static void what_is_no_letter_is_refused_with_its_senders_name(void **state)
{
    struct pipe w = {.link = {.ops = &pipe_ops, .self = READER}};
    struct letter sent = some_letter, read;
    (void)state;
    for (unsigned bit = 0; bit < 32; bit++) {
        sent.head.kind = 1u << bit;
        must(call_send_letter(&w.link, READER, CALL_ASK, &sent.head, sizeof sent));
        fault f = call_recv_letter(&w.link, ANYONE, CALL_ASK, &read.head, sizeof read, NULL);
        if (1u << bit <= CALL_END)
            must(f);
        else
            must_fail(f, "member 7 sent member 3 a letter that says what cannot be");
    }
}

/* A caller cannot say who of a pair leads, nor a stranger call. */
static void a_service_refuses_what_is_not_its_senders_to_say(void **state)
{
    static const struct {
        uint32_t kind;
        size_t n, other;
    } cases[] = {{CALL_LEADS, 8, READER}, {CALL_LEADS | CALL_ROWS, 8, 2},
                 {CALL_YIELD, 8, 2},      {CALL_ROWS, 7, 2},
                 {CALL_LEAVE, 7, 2},      {CALL_END | CALL_LEAVE, 7, 2}};
    struct pipe w = {.link = {.ops = &pipe_ops, .self = READER}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct letter sent = {.head.kind = cases[i].kind};
        struct service s;
        struct parcel none = {0};
        struct arrival x;
        must(service_init(&s, READER, cases[i].n, cases[i].n, sizeof sent, sizeof sent));
        s.link = &w.link;
        s.other = cases[i].other;
        must(call_send_letter(&w.link, READER, CALL_ASK, &sent.head, sizeof sent));
        must_fail(service_hear(&s, ANYONE, &none, &x), "member 7 sent member 3 a letter");
        assert_true(s.leads && !s.is_over);
        service_release(&s);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_call_is_answered_or_given_up_by_name_and_applied_once,
                                  show_the_world_that_failed),
        cmocka_unit_test(letters_are_numbers_in_one_order_on_every_machine),
        cmocka_unit_test(what_is_no_letter_is_refused_with_its_senders_name),
        cmocka_unit_test(a_service_refuses_what_is_not_its_senders_to_say),
    };
    if (argc > 1)
        n_worlds = (unsigned)strtoul(argv[1], NULL, 10);
    if (argc > 2)
        first_world = (unsigned)strtoul(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
