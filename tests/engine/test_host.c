/* What engines on the host share: rows, steps of the optimiser in slices, pictures from bytes, choosing an
 * engine. */
#include "engine/host.h"
#include "engine/loops.h"
#include "support/network.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* An optimiser that leaves a trace of how it was called: theta -= lr * g * t, slot 0 += 1, slot 1 = theta's
 * old value. */
static void trace_step(const void *settings, double lr, uint64_t t, size_t n, float *theta, const float *g,
                       float *const slot[OPTIM_SLOTS])
{
    assert_true(*(const double *)settings == lr);
    for (size_t i = 0; i < n; i++) {
        slot[1][i] = theta[i];
        slot[0][i] += 1;
        theta[i] -= (float)(lr * (double)t) * g[i];
    }
}

#define STEP(isa, function) [ISA_##isa] = function, /* no hot file */
static const struct optim_row trace_row = {.n_slots = 2,
                                           .slot_names = {"count", "old"},
                                           .slot_start = {0.5f, 0},
                                           .step = {EACH_ISA(STEP, trace_step)}};
static const struct kind trace_kind = {.name = "trace", .row = &trace_row};
static double trace_lr = 0.25;
static const struct optim_settings trace = {.kind = {.kind = &trace_kind, .settings = &trace_lr}};

struct fixture {
    struct graph *g;
    struct dataset *d;
    struct engine_setup setup;
};

static struct fixture fixture_new(size_t n_replicas, int threads, const struct optim_settings *optim)
{
    struct shape shape = {1, 20, 20};
    struct fixture f = {.g = model_build("mlp:100", shape, 3), .d = random_dataset(1, shape, 3, 10, 5)};
    f.setup = (struct engine_setup){
        .graph = f.g, .train = &f.d->train, .test = &f.d->test, .n_replicas = n_replicas};
    f.setup.rows = rows_of(f.g, optim);
    f.setup.batch = 2;
    f.setup.threads = threads;
    f.setup.optim = optim;
    return f;
}

static void fixture_free(struct fixture *f)
{
    graph_free(f->g);
    random_dataset_free(f->d);
}

static void rows_are_apart_and_hold_what_is_written(void **state)
{
    (void)state;
    struct fixture f = fixture_new(3, 1, &trace);
    struct host h;
    assert_null(host_init(&h, &engine_null, &f.setup));
    size_t size = f.g->size;
    float *x = calloc(size, sizeof *x);
    for (enum row row = 0; row < f.setup.rows.n; row++)
        for (size_t r = 0; r < 3; r++) {
            assert_int_equal((uintptr_t)host_row(&h, row, r) % 64, 0);
            for (size_t i = 0; i < row_size(&f.setup, row); i++)
                x[i] = (float)(row * 100 + r) + (float)i * 1e-3f;
            assert_null(host_write(&h.engine, row, r, x));
        }
    for (enum row row = 0; row < f.setup.rows.n; row++)
        for (size_t r = 0; r < 3; r++) {
            assert_null(host_read(&h.engine, row, r, x));
            for (size_t i = 0; i < row_size(&f.setup, row); i++)
                assert_true(x[i] == (float)(row * 100 + r) + (float)i * 1e-3f);
        }
    free(x);
    host_release(&h);
    fixture_free(&f);
}

static void rows_start_as_zeros_and_slots_as_the_optimiser_says(void **state)
{
    (void)state;
    struct fixture f = fixture_new(2, 1, &trace);
    struct host h;
    assert_null(host_init(&h, &engine_null, &f.setup));
    for (size_t r = 0; r < 2; r++)
        for (size_t i = 0; i < f.g->size; i++) {
            assert_true(host_row(&h, ROW_PARAMS, r)[i] == 0);
            assert_true(host_row(&h, ROW_GRADS, r)[i] == 0);
            assert_true(host_row(&h, ROW_SLOT, r)[i] == 0.5f);
            assert_true(host_row(&h, ROW_SLOT + 1, r)[i] == 0);
        }
    host_release(&h);
    fixture_free(&f);
}

static void rows_are_as_long_as_the_graph_and_optimiser_ask(void **state)
{
    (void)state;
    struct fixture f = fixture_new(1, 1, NULL);
    assert_int_equal(row_size(&f.setup, ROW_PARAMS), f.g->size);
    assert_int_equal(row_size(&f.setup, ROW_STATS), 0);
    assert_int_equal(row_size(&f.setup, ROW_SLOT), 0);
    fixture_free(&f);
    f = fixture_new(1, 1, &trace);
    assert_int_equal(row_size(&f.setup, ROW_SLOT + 1), f.g->size);
    assert_int_equal(row_size(&f.setup, ROW_KEPT), 0);
    fixture_free(&f);
    struct graph *g = model_build("fashion-cnn", (struct shape){1, 28, 28}, 10);
    assert_int_equal(rows_of(g, NULL).of[ROW_STATS].size, 2 * (32 + 64));
    graph_free(g);
}

/* A history of three gradients: into it and out of it, with shifts, and floats of one slot of it into another. */
static void a_row_may_be_longer_than_the_network(void **state)
{
    (void)state;
    struct fixture f = fixture_new(2, 2, NULL);
    size_t n = f.g->size;
    rows_keep(&f.setup.rows, (struct row_entry){.name = "history", .size = 3 * n, .start = 0.5f});
    rows_keep(&f.setup.rows, (struct row_entry){.name = "few", .size = 7});
    struct engine *e;
    assert_null(engine_ref.open(&f.setup, &e));
    const enum row history = ROW_KEPT, few = ROW_KEPT + 1;
    float *g = e->ops->floats(e, ROW_GRADS, 1), *h = e->ops->floats(e, history, 1),
          *x = e->ops->floats(e, few, 1);
    for (size_t i = 0; i < n; i++)
        g[i] = (float)(i % 11);
    assert_true(h[0] == 0.5f && h[3 * n - 1] == 0.5f);
    const struct addend in = {2, ROW_GRADS, 1, -(ptrdiff_t)n}, on = {1, history, 1, -(ptrdiff_t)n},
                        out[] = {{1, few, 1, 0}, {3, history, 1, (ptrdiff_t)(2 * n + 1)}};
    assert_null(e->ops->mix(e, &(struct blend){history, 1, NO_ROW, n, 2 * n, &in, 1}, 1));
    assert_null(e->ops->mix(e, &(struct blend){history, 1, NO_ROW, 2 * n, TO_END, &on, 1}, 1));
    assert_null(e->ops->mix(e, &(struct blend){few, 1, NO_ROW, 0, TO_END, out, 2}, 1));
    for (size_t i = 0; i < n; i++)
        assert_true(h[i] == 0.5f && h[n + i] == 2 * g[i] && h[2 * n + i] == 2 * g[i]);
    for (size_t i = 0; i < 7; i++)
        assert_true(x[i] == 6 * g[i + 1]);
    double product;
    struct dot d = {.replica = 1, .row = few, .other = history, .first = 1, .end = 4, .shift = (ptrdiff_t)n};
    assert_null(engine_dot(e, &d, NULL, &product));
    assert_true(product == 6 * 2 * (double)(g[2] * g[1] + g[3] * g[2] + g[4] * g[3]));
    engine_close(e);
    fixture_free(&f);
}

static void an_engine_without_the_rows_of_its_network_is_refused(void **state)
{
    (void)state;
    struct fixture f = fixture_new(1, 1, NULL);
    struct engine *e;
    f.setup.rows = (struct rows){.n = 0};
    fault bad = engine_ref.open(&f.setup, &e);
    assert_int_equal(fault_kind_of(bad), FAULT_USAGE);
    fault_drop(bad);
    fixture_free(&f);
}

static void rows_can_be_reached_where_they_lie(void **state)
{
    (void)state;
    struct fixture f = fixture_new(2, 1, NULL);
    f.setup.n_spare = 1;
    const struct engine_ops *all[] = {&engine_ref, &engine_null};
    float *x = calloc(f.g->size, sizeof *x);
    for (int k = 0; k < 2; k++) {
        struct engine *e;
        assert_null(all[k]->open(&f.setup, &e));
        for (size_t r = 0; r < 3; r++) {
            float *floats = e->ops->floats(e, ROW_GRADS, r);
            assert_int_equal((uintptr_t)floats % 64, 0);
            floats[0] = (float)r + 1;
            floats[f.g->size - 1] = (float)r + 2;
            assert_null(e->ops->read(e, ROW_GRADS, r, x));
            assert_true(x[0] == (float)r + 1 && x[f.g->size - 1] == (float)r + 2);
        }
        engine_close(e);
    }
    free(x);
    fixture_free(&f);
}

static void rows_that_change_places_keep_their_floats(void **state)
{
    (void)state;
    struct fixture f = fixture_new(1, 1, NULL);
    f.setup.n_spare = 2;
    const struct engine_ops *all[] = {&engine_ref, &engine_null};
    float *x = calloc(f.g->size, sizeof *x);
    for (int k = 0; k < 2; k++) {
        struct engine *e;
        assert_null(all[k]->open(&f.setup, &e));
        for (size_t r = 0; r < 3; r++)
            e->ops->floats(e, ROW_PARAMS, r)[f.g->size - 1] = e->ops->floats(e, ROW_GRADS, r)[0] = (float)r;
        const float *mine = e->ops->floats(e, ROW_PARAMS, 0), *spare = e->ops->floats(e, ROW_PARAMS, 2);
        e->ops->exchange(e, ROW_PARAMS, 0, 2);
        assert_ptr_equal(e->ops->floats(e, ROW_PARAMS, 0), spare);
        assert_ptr_equal(e->ops->floats(e, ROW_PARAMS, 2), mine);
        for (size_t r = 0; r < 3; r++) {
            assert_null(e->ops->read(e, ROW_PARAMS, r, x));
            assert_true(x[f.g->size - 1] == 2 - (float)r);
            assert_true(e->ops->floats(e, ROW_GRADS, r)[0] == (float)r); /* of another kind: it stays */
        }
        engine_close(e);
    }
    free(x);
    fixture_free(&f);
}

/* Numbers of all sizes and both signs, so that any other order of a sum rounds otherwise. */
static void fill_rough(float *x, size_t n, uint64_t key)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = rng_hash(key, i);
        x[i] = ((float)(bits & 0xffff) - 32768.5f) * (bits & 0x10000 ? 1e-4f : 3.0f);
    }
}

enum { BLEND_ROWS = 6 };
static const float blend_weights[][BLEND_ROWS - 1] = {
    {1}, {0.3f}, {1, 1}, {0.5f, 0.5f}, {1, -1}, {1, 1, 1}, {0.1f, 0.2f, 0.3f, 0.15f, 0.25f}};
static const size_t blend_terms[] = {1, 1, 2, 2, 2, 3, 5};

/* Into every row in turn: one that is no term, then each of the terms. */
static void a_blend_has_the_bits_of_a_mix_and_of_the_plain_sum(void **state)
{
    (void)state;
    struct fixture f = fixture_new(BLEND_ROWS, 2, NULL);
    struct engine *e;
    assert_null(engine_ref.open(&f.setup, &e));
    size_t n = f.g->size, first = 5;
    float *expected = calloc(n, sizeof *expected), *blended = calloc(BLEND_ROWS * n, sizeof *blended);
    for (size_t k = 0; k < sizeof blend_terms / sizeof *blend_terms; k++)
        for (size_t into = 0; into <= blend_terms[k]; into++) {
            const float *w = blend_weights[k], *from[BLEND_ROWS];
            struct addend addends[BLEND_ROWS - 1];
            for (size_t t = 0; t < blend_terms[k]; t++)
                addends[t] = (struct addend){.weight = w[t], .row = ROW_GRADS, .from = t + 1};
            for (size_t r = 0; r < BLEND_ROWS; r++) {
                fill_rough(e->ops->floats(e, ROW_GRADS, r), n, r);
                fill_rough(blended + r * n, n, r);
                from[r] = blended + r * n + first;
            }
            for (size_t i = first; i < n; i++) {
                expected[i] = w[0] * blended[n + i];
                for (size_t t = 1; t < blend_terms[k]; t++)
                    expected[i] += w[t] * blended[(t + 1) * n + i];
            }
            struct blend b = {ROW_GRADS, into, NO_ROW, first, TO_END, addends, blend_terms[k]};
            assert_null(e->ops->mix(e, &b, 1));
            host_blend(blended + into * n + first, from + 1, w, blend_terms[k], n - first);
            assert_memory_equal(blended + into * n + first, expected + first, (n - first) * sizeof *blended);
            assert_memory_equal(e->ops->floats(e, ROW_GRADS, into), blended + into * n, n * sizeof *blended);
        }
    free(expected);
    free(blended);
    engine_close(e);
    fixture_free(&f);
}

static void every_instruction_set_sums_to_the_same_bits(void **state)
{
    (void)state;
    enum { N = 1027 };
    float x[N], want[N], have[N], sum[N];
    for (enum isa isa = ISA_any; isa <= isa_here(); isa++) {
        const struct loops *loops = loops_of(isa), *plain = loops_of(ISA_any);
        for (uint64_t term = 0; term < 5; term++) {
            fill_rough(x, N, term);
            plain->take_term(want, term == 0, 0.3f, x, N);
            loops->take_term(have, term == 0, 0.3f, x, N);
        }
        assert_memory_equal(want, have, sizeof want);
        loops->add(sum, have, x, N);
        plain->add(want, want, x, N);
        assert_memory_equal(want, sum, sizeof want);
    }
}

/* Over lengths around those of lanes and blocks: small whole numbers are summed exactly, others to the bits of one set. */
static void every_instruction_set_gives_the_same_product_of_rows(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 1, 15, 16, 17, 4095, 4096, 4097, 8192, 9001};
    float *x = calloc(9001, sizeof *x), *y = calloc(9001, sizeof *y);
    assert_true(x && y);
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        double naive = 0;
        for (size_t i = 0; i < lengths[k]; i++) {
            x[i] = (float)(i % 7) - 3;
            y[i] = (float)(i % 5) - 1.5f;
            naive += (double)x[i] * y[i];
        }
        assert_true(host_dot(x, y, lengths[k]) == naive);
    }
    for (size_t i = 0; i < 9001; i++)
        x[i] = 0x1p-149f; /* of n equal terms the sum is n times one, down to the smallest there are */
    assert_true(host_dot(x, x, 9001) == 9001 * 0x1p-298);
    fill_rough(x, 9001, 1);
    fill_rough(y, 9001, 2);
    double naive = 0, size = 0;
    for (size_t i = 0; i < 9001; i++) {
        naive += (double)x[i] * y[i];
        size += fabs((double)x[i] * y[i]);
    }
    assert_true(fabs(host_dot(x, y, 9001) - naive) <= 1e-13 * size);
    for (enum isa isa = ISA_any; isa <= isa_here(); isa++)
        for (size_t n = 0; n < 4096; n += 37) {
            double want = loops_of(ISA_any)->dot(x + 3, y + 5, n), have = loops_of(isa)->dot(x + 3, y + 5, n);
            assert_memory_equal(&want, &have, sizeof want);
        }
    free(x);
    free(y);
}

static void every_instruction_set_makes_the_same_pictures(void **state)
{
    (void)state;
    struct shape shape = {3, 13, 11};
    struct dataset *d = random_dataset(8, shape, 2, 4, 1);
    float want[3 * 13 * 11], have[3 * 13 * 11];
    for (enum isa isa = ISA_any; isa <= isa_here(); isa++)
        for (int way = 0; way < 8; way++) {
            struct pick pick = {.sample = 2, .flip = way & 1, .dx = way & 2 ? 3 : -2, .dy = way & 4 ? -4 : 1};
            const uint8_t *bytes = d->train.pixels + pick.sample * samples_one(&d->train);
            loops_of(ISA_any)->sample(&d->train, bytes, pick, want);
            loops_of(isa)->sample(&d->train, bytes, pick, have);
            assert_memory_equal(want, have, sizeof want);
        }
    random_dataset_free(d);
}

static void an_update_steps_every_element_once_and_only_its_replicas(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        struct fixture f = fixture_new(4, threads, &trace);
        struct host h;
        assert_null(host_init(&h, &engine_null, &f.setup));
        assert_true(f.g->size > 2 * 16384); /* several slices, the last one short */
        for (size_t r = 0; r < 4; r++)
            for (size_t i = 0; i < f.g->size; i++) {
                host_row(&h, ROW_PARAMS, r)[i] = (float)(i % 7);
                host_row(&h, ROW_GRADS, r)[i] = (float)(i % 5 + r);
            }
        const struct update updates[] = {{3, 0.25, 2, 0, TO_END}, {1, 0.25, 4, 0, TO_END}};
        assert_null(host_update(&h.engine, updates, 2));
        for (size_t r = 0; r < 4; r++) {
            float t = r == 3 ? 2 : r == 1 ? 4 : 0;
            for (size_t i = 0; i < f.g->size; i++) {
                assert_true(host_row(&h, ROW_PARAMS, r)[i] ==
                            (float)(i % 7) - 0.25f * t * (float)(i % 5 + r));
                assert_true(host_row(&h, ROW_SLOT, r)[i] == (t > 0 ? 1.5f : 0.5f));
                assert_true(host_row(&h, ROW_SLOT + 1, r)[i] == (t > 0 ? (float)(i % 7) : 0));
            }
        }
        host_release(&h);
        fixture_free(&f);
    }
}

static void an_engine_without_an_optimiser_takes_no_steps(void **state)
{
    (void)state;
    struct fixture f = fixture_new(1, 1, NULL);
    struct host h;
    assert_null(host_init(&h, &engine_null, &f.setup));
    fault bad = host_update(&h.engine, &(struct update){0, 0.1, 1, 0, TO_END}, 1);
    assert_non_null(bad);
    assert_int_equal(fault_kind_of(bad), FAULT_USAGE);
    fault_drop(bad);
    host_release(&h);
    fixture_free(&f);
}

static void samples_that_do_not_fit_the_network_are_refused(void **state)
{
    (void)state;
    struct fixture f = fixture_new(1, 1, NULL);
    struct dataset *other = random_dataset(1, (struct shape){1, 20, 21}, 3, 4, 4);
    struct dataset *classes = random_dataset(1, (struct shape){1, 20, 20}, 4, 4, 4);
    const struct samples *wrong[] = {&other->train, &classes->train};
    for (int k = 0; k < 2; k++) {
        struct host h;
        f.setup.test = wrong[k];
        fault bad = host_init(&h, &engine_null, &f.setup);
        assert_non_null(bad);
        assert_int_equal(fault_kind_of(bad), FAULT_SHAPE);
        fault_drop(bad);
    }
    random_dataset_free(other);
    random_dataset_free(classes);
    fixture_free(&f);
}

/* The sample by the definition: pixel (y, x) is pixel (y + dy, x + dx) of the mirrored picture, or a zero
 * byte. */
static float pixel(const struct samples *s, struct pick p, size_t c, size_t y, size_t x)
{
    long py = (long)y + p.dy, px = (long)x + p.dx;
    uint8_t byte = 0;
    if (py >= 0 && py < (long)s->h && px >= 0 && px < (long)s->w) {
        size_t column = p.flip ? s->w - 1 - (size_t)px : (size_t)px;
        byte = s->pixels[((p.sample * s->c + c) * s->h + (size_t)py) * s->w + column];
    }
    return ((float)byte / 255.0f - s->mean[c]) / s->deviation[c];
}

static void a_sample_is_mirrored_shifted_and_normalised_as_its_pick_says(void **state)
{
    (void)state;
    static const struct shape shapes[] = {{3, 8, 8}, {1, 5, 9}, {2, 1, 1}, {4, 3, 2}};
    for (size_t k = 0; k < 4; k++) {
        struct shape s = shapes[k];
        struct dataset *d = random_dataset(k, s, 3, 6, 1);
        float *out = calloc(shape_size(s), sizeof *out);
        for (int flip = 0; flip < 2; flip++)
            for (int dy = -10; dy <= 10; dy += 2)
                for (int dx = -10; dx <= 10; dx++) {
                    struct pick p = {(uint32_t)(dx + 10) % 6, (int8_t)flip, (int8_t)dy, (int8_t)dx};
                    host_sample(&d->train, d->train.pixels + p.sample * samples_one(&d->train), p, out);
                    for (size_t i = 0; i < shape_size(s); i++)
                        assert_true(out[i] == pixel(&d->train, p, i / (s.h * s.w), i / s.w % s.h, i % s.w));
                }
        free(out);
        random_dataset_free(d);
    }
}

static const struct kind *engine_named(const char *name)
{
    for (size_t i = 0; i < engine_kinds.n; i++)
        if (strcmp(engine_kinds.rows[i].name, name) == 0)
            return &engine_kinds.rows[i];
    return NULL;
}

static void auto_is_the_first_engine_that_can_be_used(void **state)
{
    (void)state;
    struct fixture f = fixture_new(1, 1, NULL);
    struct engine *e = NULL;
    assert_null(engine_open(engine_named("auto"), &f.setup, &e));
    assert_string_equal(e->ops->name, engine_named("dnnl")->missing ? "ref" : "dnnl");
    engine_close(e);
    assert_null(engine_open(engine_named("ref"), &f.setup, &e));
    assert_string_equal(e->ops->name, "ref");
    engine_close(e);
    engine_close(NULL);
    fixture_free(&f);
}

static void an_engine_this_build_lacks_says_why(void **state)
{
    (void)state;
    struct fixture f = fixture_new(1, 1, NULL);
    const struct kind absent = {.name = "abacus", .missing = "built without beads"};
    struct engine *e = NULL;
    fault bad = engine_open(&absent, &f.setup, &e);
    assert_non_null(bad);
    assert_int_equal(fault_kind_of(bad), FAULT_ENGINE);
    assert_non_null(strstr(fault_text(bad), "built without beads"));
    assert_null(e);
    fault_drop(bad);
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_apart_and_hold_what_is_written),
        cmocka_unit_test(rows_start_as_zeros_and_slots_as_the_optimiser_says),
        cmocka_unit_test(rows_are_as_long_as_the_graph_and_optimiser_ask),
        cmocka_unit_test(a_row_may_be_longer_than_the_network),
        cmocka_unit_test(an_engine_without_the_rows_of_its_network_is_refused),
        cmocka_unit_test(rows_can_be_reached_where_they_lie),
        cmocka_unit_test(rows_that_change_places_keep_their_floats),
        cmocka_unit_test(a_blend_has_the_bits_of_a_mix_and_of_the_plain_sum),
        cmocka_unit_test(every_instruction_set_sums_to_the_same_bits),
        cmocka_unit_test(every_instruction_set_gives_the_same_product_of_rows),
        cmocka_unit_test(every_instruction_set_makes_the_same_pictures),
        cmocka_unit_test(an_update_steps_every_element_once_and_only_its_replicas),
        cmocka_unit_test(an_engine_without_an_optimiser_takes_no_steps),
        cmocka_unit_test(samples_that_do_not_fit_the_network_are_refused),
        cmocka_unit_test(a_sample_is_mirrored_shifted_and_normalised_as_its_pick_says),
        cmocka_unit_test(auto_is_the_first_engine_that_can_be_used),
        cmocka_unit_test(an_engine_this_build_lacks_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
