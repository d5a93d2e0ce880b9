/* Rows of the engine `cuda`: steps and mixes are the host's bit for bit. Needs a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/must.h"
#include "support/question.h"
#include "optim/rules.h"

struct rule {
    const char *name;
    const void *settings;
};

/* Random rows; a gradient that pulls both ways. */
static void random_row(struct engine *e, enum row row, size_t i, uint64_t seed)
{
    size_t n = row_size(&e->setup, row);
    float *x = zeros(n, sizeof *x);
    struct rng r = rng_stream(seed, (uint32_t)i, RNG_TEST, 20 + (uint64_t)row);
    for (size_t k = 0; k < n; k++)
        x[k] = (float)rng_normal(&r);
    must(e->ops->write(e, row, i, x));
    free(x);
}

static void same_rows(struct engine *a, struct engine *b, const char *what)
{
    size_t most = 3 * a->setup.graph->size;
    float *x = zeros(most, sizeof *x), *y = zeros(most, sizeof *y);
    for (enum row row = 0; row < a->setup.rows.n; row++)
        for (size_t i = 0; i < a->setup.n_replicas + a->setup.n_spare; i++) {
            size_t n = row_size(&a->setup, row);
            must(a->ops->read(a, row, i, x));
            must(b->ops->read(b, row, i, y));
            for (size_t k = 0; k < n; k++)
                if (memcmp(&x[k], &y[k], sizeof *x) != 0)
                    fail_msg("%s: row %d of %zu differs at %zu: %.9g and %.9g", what, row, i, k, (double)x[k],
                             (double)y[k]);
        }
    free(x);
    free(y);
}

static struct engine *open_rows(const struct engine_ops *ops, const struct graph *g, const struct dataset *d,
                                const struct optim_settings *optim)
{
    struct engine_setup setup = {.graph = g, .train = &d->train, .test = &d->test, .n_replicas = 3};
    setup.n_spare = 20;
    setup.rows = rows_of(g, optim);
    rows_keep(&setup.rows, (struct row_entry){.name = "first", .size = g->size});
    rows_keep(&setup.rows, (struct row_entry){.name = "history", .size = 3 * g->size, .start = 0.25f});
    setup.batch = 2;
    setup.threads = 1;
    setup.optim = optim;
    struct engine *e = NULL;
    must(ops->open(&setup, &e));
    for (enum row row = 0; row < setup.rows.n; row++)
        for (size_t i = 0; i < 3; i++)
            if (setup.rows.of[row].like != LIKE_NOTHING && (row < ROW_SLOT || row >= ROW_KEPT))
                random_row(e, row, i, 4);
    return e;
}

static void steps_of_every_optimiser_are_the_hosts_bit_for_bit(void **state)
{
    (void)state;
    const struct sgd_settings plain = {.weight_decay = 1e-2},
                              momentum = {.momentum = 0.9, .weight_decay = 1e-4},
                              nesterov = {.momentum = 0.8, .weight_decay = 1e-3, .nesterov = true};
    const struct adagrad_settings adagrad = {.lr_decay = 0.1, .weight_decay = 1e-3, .eps = 1e-10};
    const struct rmsprop_settings rms = {.alpha = 0.99, .weight_decay = 1e-3, .eps = 1e-8},
                                  rms_momentum = {.alpha = 0.9, .momentum = 0.5, .eps = 1e-8};
    const struct adam_settings adam = {.beta1 = 0.9, .beta2 = 0.999, .weight_decay = 1e-2, .eps = 1e-8};
    const struct rule rules[] = {{"sgd", &plain},       {"sgd", &momentum}, {"sgd", &nesterov},
                                 {"adagrad", &adagrad}, {"rmsprop", &rms},  {"rmsprop", &rms_momentum},
                                 {"adam", &adam},       {"adamw", &adam}};
    struct graph *g = model_build("mlp:100", (struct shape){1, 20, 20}, 3);
    struct dataset *d = random_dataset(1, (struct shape){1, 20, 20}, 3, 10, 5);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct optim_settings optim = {
            .kind = {.kind = kind_find(&optim_kinds, rules[i].name), .settings = (void *)rules[i].settings}};
        struct engine *host = open_rows(&engine_ref, g, d, &optim),
                      *cuda = open_rows(&engine_cuda, g, d, &optim);
        struct engine *both[] = {host, cuda};
        for (uint64_t t = 1; t <= 3; t++)
            for (int k = 0; k < 2; k++) {
                const struct update updates[] = {{2, 0.1, t, 0, TO_END}, {0, 0.01 * (double)t, t, 77, 5003}};
                must(both[k]->ops->update(both[k], updates, 2));
            }
        same_rows(host, cuda, rules[i].name);
        engine_close(host);
        engine_close(cuda);
    }
    random_dataset_free(d);
    graph_free(g);
}

static void mixes_are_the_hosts_bit_for_bit(void **state)
{
    (void)state;
    struct graph *g = model_build("mlp:100", (struct shape){1, 20, 20}, 3);
    struct dataset *d = random_dataset(1, (struct shape){1, 20, 20}, 3, 10, 5);
    struct engine *host = open_rows(&engine_ref, g, d, NULL), *cuda = open_rows(&engine_cuda, g, d, NULL);
    struct engine *both[] = {host, cuda};
    for (int k = 0; k < 2; k++) {
        const ptrdiff_t size = (ptrdiff_t)g->size;
        const struct addend all[] = {{0.3f, ROW_PARAMS, 0, 0},
                                     {-0.2f, ROW_PARAMS, 1, 0},
                                     {0.9f, ROW_PARAMS, 2, 0}},
                            mixed[] = {{0.3f, ROW_GRADS, 0, 0},
                                       {-0.2f, ROW_KEPT, 1, 0},
                                       {0.9f, ROW_PARAMS, 2, 0}},
                            past[] = {{0.3f, ROW_GRADS, 0, -size}, {-0.2f, ROW_KEPT + 1, 0, 1 - size}},
                            from_past[] = {{1, ROW_PARAMS, 1, 0}, {0.5f, ROW_KEPT + 1, 2, size}},
                            one[] = {{1, ROW_PARAMS, 22, 0}},
                            back[] = {{0.5f, ROW_GRADS, 4, 0}, {0.5f, ROW_GRADS, 0, 0}};
        const struct blend first[] = {
            {ROW_PARAMS, 22, NO_ROW, 0, TO_END, all, 3},
            {ROW_GRADS, 4, 5, 0, TO_END, mixed, 3},
            {ROW_KEPT + 1, 1, NO_ROW, 10, 3001, mixed, 3},
            {ROW_KEPT + 1, 2, NO_ROW, (size_t)size, (size_t)size + 900, past,
             2}, /* a row of another length */
        };
        const struct blend second[] = {
            {ROW_PARAMS, 0, NO_ROW, 0, TO_END, one, 1},
            {ROW_GRADS, 0, 19, 64, 128, back, 2}, /* reads what it writes */
            {ROW_KEPT, 2, NO_ROW, 0, TO_END, from_past, 2},
        };
        must(both[k]->ops->mix(both[k], first, 4));
        struct blend many[18]; /* more than go along with a launch */
        for (size_t i = 0; i < 18; i++)
            many[i] = (struct blend){ROW_KEPT, 3 + i, NO_ROW, i, TO_END, all, 1 + i % 3};
        must(both[k]->ops->mix(both[k], second, 3));
        must(both[k]->ops->mix(both[k], many, 18));
    }
    same_rows(host, cuda, "mixes");
    engine_close(host);
    engine_close(cuda);
    random_dataset_free(d);
    graph_free(g);
}

/* An argument is a pattern: only the tests whose names match it are run. */
int main(int argc, char **argv)
{
    if (is_missing(&engine_cuda))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_every_optimiser_are_the_hosts_bit_for_bit),
        cmocka_unit_test(mixes_are_the_hosts_bit_for_bit),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
