/* Weights keep the mean and bring agreement as fast as promised: against closed forms, published figures, and
 * mixing carried out. */
#include "topology/graphs.h"

#include <math.h>

#include "base/rng.h"

static const double pi = 3.14159265358979323846;

static struct weights weights(const struct topology *t, enum weights_kind kind)
{
    struct weights w;
    must(weights_make(t, kind, &w));
    return w;
}

static double gamma_of(const struct topology *t, const struct weights *w)
{
    double gamma = NAN;
    must(weights_gamma(t, w, &gamma));
    return gamma;
}

static double gamma_in(const char *spec, enum weights_kind kind)
{
    struct topology *t = graph(spec);
    struct weights w = weights(t, kind);
    double gamma = gamma_of(t, &w);
    weights_release(&w);
    topology_free(t);
    return gamma;
}

static void close_to(double found, double wanted, double tolerance)
{
    if (!(fabs(found - wanted) <= tolerance))
        fail_msg("%.9g, where %.9g was expected", found, wanted);
}

/* One round: y = W x, by neighbours. */
static void mix(const struct topology *t, const struct weights *w, const double *x, double *y)
{
    for (size_t i = 0; i < t->n; i++) {
        y[i] = w->self[i] * x[i];
        for (size_t k = t->first[i]; k < t->first[i + 1]; k++)
            y[i] += w->edge[t->edge_of[k]] * x[t->neighbour[k]];
    }
}

static double mean(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

/* The squared distance from the mean. */
static double disagreement(const double *x, size_t n)
{
    double sum = 0, middle = mean(x, n);
    for (size_t i = 0; i < n; i++)
        sum += (x[i] - middle) * (x[i] - middle);
    return sum;
}

static void draw_values(double *x, size_t n, uint64_t index)
{
    struct rng random = rng_stream(5, 0, RNG_TEST, index);
    for (size_t i = 0; i < n; i++)
        x[i] = rng_normal(&random);
}

typedef void check(const struct topology *t, const struct weights *w, enum weights_kind kind);

static void for_every_graph_and_kind(check *c)
{
    for (size_t s = 0; s < N_EVERY; s++) {
        struct topology *t = graph(every_family[s]);
        for (int k = 0; k < N_WEIGHTS; k++) {
            struct weights w = weights(t, (enum weights_kind)k);
            c(t, &w, (enum weights_kind)k);
            weights_release(&w);
        }
        topology_free(t);
    }
}

static void keeps_the_mean(const struct topology *t, const struct weights *w, enum weights_kind kind)
{
    (void)kind;
    double x[64], y[64];
    draw_values(x, t->n, 0);
    mix(t, w, x, y);
    close_to(mean(y, t->n), mean(x, t->n), 1e-14);
    for (size_t i = 0; i < t->n; i++)
        x[i] = 3;
    mix(t, w, x, y);
    for (size_t i = 0; i < t->n; i++)
        close_to(y[i], 3, 1e-13);
}

static void mixing_keeps_the_mean_and_an_agreement(void **state)
{
    (void)state;
    for_every_graph_and_kind(keeps_the_mean);
}

/* No round may shrink the squared disagreement less than gamma^2 says; in the long run it shrinks by just
 * that. */
static void shrinks_by_gamma(const struct topology *t, const struct weights *w, enum weights_kind kind)
{
    (void)kind;
    enum { ROUNDS = 6000 };
    double x[64], y[64], gamma = gamma_of(t, w), last = 1, product = 0;
    draw_values(x, t->n, 1);
    for (int round = 0; round < ROUNDS; round++) {
        double before = disagreement(x, t->n), middle = mean(x, t->n);
        if (t->n == 1 || gamma < 1e-9)
            break;
        for (size_t i = 0; i < t->n; i++)
            x[i] = (x[i] - middle) / sqrt(before);
        mix(t, w, x, y);
        last = disagreement(y, t->n);
        if (last > gamma * gamma + 1e-12)
            fail_msg("%s: a round left %.12g of the squared disagreement, gamma^2 is %.12g", t->spec, last,
                     gamma * gamma);
        product += round >= ROUNDS / 2 ? log(last) : 0;
        memcpy(x, y, t->n * sizeof *x);
    }
    if (t->n > 1 && gamma > 1e-9)
        close_to(exp(product / (ROUNDS / 2)), gamma * gamma, 1e-5);
    if (t->n > 1 && gamma < 1e-9) {
        mix(t, w, x, y);
        close_to(disagreement(y, t->n), 0, 1e-18);
    }
}

static void disagreement_shrinks_by_gamma_squared_a_round(void **state)
{
    (void)state;
    for_every_graph_and_kind(shrinks_by_gamma);
}

/* Of the best constant, from the second smallest and the largest eigenvalue of the Laplacian. */
static double best(double second, double largest)
{
    return (largest - second) / (largest + second);
}

static void constants_have_their_closed_forms(void **state)
{
    (void)state;
    close_to(gamma_in("cycle:16", WEIGHTS_BEST_CONSTANT), best(2 - 2 * cos(pi / 8), 4), 1e-12);
    close_to(gamma_in("cycle:16", WEIGHTS_UNIFORM), fabs(1 - (2 - 2 * cos(pi / 8)) / 3), 1e-12);
    close_to(gamma_in("cycle:7", WEIGHTS_BEST_CONSTANT),
             best(2 - 2 * cos(2 * pi / 7), 2 - 2 * cos(6 * pi / 7)), 1e-12);
    close_to(gamma_in("complete:9", WEIGHTS_BEST_CONSTANT), 0, 1e-12);
    close_to(gamma_in("complete:9", WEIGHTS_UNIFORM), 0, 1e-12);
    close_to(gamma_in("star:16", WEIGHTS_BEST_CONSTANT), best(1, 16), 1e-12);
    close_to(gamma_in("star:16", WEIGHTS_METROPOLIS), 1 - 1.0 / 16, 1e-12);
    close_to(gamma_in("hypercube:5", WEIGHTS_BEST_CONSTANT), best(2, 10), 1e-12);
    close_to(gamma_in("hypercube:5", WEIGHTS_UNIFORM), 1 - 2.0 / 6, 1e-12);
    close_to(gamma_in("torus:6x6", WEIGHTS_BEST_CONSTANT), best(1, 8), 1e-12);
    close_to(gamma_in("torus:3x5", WEIGHTS_BEST_CONSTANT),
             best(2 - 2 * cos(2 * pi / 5), 3 + 2 - 2 * cos(4 * pi / 5)), 1e-12);
    close_to(gamma_in("path:9", WEIGHTS_BEST_CONSTANT), cos(pi / 9), 1e-12);
}

static void published_figures_hold(void **state)
{
    (void)state;
    close_to(gamma_in("cycle:16", WEIGHTS_BEST_CONSTANT), 0.9267, 5e-5);
    close_to(gamma_in("star:16", WEIGHTS_BEST_CONSTANT), 0.8824, 5e-5);
    close_to(gamma_in("grid:5x5", WEIGHTS_METROPOLIS), 0.9162, 5e-5);
    close_to(gamma_in("grid:5x5", WEIGHTS_FASTEST), 0.8867, 5e-5);
}

static void the_small_example_has_its_known_fastest_weights(void **state)
{
    (void)state;
    struct topology *t;
    const char *text = "0 1\n0 2\n0 3\n1 4\n4 2\n";
    const double wanted[] = {1.0 / 3, 1.0 / 3, 1.0 / 2, 1.0 / 3, 1.0 / 3};
    must(graph_of_text(text, strlen(text), &t));
    struct weights w = weights(t, WEIGHTS_FASTEST);
    for (size_t e = 0; e < 5; e++)
        close_to(w.edge[e], wanted[e], 1e-4);
    close_to(gamma_of(t, &w), 2.0 / 3, 1e-6);
    weights_release(&w);
    topology_free(t);
}

/* Where every edge looks like every other, convexity makes one constant the best; of a path it is 1/2. */
static void the_fastest_weights_of_symmetric_graphs_are_constant(void **state)
{
    (void)state;
    close_to(gamma_in("cycle:16", WEIGHTS_FASTEST), best(2 - 2 * cos(pi / 8), 4), 1e-12);
    close_to(gamma_in("star:16", WEIGHTS_FASTEST), best(1, 16), 1e-12);
    close_to(gamma_in("hypercube:4", WEIGHTS_FASTEST), best(2, 8), 1e-12);
    close_to(gamma_in("torus:6x6", WEIGHTS_FASTEST), best(1, 8), 1e-12);
    close_to(gamma_in("complete:36", WEIGHTS_FASTEST), 0, 1e-12);
    close_to(gamma_in("path:12", WEIGHTS_FASTEST), cos(pi / 12), 1e-12);
}

static void is_certified(const struct topology *t, const struct weights *w, enum weights_kind kind)
{
    if (kind != WEIGHTS_FASTEST) {
        assert_true(w->certificate == 0);
        return;
    }
    double gamma = gamma_of(t, w);
    if (!(w->certificate <= gamma + 1e-9 && w->certificate >= gamma - 1e-6))
        fail_msg("%s: gamma %.9g, certificate %.9g", t->spec, gamma, w->certificate);
}

static void the_fastest_weights_are_certified(void **state)
{
    (void)state;
    for_every_graph_and_kind(is_certified);
}

static void drawn_graphs_are_certified_too(void **state)
{
    (void)state;
    const char *const drawn[] = {"random:14:0.25", "random:20:0.5", "random:25:0.9", "regular:24:5",
                                 "small-world:30:4:0.3"};
    for (size_t s = 0; s < 5; s++)
        for (uint64_t seed = 0; seed < 12; seed++) {
            struct topology *t = graph_drawn(drawn[s], seed);
            struct weights w = weights(t, WEIGHTS_FASTEST), c = weights(t, WEIGHTS_BEST_CONSTANT);
            is_certified(t, &w, WEIGHTS_FASTEST);
            assert_true(gamma_of(t, &w) <= gamma_of(t, &c));
            weights_release(&w);
            weights_release(&c);
            topology_free(t);
        }
}

/* gamma is convex in the weights, so weights that no small change betters are the best; and no weights at all
 * may go below the certificate. */
static void no_other_weights_are_faster(void **state)
{
    (void)state;
    const char *const graphs[] = {"grid:3x4", "random:12:0.3", "tree:15:2", "exponential:12"};
    for (size_t s = 0; s < 4; s++) {
        struct topology *t = graph(graphs[s]);
        struct weights w = weights(t, WEIGHTS_FASTEST), other = weights(t, WEIGHTS_METROPOLIS);
        struct rng random = rng_stream(9, 0, RNG_TEST, s);
        double gamma = gamma_of(t, &w);
        for (int trial = 0; trial < 400; trial++) {
            double size = pow(10, -4 * rng_uniform(&random));
            for (size_t e = 0; e < t->n_edges; e++)
                other.edge[e] = w.edge[e] + size * rng_normal(&random);
            double found = gamma_of(t, &other);
            assert_true(found >= gamma - 1e-7);
            assert_true(found >= w.certificate);
        }
        weights_release(&w);
        weights_release(&other);
        topology_free(t);
    }
}

static void fastest_is_never_worse(const struct topology *t, const struct weights *w, enum weights_kind kind)
{
    struct weights f = weights(t, WEIGHTS_FASTEST);
    if (kind != WEIGHTS_FASTEST)
        assert_true(gamma_of(t, &f) <= gamma_of(t, w) + 1e-12);
    weights_release(&f);
}

static void the_fastest_weights_are_never_worse_than_others(void **state)
{
    (void)state;
    for_every_graph_and_kind(fastest_is_never_worse);
}

static void some_fastest_weights_are_negative(void **state)
{
    (void)state;
    bool negative = false;
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct topology *t = graph_drawn("small-world:32:4:0.2", seed);
        struct weights w = weights(t, WEIGHTS_FASTEST);
        for (size_t e = 0; e < t->n_edges; e++)
            negative |= w.edge[e] < -1e-3;
        weights_release(&w);
        topology_free(t);
    }
    assert_true(negative);
}

static void simple_weights_are_one_over_degrees(void **state)
{
    (void)state;
    struct topology *t = graph("tree:7:2"); /* degrees 2 3 3 1 1 1 1 */
    struct weights u = weights(t, WEIGHTS_UNIFORM), m = weights(t, WEIGHTS_METROPOLIS);
    for (size_t e = 0; e < t->n_edges; e++) {
        close_to(u.edge[e], 0.25, 0);
        close_to(m.edge[e], 0.25, 0);
    }
    close_to(u.self[0], 0.5, 0);
    close_to(u.self[3], 0.75, 0);
    weights_release(&u);
    weights_release(&m);
    topology_free(t);
    t = graph("path:4");
    u = weights(t, WEIGHTS_UNIFORM);
    close_to(u.edge[0], 1.0 / 3, 0);
    close_to(u.self[0], 2.0 / 3, 1e-15);
    weights_release(&u);
    topology_free(t);
    t = graph("grid:3x3"); /* a corner has 2 neighbours, a side 3, the middle 4 */
    m = weights(t, WEIGHTS_METROPOLIS);
    close_to(m.edge[0], 0.25, 0);                      /* 0 1 */
    close_to(m.edge[t->edge_of[t->first[4]]], 0.2, 0); /* 1 4 */
    weights_release(&m);
    topology_free(t);
}

static void large_graphs_have_simple_weights_only(void **state)
{
    (void)state;
    struct topology *t = graph("regular:10000:4");
    struct weights w = weights(t, WEIGHTS_METROPOLIS);
    double gamma;
    close_to(w.edge[12345], 0.2, 0);
    close_to(w.self[9999], 0.2, 1e-15);
    assert_int_equal(weights_usual(t), WEIGHTS_METROPOLIS);
    fault f = weights_gamma(t, &w, &gamma);
    assert_int_equal(fault_kind_of(f), FAULT_USAGE);
    assert_string_equal(fault_text(f),
                        "regular:10000:4 has 10000 vertices, and eigenvalues are computed for up to 2000");
    fault_drop(f);
    weights_release(&w);
    f = weights_make(t, WEIGHTS_FASTEST, &w);
    assert_int_equal(fault_kind_of(f), FAULT_USAGE);
    assert_string_equal(fault_text(f),
                        "regular:10000:4 has 10000 vertices and 20000 edges, and fastest weights are "
                        "sought for up to 300 and 1000; take metropolis");
    fault_drop(f);
    f = weights_make(t, WEIGHTS_BEST_CONSTANT, &w);
    assert_int_equal(fault_kind_of(f), FAULT_USAGE);
    fault_drop(f);
    topology_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixing_keeps_the_mean_and_an_agreement),
        cmocka_unit_test(disagreement_shrinks_by_gamma_squared_a_round),
        cmocka_unit_test(constants_have_their_closed_forms),
        cmocka_unit_test(published_figures_hold),
        cmocka_unit_test(the_small_example_has_its_known_fastest_weights),
        cmocka_unit_test(the_fastest_weights_of_symmetric_graphs_are_constant),
        cmocka_unit_test(the_fastest_weights_are_certified),
        cmocka_unit_test(drawn_graphs_are_certified_too),
        cmocka_unit_test(no_other_weights_are_faster),
        cmocka_unit_test(the_fastest_weights_are_never_worse_than_others),
        cmocka_unit_test(some_fastest_weights_are_negative),
        cmocka_unit_test(simple_weights_are_one_over_degrees),
        cmocka_unit_test(large_graphs_have_simple_weights_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
