/* seats.c - lessons, passes and exams take seats, and lists of launches run for them.
 *
 *   learn:    the lessons take seats, as many at once as memory allows; seats and picks are sent over, the
 *             list of launches runs, losses and hits come back; so for every micro-batch, one after the other
 *   pass:     the passes that run the same list of launches take seats together
 *   examine:  the samples are cut into pieces of fixed size; a piece takes a seat
 */
#include <assert.h>

#include "engine/cuda/cuda.h"

static fault seat_rows(struct cuda *c, size_t replica, struct seat *seat)
{
    TRY(store_find(&c->store, ROW_PARAMS, replica, &seat->params));
    TRY(store_find(&c->store, ROW_GRADS, replica, &seat->grads));
    return store_find(&c->store, ROW_STATS, replica, &seat->stats);
}

/* Runs a list of launches for the first n seats and brings back what came of them. */
static fault run_seats(struct cuda *c, struct launches *p, size_t n)
{
    const struct driver *d = &c->device.driver;
    CUstream stream = c->device.stream;
    TRY(CU(d, cuMemcpyHtoDAsync, c->seats, c->seats_host, n * sizeof(struct seat), stream));
    TRY(launches_run(p, n));
    TRY(CU(d, cuMemcpyDtoHAsync, c->outcomes_host, c->memory + p->outcomes_at, n * sizeof(struct outcome),
           stream));
    return device_wait(&c->device);
}

/* The picks of the whole batch: a seat says which of them are its samples. */
static void seat_picks(struct cuda *c, size_t seat, const struct pick *picks)
{
    size_t batch = c->engine.setup.batch;
    for (size_t k = 0; k < batch; k++)
        c->picks_host[seat * batch + k] =
            (struct seat_pick){picks[k].sample, picks[k].flip, picks[k].dy, picks[k].dx, 0};
}

static fault send_picks(struct cuda *c, size_t n)
{
    return CU(&c->device.driver, cuMemcpyHtoDAsync, c->picks, c->picks_host,
              n * c->engine.setup.batch * sizeof(struct seat_pick), c->device.stream);
}

static fault learn_micro(struct cuda *c, struct lesson *lessons, size_t n, size_t micro)
{
    const struct engine_setup *s = &c->engine.setup;
    struct micro at = micro_of(s, micro);
    for (size_t i = 0; i < n; i++) {
        c->seats_host[i] = (struct seat){.seed = lessons[i].seed,
                                         .counted = (uint32_t)at.n,
                                         .first = (uint32_t)at.first,
                                         .adds = micro > 0};
        TRY(seat_rows(c, lessons[i].replica, &c->seats_host[i]));
    }
    TRY(run_seats(c, &c->lists[LIST_LESSON + cuda_micro_size(s, micro)], n));
    for (size_t i = 0; i < n; i++) {
        lessons[i].loss += c->outcomes_host[i].loss / (double)s->batch;
        lessons[i].hits += c->outcomes_host[i].hits;
    }
    return OK;
}

static fault learn_some(struct cuda *c, struct lesson *lessons, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        seat_picks(c, i, lessons[i].picks);
        lessons[i].loss = 0;
        lessons[i].hits = 0;
    }
    TRY(send_picks(c, n));
    for (size_t k = 0; k < micro_batches(&c->engine.setup); k++)
        TRY(learn_micro(c, lessons, n, k));
    return OK;
}

fault cuda_learn_all(struct cuda *c, struct lesson *lessons, size_t n)
{
    TRY(engine_check_lessons(&c->engine));
    size_t most = c->lists[LIST_LESSON].n_seats;
    for (size_t done = 0; done < n; done += most)
        TRY(learn_some(c, lessons + done, smaller(n - done, most)));
    lessons_tell(lessons, n);
    return OK;
}

/* Where a flight's values or gradients lie in a row; NULL where nothing crosses. */
static fault seat_crossing(struct cuda *c, enum row row, const struct pass *pass, float **out)
{
    TRY(store_find(&c->store, row, pass->replica, out));
    if (*out)
        *out += crossing_at(&c->engine.setup, row, pass->flight, 0);
    return OK;
}

static fault seat_pass(struct cuda *c, const struct pass *pass, size_t i)
{
    const struct engine_setup *s = &c->engine.setup;
    struct micro at = micro_of(s, pass->micro);
    struct seat *seat = &c->seats_host[i];
    *seat = (struct seat){.seed = pass->seed,
                          .counted = (uint32_t)at.n,
                          .first = (uint32_t)at.first,
                          .adds = pass->adds,
                          .shelf = (uint32_t)(pass->replica * s->flights + pass->flight)};
    TRY(seat_rows(c, pass->replica, seat));
    TRY(seat_crossing(c, ROW_INPUTS, pass, &seat->inputs));
    TRY(seat_crossing(c, ROW_OUTPUTS, pass, &seat->outputs));
    TRY(seat_crossing(c, ROW_OUTPUT_GRADS, pass, &seat->output_grads));
    TRY(seat_crossing(c, ROW_INPUT_GRADS, pass, &seat->input_grads));
    return OK;
}

/* The passes of a list among [*at, n), as many as have seats; *at is then behind the last of them. */
static fault pass_some(struct cuda *c, int list, struct pass *passes, size_t n, size_t *at)
{
    const struct engine_setup *s = &c->engine.setup;
    struct launches *p = &c->lists[list];
    size_t first = *at, n_seated = 0;
    bool gathers = launches_gather(p), has_loss = p->pass == PASS_FORWARD && graph_has_loss(s->graph);
    for (; *at < n && n_seated < p->n_seats; ++*at) {
        if (cuda_pass_list(s, passes[*at].kind, passes[*at].micro) != list)
            continue;
        if (gathers)
            seat_picks(c, n_seated, passes[*at].picks);
        TRY(seat_pass(c, &passes[*at], n_seated++));
    }
    if (n_seated == 0)
        return OK;
    if (gathers)
        TRY(send_picks(c, n_seated));
    TRY(run_seats(c, p, n_seated));
    for (size_t i = first, seat = 0; i < *at; i++) {
        if (cuda_pass_list(s, passes[i].kind, passes[i].micro) != list)
            continue;
        passes[i].loss = has_loss ? c->outcomes_host[seat].loss / (double)s->batch : 0;
        passes[i].hits = has_loss ? c->outcomes_host[seat].hits : 0;
        seat++;
    }
    return OK;
}

fault cuda_pass_all(struct cuda *c, struct pass *passes, size_t n)
{
    TRY(engine_check_passes(&c->engine, passes, n));
    for (int list = LIST_PASS; list < N_LISTS; list++)
        for (size_t at = 0; c->lists[list].device && at < n;)
            TRY(pass_some(c, list, passes, n, &at));
    return OK;
}

/* The pieces of all exams one after the other, counted through: which exam the next belongs to, and its
 * first. */
struct exam_cursor {
    size_t exam, done;
};

static fault seat_pieces(struct cuda *c, struct exam *exams, size_t n, struct exam_cursor *at,
                         size_t *n_seated)
{
    *n_seated = 0;
    while (at->exam < n && *n_seated < c->lists[LIST_EXAM].n_seats) {
        struct exam *x = &exams[at->exam];
        struct seat *seat = &c->seats_host[*n_seated];
        if (at->done >= x->n) {
            *at = (struct exam_cursor){at->exam + 1, 0};
            continue;
        }
        *seat = (struct seat){.counted = (uint32_t)smaller(EXAM_BATCH, x->n - at->done),
                              .source = !x->on_train,
                              .first = (uint32_t)(x->first + at->done)};
        TRY(seat_rows(c, x->replica, seat));
        at->done += seat->counted;
        ++*n_seated;
    }
    return OK;
}

/* Adds what the seats found to their exams, in the order in which they were seated. */
static void collect_pieces(const struct cuda *c, struct exam *exams, struct exam_cursor at, size_t n_seated)
{
    for (size_t i = 0; i < n_seated; i++) {
        while (at.done >= exams[at.exam].n)
            at = (struct exam_cursor){at.exam + 1, 0};
        exams[at.exam].loss += c->outcomes_host[i].loss;
        exams[at.exam].hits += c->outcomes_host[i].hits;
        at.done += c->seats_host[i].counted;
    }
}

fault cuda_examine_all(struct cuda *c, struct exam *exams, size_t n)
{
    struct exam_cursor at = {0, 0};
    TRY(engine_check_exams(&c->engine));
    for (size_t i = 0; i < n; i++) {
        const struct samples *s = exams[i].on_train ? c->engine.setup.train : c->engine.setup.test;
        assert(s && exams[i].first + exams[i].n <= s->n);
        (void)s;
        exams[i].loss = 0;
        exams[i].hits = 0;
    }
    while (at.exam < n) {
        struct exam_cursor before = at;
        size_t n_seated;
        TRY(seat_pieces(c, exams, n, &at, &n_seated));
        if (!n_seated)
            break;
        TRY(run_seats(c, &c->lists[LIST_EXAM], n_seated));
        collect_pieces(c, exams, before, n_seated);
    }
    for (size_t i = 0; i < n; i++)
        exams[i].loss = exams[i].n ? exams[i].loss / (double)exams[i].n : 0;
    return OK;
}
