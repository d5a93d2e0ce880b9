/* save.c - the state of a run as named tensors and a few numbers, and back.
 *
 * A checkpoint holds the rows - for every agent parameters, running statistics, the optimiser's slots, a
 * gradient not yet used; and rows under way between agents - and the number of steps the world had taken.
 * Everything else (who is in which round, what is under way, when it will arrive) follows from the
 * experiment: on resume the world lives through those steps again without computing, and then gets its
 * numbers back. What does not follow is what members were told when they asked for a number (link_number): the
 * journal of each is in the checkpoint, and the replay reads it.
 */
#include "api/session.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* ---- tensors ---- */

/* A list of tensors, each with the row of the engine it comes from. */
struct inventory {
    struct named_floats *tensors; /* in the run's arena */
    struct piece {
        enum row row;
        size_t replica;
        float *floats; /* where the whole row lies in the image */
    } * pieces;
    size_t n_tensors, n_pieces, tensor_room, piece_room;
    float *next; /* in the image */
};

struct row_text session_row_head(const struct veche_run *r, enum row row)
{
    struct row_text head = {""};
    const char *name = row_name(&r->engine->setup, row);
    if (row == ROW_GRADS)
        snprintf(head.text, sizeof head.text, "%s.", name);
    else if (row >= ROW_SLOT)
        snprintf(head.text, sizeof head.text, "%s.%s.", row < ROW_KEPT ? "optimizer" : "strategy", name);
    return head;
}

/* One tensor for each parameter of a row, under PyTorch's names. */
static void list_by_name(struct veche_run *r, struct inventory *v, enum row row, size_t agent, float *floats)
{
    const struct graph *g = r->graph;
    bool stats = r->engine->setup.rows.of[row].like == LIKE_STATS;
    const struct param *params = stats ? g->stats : g->params;
    for (size_t i = 0; i < (stats ? g->n_stats : g->n_params); i++) {
        struct named_floats *t = &v->tensors[v->n_tensors++];
        t->name =
            arena_printf(&r->arena, "agent%zu.%s%s", agent, session_row_head(r, row).text, params[i].name);
        t->n_dims = params[i].n_dims;
        memcpy(t->dims, params[i].dims, sizeof t->dims);
        t->floats = floats + params[i].offset;
    }
}

static void list_flat(struct veche_run *r, struct inventory *v, enum row row, size_t replica, float *floats)
{
    struct named_floats *t = &v->tensors[v->n_tensors++];
    t->name = arena_printf(&r->arena, "row%zu.%s", replica, row_name(&r->engine->setup, row));
    t->n_dims = 1;
    t->dims[0] = row_size(&r->engine->setup, row);
    t->floats = floats;
}

static void list_row(struct veche_run *r, struct inventory *v, enum row row, size_t replica)
{
    float *floats = v->next;
    v->pieces[v->n_pieces++] = (struct piece){row, replica, floats};
    v->next += row_size(&r->engine->setup, row);
    if (replica < r->n_agents && r->engine->setup.rows.of[row].like != LIKE_NOTHING)
        list_by_name(r, v, row, replica, floats);
    else
        list_flat(r, v, row, replica, floats);
}

/* All rows that are needed. `needed` is [rows.n][n_rows]. */
static fault list_needed(struct veche_run *r, struct inventory *v, const bool *needed, size_t n_rows)
{
    size_t floats = 0, per_row = r->graph->n_params + r->graph->n_stats + 1,
           n_kinds = r->engine->setup.rows.n;
    arena_release(&r->arena);
    for (size_t i = 0; i < n_kinds * n_rows; i++)
        if (needed[i] && row_size(&r->engine->setup, (enum row)(i / n_rows))) {
            v->piece_room++;
            floats += row_size(&r->engine->setup, (enum row)(i / n_rows));
        }
    v->pieces = ARENA_NEW(&r->arena, struct piece, v->piece_room + 1);
    v->tensors = ARENA_NEW(&r->arena, struct named_floats, v->piece_room * per_row + 1);
    if (!v->pieces || !v->tensors)
        return OUT_OF_MEMORY;
    block_close(&r->image);
    TRY(block_open(floats * sizeof(float), &r->image));
    v->next = r->image.bytes;
    for (size_t i = 0; i < n_kinds * n_rows; i++)
        if (needed[i] && row_size(&r->engine->setup, (enum row)(i / n_rows)))
            list_row(r, v, (enum row)(i / n_rows), i % n_rows);
    for (size_t i = 0; i < v->n_tensors; i++)
        if (!v->tensors[i].name)
            return OUT_OF_MEMORY;
    return OK;
}

/* What a checkpoint of this moment must hold. */
static fault take_inventory(struct veche_run *r, struct inventory *v)
{
    size_t n_rows = r->world->ops->n_rows(r->world);
    size_t n_kinds = r->engine->setup.rows.n;
    bool *needed = calloc(n_kinds * n_rows, sizeof *needed);
    if (!needed)
        return OUT_OF_MEMORY;
    for (enum row row = 0; row < n_kinds; row++)
        r->world->ops->rows_needed(r->world, row, needed + row * n_rows);
    fault f = list_needed(r, v, needed, n_rows);
    free(needed);
    return f;
}

/* ---- numbers ---- */

/* The numbers of a checkpoint: one list serves writing and reading. */
struct number {
    const char *key;
    uint64_t *whole; /* one of the two */
    double *real;
};

enum { MOST_NUMBERS = 24 };

static size_t list_standing(struct veche_run *r, struct number *n)
{
    struct standing *s = &r->standing;
    const struct number all[] = {
        {"stop.best_accuracy", NULL, &s->best_accuracy},
        {"stop.lowest_loss", NULL, &s->lowest_loss},
        {"stop.in_vain", &s->in_vain, NULL},
        {"stop.longest_in_vain", &s->longest_in_vain, NULL},
        {"stop.is_mixed", &s->is_mixed, NULL},
    };
    memcpy(n, all, sizeof all);
    return sizeof all / sizeof *all;
}

static size_t list_numbers(struct veche_run *r, uint64_t *step, double *real_s, struct number *n)
{
    const struct number all[] = {
        {"step", step, NULL},
        {"real_s", NULL, real_s},
        {"evaluated", &r->evaluated, NULL},
        {"notes", &r->notes, NULL},
        {"best_accuracy", NULL, &r->best_accuracy},
        {"averaged_loss", NULL, &r->averaged_loss},
        {"averaged_accuracy", NULL, &r->averaged_accuracy},
        {"disagreement.l1", NULL, &r->disagreement.l1},
        {"disagreement.l2", NULL, &r->disagreement.l2},
        {"disagreement.linf", NULL, &r->disagreement.linf},
        {"disagreement.variation", NULL, &r->disagreement.variation},
    };
    _Static_assert(sizeof all / sizeof *all + 8 <= MOST_NUMBERS, "MOST_NUMBERS is too small");
    memcpy(n, all, sizeof all);
    return sizeof all / sizeof *all + list_standing(r, n + sizeof all / sizeof *all);
}

/* An agent's last loss, its tally since the last evaluation and its score then, as a row of numbers. */
static const char *print_agent(struct veche_run *r, size_t i)
{
    const struct tally *t = &r->agents[i].tally;
    const struct score *s = &r->scores[i];
    return arena_printf(
        &r->arena,
        "%.17g %.17g %llu %llu %llu %.17g %.17g %.17g %.17g %.17g %.17g %llu %.17g %llu %llu %.17g %.17g %d",
        r->agents[i].loss, t->loss, (unsigned long long)t->hits, (unsigned long long)t->samples,
        (unsigned long long)t->lessons, s->train_loss, s->train_accuracy, s->loss, s->accuracy, s->lr,
        s->epoch, (unsigned long long)s->rounds, s->waiting_s, (unsigned long long)s->bytes,
        (unsigned long long)s->messages, s->staleness_mean, s->staleness_max, s->alive);
}

static bool read_agent(struct veche_run *r, size_t i, const char *text)
{
    struct tally *t = &r->agents[i].tally;
    struct score *s = &r->scores[i];
    unsigned long long w[6];
    int alive;
    int n = sscanf(text, "%lg %lg %llu %llu %llu %lg %lg %lg %lg %lg %lg %llu %lg %llu %llu %lg %lg %d",
                   &r->agents[i].loss, &t->loss, &w[0], &w[1], &w[2], &s->train_loss, &s->train_accuracy,
                   &s->loss, &s->accuracy, &s->lr, &s->epoch, &w[3], &s->waiting_s, &w[4], &w[5],
                   &s->staleness_mean, &s->staleness_max, &alive);
    t->hits = w[0], t->samples = w[1], t->lessons = w[2];
    s->rounds = w[3], s->bytes = w[4], s->messages = w[5];
    s->alive = alive != 0;
    return n == 18;
}

/* What a member has done, in a world that does not live through it again. */
static const char *print_account(struct veche_run *r, size_t member)
{
    struct account a = r->world->ops->account(r->world, member);
    const struct link_counts *c = &a.counts;
    return arena_printf(&r->arena, "%llu %llu %llu %llu %.17g %llu %llu %llu %llu %llu %llu %llu %llu %.17g",
                        (unsigned long long)a.k, (unsigned long long)a.lessons, (unsigned long long)a.steps,
                        (unsigned long long)a.dropped, a.lr, (unsigned long long)a.staleness.sum,
                        (unsigned long long)a.staleness.most, (unsigned long long)a.staleness.n,
                        (unsigned long long)c->bytes, (unsigned long long)c->messages,
                        (unsigned long long)c->lost, (unsigned long long)c->received,
                        (unsigned long long)c->unread, c->waiting_s);
}

static bool read_account(const char *text, struct account *a)
{
    unsigned long long w[12];
    int n = sscanf(text, "%llu %llu %llu %llu %lg %llu %llu %llu %llu %llu %llu %llu %llu %lg", &w[0], &w[1],
                   &w[2], &w[3], &a->lr, &w[4], &w[5], &w[6], &w[7], &w[8], &w[9], &w[10], &w[11],
                   &a->counts.waiting_s);
    a->k = w[0], a->lessons = w[1], a->steps = w[2], a->dropped = w[3];
    a->staleness = (struct staleness){w[4], w[5], w[6]};
    a->counts.bytes = w[7], a->counts.messages = w[8], a->counts.lost = w[9];
    a->counts.received = w[10], a->counts.unread = w[11];
    return n == 14;
}

/* The least number of rounds in all with which everything would have come to where it is: no agent knows yet
 * that a round is its last. */
static uint64_t least_rounds(const struct veche_run *r)
{
    const struct world_ops *ops = r->world->ops;
    uint64_t most = 0;
    if (ops->steps(r->world) == 0)
        return 0;
    if (r->stage.asynchronous)
        return session_totals(r).begun / r->n_agents + 1;
    for (size_t i = 0; i < r->n_agents; i++) {
        uint64_t k = ops->account ? ops->account(r->world, i).k : r->agents[i].k;
        most = k > most ? k : most;
    }
    return most + 2;
}

/* What is trained on what, and for how long. */
static fault print_identity(struct veche_run *r, struct metadata *m, size_t *at)
{
    char *yaml;
    TRY(experiment_print(r->experiment, &yaml));
    m[(*at)++] = (struct metadata){"experiment", arena_text(&r->arena, yaml)};
    free(yaml);
    m[(*at)++] = (struct metadata){"data", r->data_sha256};
    m[(*at)++] = (struct metadata){"engine", r->engine->ops->name};
    m[(*at)++] =
        (struct metadata){"round", arena_printf(&r->arena, "%llu", (unsigned long long)session_rounds(r))};
    m[(*at)++] =
        (struct metadata){"rounds", arena_printf(&r->arena, "%llu", (unsigned long long)r->stage.rounds)};
    m[(*at)++] = (struct metadata){"least_rounds",
                                   arena_printf(&r->arena, "%llu", (unsigned long long)least_rounds(r))};
    m[(*at)++] =
        (struct metadata){"rounds_per_epoch", arena_printf(&r->arena, "%.17g", r->stage.rounds_per_epoch)};
    for (size_t i = 0; r->share_sha256 && i < r->n_agents; i++)
        m[(*at)++] = (struct metadata){arena_printf(&r->arena, "data.%zu", i), r->share_sha256[i]};
    return OK;
}

static fault print_metadata(struct veche_run *r, struct metadata **out, size_t *n_out)
{
    struct number numbers[MOST_NUMBERS];
    uint64_t step = r->world->ops->steps(r->world);
    double real_s = session_seconds(r);
    size_t n = list_numbers(r, &step, &real_s, numbers), at = 0;
    bool accounts = r->world->ops->account != NULL;
    struct metadata *m = ARENA_NEW(&r->arena, struct metadata, n + 2 * r->n_agents + r->stage.n_members + 16);
    if (!m)
        return OUT_OF_MEMORY;
    m[at++] = (struct metadata){"format", CHECKPOINT_FORMAT};
    m[at++] = (struct metadata){"veche", veche_version()};
    m[at++] = (struct metadata){"stopped_because", arena_text(&r->arena, r->standing.stopped_because)};
    TRY(print_identity(r, m, &at));
    for (size_t i = 0; i < n; i++)
        m[at++] = (struct metadata){
            numbers[i].key, numbers[i].whole
                                ? arena_printf(&r->arena, "%llu", (unsigned long long)*numbers[i].whole)
                                : arena_printf(&r->arena, "%.17g", *numbers[i].real)};
    for (size_t i = 0; i < r->n_agents; i++)
        m[at++] = (struct metadata){arena_printf(&r->arena, "agent%zu", i), print_agent(r, i)};
    for (size_t i = 0; accounts && i < r->stage.n_members; i++)
        m[at++] = (struct metadata){arena_printf(&r->arena, "member%zu", i), print_account(r, i)};
    if (accounts) {
        m[at++] = (struct metadata){"agents", arena_printf(&r->arena, "%zu", r->n_agents)};
        m[at++] = (struct metadata){"epoch", arena_printf(&r->arena, "%.17g", session_epochs(r))};
    }
    for (size_t i = 0; i < at; i++)
        if (!m[i].key || !m[i].text)
            return OUT_OF_MEMORY;
    *out = m;
    *n_out = at;
    return OK;
}

static fault bad_checkpoint(const struct veche_run *r, const char *what)
{
    return FAIL(FAULT_CHECKPOINT, "%s: the newest checkpoint has no good '%s'", r->folder.path, what);
}

static fault read_list(const struct veche_run *r, const struct tensors *t, const struct number *numbers,
                       size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *text = tensors_metadata(t, numbers[i].key);
        char *end = NULL;
        errno = 0;
        if (text && numbers[i].whole)
            *numbers[i].whole = strtoull(text, &end, 10);
        else if (text)
            *numbers[i].real = strtod(text, &end);
        if (!text || end == text || *end || errno == ERANGE)
            return bad_checkpoint(r, numbers[i].key);
    }
    return OK;
}

/* How good the run had been, by however many agents. */
static fault take_standing(struct veche_run *r, const struct tensors *t)
{
    struct number numbers[MOST_NUMBERS];
    const char *because = tensors_metadata(t, "stopped_because");
    if (!because)
        return bad_checkpoint(r, "stopped_because");
    TRY(read_list(r, t, numbers, list_standing(r, numbers)));
    if (stop_is_met(&r->experiment->train.stop, &r->standing)) /* else it goes on, by other settings */
        snprintf(r->standing.stopped_because, sizeof r->standing.stopped_because, "%s", because);
    return OK;
}

static fault read_numbers(struct veche_run *r, const struct tensors *t, uint64_t *step)
{
    struct number numbers[MOST_NUMBERS];
    TRY(read_list(r, t, numbers, list_numbers(r, step, &r->earlier_s, numbers)));
    for (size_t i = 0; i < r->n_agents; i++) {
        char key[32];
        snprintf(key, sizeof key, "agent%zu", i);
        const char *text = tensors_metadata(t, key);
        if (!text || !read_agent(r, i, text))
            return bad_checkpoint(r, key);
    }
    return OK;
}

/* ---- what members were told ---- */

static const char *name_of_journal(struct veche_run *r, size_t member)
{
    return arena_printf(&r->arena, "numbers.%zu", member);
}

/* The members' journals, and after them the tensors of an inventory. */
static fault with_journals(struct veche_run *r, const struct inventory *v, struct named_floats **out,
                           size_t *n_out)
{
    const struct world_ops *ops = r->world->ops;
    size_t n = 0;
    struct named_floats *all = ARENA_NEW(&r->arena, struct named_floats, r->stage.n_members + v->n_tensors);
    if (!all)
        return OUT_OF_MEMORY;
    for (size_t i = 0; ops->numbers && i < r->stage.n_members; i++) {
        struct named_floats t = {.n_dims = 1};
        t.doubles = ops->numbers(r->world, i, &t.dims[0]);
        if (!t.dims[0])
            continue;
        t.name = name_of_journal(r, i);
        if (!t.name)
            return OUT_OF_MEMORY;
        all[n++] = t;
    }
    memcpy(all + n, v->tensors, v->n_tensors * sizeof *all);
    *out = all;
    *n_out = n + v->n_tensors;
    return OK;
}

static fault take_journals(struct veche_run *r, const struct tensors *t)
{
    const struct world_ops *ops = r->world->ops;
    for (size_t i = 0; ops->set_numbers && i < r->stage.n_members; i++) {
        const char *name = name_of_journal(r, i);
        if (!name)
            return OUT_OF_MEMORY;
        const struct named_floats *j = tensors_find(t, name);
        if (j && (!j->doubles || j->n_dims != 1))
            return FAIL(FAULT_CHECKPOINT, "its tensor '%s' is no list of doubles", name);
        if (j)
            TRY(ops->set_numbers(r->world, i, j->doubles, j->dims[0]));
    }
    return OK;
}

/* ---- saving ---- */

struct file_to_write { /* a checkpoint, or model.safetensors */
    struct veche_run *run;
    const struct named_floats *tensors;
    size_t n_tensors;
    const struct metadata *metadata;
    size_t n_metadata;
};

static fault write_checkpoint(void *ctx)
{
    const struct file_to_write *f = ctx;
    return run_save(&f->run->folder, session_rounds(f->run), f->tensors, f->n_tensors, f->metadata, f->n_metadata);
}

static fault write_model(void *ctx)
{
    const struct file_to_write *f = ctx;
    char path[RUN_PATH + 32];
    snprintf(path, sizeof path, "%s/model.safetensors", f->run->folder.path);
    return tensors_write(path, f->tensors, f->n_tensors, f->metadata, f->n_metadata);
}

fault session_aside(struct veche_run *r, fault (*task)(void *ctx), void *ctx)
{
    return r->world->ops->aside ? r->world->ops->aside(r->world, task, ctx) : task(ctx);
}

fault session_save(struct veche_run *r)
{
    struct inventory v = {0};
    struct metadata *metadata;
    struct named_floats *tensors;
    size_t n, n_tensors;
    TRY(r->world->ops->settle(r->world));
    TRY(take_inventory(r, &v));
    for (size_t i = 0; i < v.n_pieces; i++)
        TRY(r->world->ops->read(r->world, v.pieces[i].row, v.pieces[i].replica, v.pieces[i].floats));
    TRY(with_journals(r, &v, &tensors, &n_tensors));
    TRY(print_metadata(r, &metadata, &n));
    TRY(session_aside(r, write_checkpoint, &(struct file_to_write){r, tensors, n_tensors, metadata, n}));
    r->saved = r->world->ops->steps(r->world);
    session_tell(r, VECHE_CHECKPOINT, r->folder.path);
    return OK;
}

/* The network alone, for other programs: of the one agent, or the mean of all. */
fault session_save_model(struct veche_run *r)
{
    size_t n_rows = r->world->ops->n_rows(r->world);
    bool *needed = calloc(r->engine->setup.rows.n * n_rows, sizeof *needed);
    if (!needed)
        return OUT_OF_MEMORY;
    needed[ROW_PARAMS * n_rows] = needed[ROW_STATS * n_rows] = true;
    struct inventory v = {0};
    fault f = list_needed(r, &v, needed, n_rows);
    free(needed);
    TRY(f);
    size_t source = r->n_agents > 1 ? world_model_row(&r->stage) : 0;
    for (size_t i = 0; i < v.n_pieces; i++)
        TRY(r->world->ops->read(r->world, v.pieces[i].row, source, v.pieces[i].floats));
    for (size_t i = 0; i < v.n_tensors; i++)
        v.tensors[i].name += strlen("agent0.");
    const struct metadata metadata[] = {{"format", "pt"},
                                        {"veche", veche_version()},
                                        {"model", r->graph->name},
                                        {"name", r->experiment->name}};
    return session_aside(r, write_model, &(struct file_to_write){r, v.tensors, v.n_tensors, metadata, sizeof metadata / sizeof *metadata});
}

/* ---- restoring ---- */

static fault take_tensor(const struct veche_run *r, const struct tensors *t, const struct named_floats *want)
{
    const struct named_floats *have = tensors_find(t, want->name);
    size_t n = 1;
    if (!have || !have->floats)
        return FAIL(FAULT_CHECKPOINT, "%s: the newest checkpoint has no tensor '%s'", r->folder.path,
                    want->name);
    if (have->n_dims != want->n_dims || memcmp(have->dims, want->dims, have->n_dims * sizeof *have->dims))
        return FAIL(FAULT_CHECKPOINT,
                    "%s: tensor '%s' of the newest checkpoint has another shape than the network's",
                    r->folder.path, want->name);
    for (size_t i = 0; i < have->n_dims; i++)
        n *= have->dims[i];
    memcpy((float *)want->floats, have->floats, n * sizeof(float));
    return OK;
}

static fault take_rows(struct veche_run *r, const struct tensors *t)
{
    struct inventory v = {0};
    TRY(take_inventory(r, &v));
    for (size_t i = 0; i < v.n_tensors; i++)
        TRY(take_tensor(r, t, &v.tensors[i]));
    for (size_t i = 0; i < v.n_pieces; i++)
        TRY(r->world->ops->write(r->world, v.pieces[i].row, v.pieces[i].replica, v.pieces[i].floats));
    return OK;
}

/* A world that does not live through its steps again begins at their end. */
static fault take_accounts(struct veche_run *r, const struct tensors *t, uint64_t step)
{
    if (!r->world->ops->account)
        return OK;
    r->seen_rounds = (double)step;
    r->seen_epochs = (double)step / r->stage.rounds_per_epoch;
    for (size_t i = 0; i < r->stage.n_members; i++) {
        char key[32];
        struct account a = {0};
        snprintf(key, sizeof key, "member%zu", i);
        const char *text = tensors_metadata(t, key);
        if (!text || !read_account(text, &a))
            return bad_checkpoint(r, key);
        if (i < r->n_agents) {
            a.loss = r->agents[i].loss;
            a.tally = r->agents[i].tally;
        }
        r->world->ops->set_account(r->world, i, &a);
    }
    return OK;
}

/* The world as it was after so many steps, but for its rows. */
static fault live_again(struct veche_run *r, const struct tensors *t, uint64_t step)
{
    fault f = take_journals(r, t);
    if (!f)
        f = r->world->ops->restore(r->world, step);
    return f && fault_kind_of(f) == FAULT_CHECKPOINT
               ? fault_before(f, "%s: the newest checkpoint does not fit: ", r->folder.path)
               : f;
}

static fault take_all(struct veche_run *r, const struct tensors *t)
{
    const char *agents = tensors_metadata(t, "agents");
    uint64_t step;
    TRY(take_standing(r, t));
    if (r->world->ops->account && agents && strtoull(agents, NULL, 10) != r->n_agents)
        return session_take_model(r, t, strtoull(agents, NULL, 10));
    TRY(read_numbers(r, t, &step));
    TRY(live_again(r, t, step));
    if (r->world->ops->steps(r->world) != step)
        return FAIL(FAULT_CHECKPOINT,
                    "%s: the newest checkpoint is of step %llu, which this experiment never reaches",
                    r->folder.path, (unsigned long long)step);
    TRY(take_rows(r, t));
    TRY(take_accounts(r, t, step));
    r->saved = step;
    return OK;
}

/* ---- going on ---- */

static void tell_of_going_back(struct veche_run *r, const struct resumption *from)
{
    char text[RUN_PATH + 320];
    const char *round = tensors_metadata(&from->checkpoint, "round");
    if (from->passed_over[0]) {
        snprintf(text, sizeof text, "%s; going back to round %s", from->passed_over, round);
        session_tell(r, VECHE_NOTICE, text);
    }
    if (from->goes_back) {
        snprintf(text, sizeof text, "going back to round %s, before the run knew its last round", round);
        session_tell(r, VECHE_NOTICE, text);
    }
    if (*r->standing.stopped_because) {
        snprintf(text, sizeof text, "the run ended in round %s: %s; with train.stop=never it goes on", round,
                 r->standing.stopped_because);
        session_tell(r, VECHE_NOTICE, text);
    }
}

/* A line in the records for each setting that is another one from now on. */
static fault note_changes(struct veche_run *r, const struct change *changes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char text[256];
        snprintf(text, sizeof text, "%.60s is '%s' from here on, not '%s'", changes[i].key,
                 text_shown(changes[i].is).text, text_shown(changes[i].was).text);
        r->notes++;
        TRY(run_record_note(&r->folder, r->saved, r->world->ops->now_s(r->world), session_seconds(r), -1,
                            "change", text));
        session_tell(r, VECHE_NOTICE, text);
    }
    return OK;
}

/* The folder tells of the new experiment before anything is trained by it; killed at any moment, the run goes
 * on with it. */
static fault take_changes(struct veche_run *r, const struct resumption *from)
{
    struct arena arena = {0};
    struct change *changes = NULL;
    char *yaml = NULL;
    size_t n = 0;
    TRY(experiment_print(r->experiment, &yaml));
    fault f = experiment_changes(resumption_was(from), yaml, &arena, &changes, &n);
    free(yaml);
    for (size_t i = 0; !f && i < n; i++)
        r->standing.is_mixed = r->standing.is_mixed || text_is(changes[i].key, "train.evaluate_every");
    if (!f && (n || from->reprints)) {
        f = session_write_experiment(r);
        r->is_changed = true;
    }
    if (!f)
        f = note_changes(r, changes, n);
    free(changes);
    arena_release(&arena);
    return f;
}

fault session_restore(struct veche_run *r, const struct resumption *from)
{
    TRY(take_all(r, &from->checkpoint));
    TRY(run_rewind_events(&r->folder, r->saved));
    tell_of_going_back(r, from);
    if (!from->is_over || from->regroups)
        TRY(run_remove_summary(&r->folder));
    return take_changes(r, from);
}
