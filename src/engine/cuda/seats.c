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

/* Runs a list of launches for the first n seats and brings back what came of them. Meanwhile what they will want next is sent, if
 * asked. */
static fault run_seats(struct cuda *c, struct launches *p, size_t n, bool looks_ahead)
{
    const struct driver *d = &c->device.driver;
    CUstream stream = c->device.stream;
    TRY(CU(d, cuMemcpyHtoDAsync, c->seats, c->seats_host, n * sizeof(struct seat), stream));
    TRY(launches_run(p, n));
    TRY(CU(d, cuMemcpyDtoHAsync, c->outcomes_host, c->memory + p->outcomes_at, n * sizeof(struct outcome),
           stream));
    if (looks_ahead)
        TRY(tray_look_ahead(&c->tray, c->engine.setup.batch));
    return device_wait(&c->device);
}

/* Those picks of a batch that are going to be computed: a seat says which. A pick names a sample of the set or, where these are
 * streamed, its place in the tray. */
static fault seat_picks(struct cuda *c, size_t seat, const struct pick *picks, struct micro at)
{
    const struct engine_setup *s = &c->engine.setup;
    struct seat_pick *to = c->picks_host + seat * s->batch;
    bool is_streamed = tray_is_open(&c->tray);
    size_t place = 0;
    if (is_streamed && graph_reads_samples(s->graph))
        TRY(tray_seat(&c->tray, picks + at.first, at.n, seat, &place));
    else if (is_streamed)
        tray_seat_labels(&c->tray, picks + at.first, at.n, seat, &place);
    for (size_t k = at.first; k < at.first + at.n; k++) {
        uint32_t sample = is_streamed ? (uint32_t)(place + k - at.first) : picks[k].sample;
        to[k] = (struct seat_pick){sample, picks[k].flip, picks[k].dy, picks[k].dx, 0};
    }
    return OK;
}

static fault send_picks(struct cuda *c, size_t n)
{
    if (tray_is_open(&c->tray))
        TRY(tray_send(&c->tray, false));
    return CU(&c->device.driver, cuMemcpyHtoDAsync, c->picks, c->picks_host,
              n * c->engine.setup.batch * sizeof(struct seat_pick), c->device.stream);
}

static fault learn_micro(struct cuda *c, struct lesson *lessons, size_t n, size_t micro, bool looks_ahead)
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
    TRY(run_seats(c, &c->lists[LIST_LESSON + cuda_micro_size(s, micro)], n, looks_ahead));
    for (size_t i = 0; i < n; i++) {
        lessons[i].loss += c->outcomes_host[i].loss / (double)s->batch;
        lessons[i].hits += c->outcomes_host[i].hits;
    }
    return OK;
}

/* The whole batches are seated. What comes next has the time of the first micro-batch for its way. */
static fault learn_seated(struct cuda *c, struct lesson *lessons, size_t n, bool looks_ahead)
{
    const struct engine_setup *s = &c->engine.setup;
    for (size_t i = 0; i < n; i++)
        TRY(seat_picks(c, i, lessons[i].picks, (struct micro){0, s->batch}));
    TRY(send_picks(c, n));
    for (size_t k = 0; k < micro_batches(s); k++)
        TRY(learn_micro(c, lessons, n, k, looks_ahead && k == 0));
    return OK;
}

static fault learn_some(struct cuda *c, struct lesson *lessons, size_t n, bool looks_ahead)
{
    for (size_t i = 0; i < n; i++) {
        lessons[i].loss = 0;
        lessons[i].hits = 0;
    }
    fault f = learn_seated(c, lessons, n, looks_ahead);
    return tray_is_open(&c->tray) ? tray_clear(&c->tray, false, f) : f;
}

fault cuda_learn_all(struct cuda *c, struct lesson *lessons, size_t n)
{
    TRY(engine_check_lessons(&c->engine));
    size_t most = c->lists[LIST_LESSON].n_seats;
    bool looks_ahead = tray_is_open(&c->tray) && n <= most;
    for (size_t done = 0; done < n; done += most)
        TRY(learn_some(c, lessons + done, smaller(n - done, most), looks_ahead));
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
                          .shelf = c->shelf_bytes * (pass->replica * s->flights + pass->flight)};
    TRY(seat_rows(c, pass->replica, seat));
    TRY(seat_crossing(c, ROW_INPUTS, pass, &seat->inputs));
    TRY(seat_crossing(c, ROW_OUTPUTS, pass, &seat->outputs));
    TRY(seat_crossing(c, ROW_OUTPUT_GRADS, pass, &seat->output_grads));
    TRY(seat_crossing(c, ROW_INPUT_GRADS, pass, &seat->input_grads));
    return OK;
}

/* The passes of a list among [*at, n) take seats while there are some; *at is then behind the last of them. */
static fault seat_passes(struct cuda *c, int list, const struct pass *passes, size_t n, size_t *at,
                         size_t *n_seated)
{
    const struct launches *p = &c->lists[list];
    bool gathers = launches_gather(p);
    for (*n_seated = 0; *at < n && *n_seated < p->n_seats; ++*at) {
        const struct pass *pass = &passes[*at];
        if (cuda_pass_list(&c->engine.setup, pass->kind, pass->micro) != list)
            continue;
        if (gathers)
            TRY(seat_picks(c, *n_seated, pass->picks, micro_of(&c->engine.setup, pass->micro)));
        TRY(seat_pass(c, pass, (*n_seated)++));
    }
    return gathers && *n_seated ? send_picks(c, *n_seated) : OK;
}

static fault pass_some(struct cuda *c, int list, struct pass *passes, size_t n, size_t *at)
{
    const struct engine_setup *s = &c->engine.setup;
    struct launches *p = &c->lists[list];
    size_t first = *at, n_seated;
    bool has_loss = p->pass == PASS_FORWARD && graph_has_loss(s->graph);
    fault f = seat_passes(c, list, passes, n, at, &n_seated);
    if (!f && n_seated)
        f = run_seats(c, p, n_seated, false);
    TRY(tray_is_open(&c->tray) && launches_gather(p) ? tray_clear(&c->tray, false, f) : f);
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

/* The pieces of all exams, counted through: the first of every exam, then the second of every exam, ..., so that exams on the same
 * samples want them at the same time. */
struct exam_cursor {
    size_t done, exam, longest;
};

/* The exam whose piece is next, and how much of it was done before; NULL: all are through. */
static struct exam *next_piece(struct exam *exams, size_t n, struct exam_cursor *at, size_t *done)
{
    for (; at->done < at->longest; at->done += EXAM_BATCH, at->exam = 0)
        while (at->exam < n) {
            struct exam *x = &exams[at->exam++];
            *done = at->done;
            if (at->done < x->n)
                return x;
        }
    return NULL;
}

static const struct samples *samples_of(const struct cuda *c, const struct exam *x)
{
    return x->on_train ? c->engine.setup.train : c->engine.setup.test;
}

/* Of streamed samples the piece lies in the tray, once for all exams that want it. */
static fault seat_piece(struct cuda *c, const struct exam *x, size_t done, size_t i)
{
    struct seat *seat = &c->seats_host[i];
    size_t first = x->first + done, n = smaller(EXAM_BATCH, x->n - done), place = first;
    bool is_first = i == 0 || c->piece.first != first || c->piece.n != n || c->piece.of != samples_of(c, x);
    if (tray_is_open(&c->tray) && is_first)
        TRY(tray_piece(&c->tray, samples_of(c, x), first, n, i, &place));
    else if (tray_is_open(&c->tray))
        place = c->seats_host[i - 1].first;
    c->piece.of = samples_of(c, x);
    c->piece.first = first;
    c->piece.n = n;
    *seat = (struct seat){.counted = (uint32_t)n, .source = !x->on_train, .first = (uint32_t)place};
    return seat_rows(c, x->replica, seat);
}

static fault seat_pieces(struct cuda *c, struct exam *exams, size_t n, struct exam_cursor *at,
                         size_t *n_seated)
{
    size_t done;
    *n_seated = 0;
    for (struct exam *x; *n_seated < c->lists[LIST_EXAM].n_seats && (x = next_piece(exams, n, at, &done));)
        TRY(seat_piece(c, x, done, (*n_seated)++));
    return tray_is_open(&c->tray) ? tray_send(&c->tray, true) : OK;
}

/* Adds what the seats found to their exams, in the order in which they were seated. */
static void collect_pieces(const struct cuda *c, struct exam *exams, size_t n, struct exam_cursor at,
                           size_t n_seated)
{
    size_t done;
    for (size_t i = 0; i < n_seated; i++) {
        struct exam *x = next_piece(exams, n, &at, &done);
        x->loss += c->outcomes_host[i].loss;
        x->hits += c->outcomes_host[i].hits;
    }
}

static fault examine_some(struct cuda *c, struct exam *exams, size_t n, struct exam_cursor *at,
                          size_t *n_seated)
{
    struct exam_cursor before = *at;
    fault f = seat_pieces(c, exams, n, at, n_seated);
    if (!f && *n_seated)
        f = run_seats(c, &c->lists[LIST_EXAM], *n_seated, false);
    TRY(tray_is_open(&c->tray) ? tray_clear(&c->tray, true, f) : f);
    collect_pieces(c, exams, n, before, *n_seated);
    return OK;
}

static bool is_of_same(const struct exam *a, const struct exam *b)
{
    return a->on_train == b->on_train && a->first == b->first && a->n == b->n;
}

fault cuda_examine_all(struct cuda *c, struct exam *exams, size_t n)
{
    struct exam_cursor at = {0, 0, 0};
    TRY(engine_check_exams(&c->engine));
    for (size_t i = 0; i < n; i++) {
        const struct samples *s = samples_of(c, &exams[i]);
        assert(s && exams[i].first + exams[i].n <= s->n);
        if (i == 0 || !is_of_same(&exams[i], &exams[i - 1]))
            samples_expect(s, exams[i].first, exams[i].n, EXAM_BATCH);
        exams[i].loss = 0;
        exams[i].hits = 0;
        at.longest = larger(at.longest, exams[i].n);
    }
    for (size_t n_seated = 1; n_seated;)
        TRY(examine_some(c, exams, n, &at, &n_seated));
    for (size_t i = 0; i < n; i++)
        exams[i].loss = exams[i].n ? exams[i].loss / (double)exams[i].n : 0;
    return OK;
}
