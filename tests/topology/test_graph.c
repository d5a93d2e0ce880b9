/* Every family gives the graph its name promises; a malformed spec gets one sentence with its place. */
#include "topology/graphs.h"

#include <math.h>

#include "base/rng.h"
#include "topology/sketch.h"

static size_t degree(const struct topology *t, size_t i)
{
    return t->first[i + 1] - t->first[i];
}

static bool has_edge(const struct topology *t, size_t a, size_t b)
{
    for (size_t k = t->first[a]; k < t->first[a + 1]; k++)
        if (t->neighbour[k] == b)
            return true;
    return false;
}

static void has_sizes(const char *spec, size_t vertices, size_t edges)
{
    struct topology *t = graph(spec);
    if (t->n != vertices || t->n_edges != edges)
        fail_msg("%s: %zu vertices, %zu edges", spec, t->n, t->n_edges);
    topology_free(t);
}

static void counts_are_those_of_the_family(void **state)
{
    (void)state;
    has_sizes("cycle:1", 1, 0);
    has_sizes("cycle:2", 2, 1);
    has_sizes("cycle:4", 4, 4);
    has_sizes("chords:50:0", 50, 50);
    has_sizes("chords:50:1", 50, 100);
    has_sizes("chords:50:2", 50, 150);
    has_sizes("chords:50:4", 50, 250);
    has_sizes("chords:50:23", 50, 1200);
    has_sizes("torus:6x6", 36, 72);
    has_sizes("torus:2x5", 10, 15);
    has_sizes("torus:1x5", 5, 5);
    has_sizes("grid:5x5", 25, 40);
    has_sizes("complete:36", 36, 630);
    has_sizes("star:16", 16, 15);
    has_sizes("path:8", 8, 7);
    has_sizes("hypercube:0", 1, 0);
    has_sizes("hypercube:4", 16, 32);
    has_sizes("exponential:16", 16, 56);
    has_sizes("regular:32:4", 32, 64);
    has_sizes("small-world:32:4:0.2", 32, 64);
    has_sizes("tree:15:2", 15, 14);
    has_sizes("random:40:1", 40, 780);
}

static void lists_of_edges_and_of_neighbours_agree(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_EVERY; s++) {
        struct topology *t = graph(every_family[s]);
        assert_string_equal(t->spec, every_family[s]);
        for (size_t e = 0; e < t->n_edges; e++) {
            assert_true(t->edges[e].a < t->edges[e].b && t->edges[e].b < t->n);
            if (e)
                assert_true(t->edges[e - 1].a < t->edges[e].a ||
                            (t->edges[e - 1].a == t->edges[e].a && t->edges[e - 1].b < t->edges[e].b));
        }
        assert_int_equal(t->first[0], 0);
        assert_int_equal(t->first[t->n], 2 * t->n_edges);
        for (size_t i = 0; i < t->n; i++)
            for (size_t k = t->first[i]; k < t->first[i + 1]; k++) {
                struct edge e = t->edges[t->edge_of[k]];
                assert_true((e.a == i && e.b == t->neighbour[k]) || (e.b == i && e.a == t->neighbour[k]));
                if (k > t->first[i])
                    assert_true(t->neighbour[k - 1] < t->neighbour[k]);
            }
        topology_free(t);
    }
}

/* Breadth first over the lists of neighbours, where the maker used sets of edges. */
static void every_vertex_can_be_reached(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_EVERY; s++) {
        struct topology *t = graph(every_family[s]);
        uint32_t queue[64] = {0};
        bool seen[64] = {true};
        size_t head = 0, tail = 1;
        for (; head < tail; head++)
            for (size_t k = t->first[queue[head]]; k < t->first[queue[head] + 1]; k++)
                if (!seen[t->neighbour[k]]) {
                    seen[t->neighbour[k]] = true;
                    queue[tail++] = t->neighbour[k];
                }
        assert_int_equal(tail, t->n);
        topology_free(t);
    }
}

static void chords_have_all_the_same_degree(void **state)
{
    (void)state;
    for (size_t n = 5; n < 40; n++)
        for (size_t k = 0; k + 2 <= (n - 1) / 2; k++) {
            char spec[32];
            snprintf(spec, sizeof spec, "chords:%zu:%zu", n, k);
            struct topology *t = graph(spec);
            assert_int_equal(t->n_edges, n * (1 + k));
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(degree(t, i), 2 + 2 * k);
                assert_true(has_edge(t, i, (i + 1) % n));
            }
            topology_free(t);
        }
}

static void a_torus_joins_the_four_around(void **state)
{
    (void)state;
    struct topology *t = graph("torus:5x7");
    for (size_t row = 0; row < 5; row++)
        for (size_t column = 0; column < 7; column++) {
            size_t i = row * 7 + column;
            assert_int_equal(degree(t, i), 4);
            assert_true(has_edge(t, i, row * 7 + (column + 1) % 7));
            assert_true(has_edge(t, i, (row + 1) % 5 * 7 + column));
        }
    assert_int_equal(t->rows, 5);
    assert_int_equal(t->columns, 7);
    topology_free(t);
}

static void neighbours_in_a_hypercube_differ_in_one_bit(void **state)
{
    (void)state;
    struct topology *t = graph("hypercube:6");
    for (size_t e = 0; e < t->n_edges; e++)
        assert_int_equal(__builtin_popcount(t->edges[e].a ^ t->edges[e].b), 1);
    assert_int_equal(t->n_edges, 6 * 32);
    topology_free(t);
}

/* All eight maps of Gabber and Galil, forwards and backwards, for every pair of vertices. */
static void an_expander_has_the_edges_of_its_eight_maps(void **state)
{
    (void)state;
    for (int k = 1; k <= 9; k++) {
        char spec[32];
        snprintf(spec, sizeof spec, "expander:%d", k * k);
        struct topology *t = graph(spec);
        size_t edges = 0;
        for (int p = 0; p < k * k; p++)
            for (int q = p + 1; q < k * k; q++) {
                int x = p / k, y = p % k, u = q / k, v = q % k;
                bool in_row = y == v && ((u - x - 2 * y) % k == 0 || (u - x - 2 * y - 1) % k == 0 ||
                                         (u - x + 2 * y) % k == 0 || (u - x + 2 * y + 1) % k == 0);
                bool in_column = x == u && ((v - y - 2 * x) % k == 0 || (v - y - 2 * x - 1) % k == 0 ||
                                            (v - y + 2 * x) % k == 0 || (v - y + 2 * x + 1) % k == 0);
                assert_int_equal(has_edge(t, (size_t)p, (size_t)q), in_row || in_column);
                edges += in_row || in_column;
            }
        assert_int_equal(t->n_edges, edges);
        topology_free(t);
    }
}

static void each_child_of_a_tree_has_its_parent(void **state)
{
    (void)state;
    struct topology *t = graph("tree:40:3");
    for (size_t i = 1; i < 40; i++)
        assert_true(has_edge(t, i, (i - 1) / 3));
    topology_free(t);
}

static bool same_edges(const struct topology *a, const struct topology *b)
{
    return a->n == b->n && a->n_edges == b->n_edges &&
           memcmp(a->edges, b->edges, a->n_edges * sizeof *a->edges) == 0;
}

static void the_seed_decides_what_is_drawn(void **state)
{
    (void)state;
    const char *const drawn[] = {"random:40:0.2", "regular:40:4", "regular:40:2", "small-world:40:4:0.5"};
    for (size_t s = 0; s < 4; s++) {
        struct topology *a = graph_drawn(drawn[s], 7), *b = graph_drawn(drawn[s], 7),
                        *c = graph_drawn(drawn[s], 8);
        assert_true(same_edges(a, b));
        assert_false(same_edges(a, c));
        topology_free(a);
        topology_free(b);
        topology_free(c);
    }
    struct topology *a = graph_drawn("torus:4x4", 7), *b = graph_drawn("torus:4x4", 8);
    assert_true(same_edges(a, b));
    topology_free(a);
    topology_free(b);
}

static void all_degrees_of_a_regular_graph_are_equal(void **state)
{
    (void)state;
    const struct {
        const char *spec;
        size_t degree;
    } cases[] = {{"regular:10000:4", 4}, {"regular:20:3", 3}, {"regular:21:20", 20}, {"regular:30:17", 17},
                 {"regular:500:2", 2},   {"regular:1:0", 0},  {"regular:3:2", 2}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct topology *t = graph(cases[c].spec);
        for (size_t i = 0; i < t->n; i++)
            assert_int_equal(degree(t, i), cases[c].degree);
        topology_free(t);
    }
}

/* There are 70 graphs of 6 vertices with 3 neighbours each; 10 of them have no triangle. All must be equally
 * likely. */
static void regular_graphs_are_drawn_evenly(void **state)
{
    (void)state;
    size_t without_triangle = 0, draws = 2100;
    for (size_t seed = 0; seed < draws; seed++) {
        struct topology *t = graph_drawn("regular:6:3", seed);
        bool triangle = false;
        for (size_t e = 0; e < t->n_edges; e++)
            for (size_t v = 0; v < 6; v++)
                triangle |= has_edge(t, v, t->edges[e].a) && has_edge(t, v, t->edges[e].b);
        without_triangle += !triangle;
        topology_free(t);
    }
    double expected = (double)draws / 7, deviation = sqrt((double)draws * 6 / 49);
    assert_true(fabs((double)without_triangle - expected) < 5 * deviation);
}

static void each_pair_is_joined_with_the_given_chance(void **state)
{
    (void)state;
    const double chances[] = {0.05, 0.3, 0.9};
    for (size_t c = 0; c < 3; c++) {
        size_t first = 0, last = 0, all = 0, draws = 100;
        for (size_t seed = 0; seed < draws; seed++) {
            char spec[32];
            snprintf(spec, sizeof spec, "random:120:%g", chances[c]);
            struct topology *t = graph_drawn(spec, seed);
            first += has_edge(t, 0, 1);
            last += has_edge(t, 118, 119);
            all += t->n_edges;
            topology_free(t);
        }
        double p = chances[c], n = (double)draws, pairs = 7140 * n;
        assert_true(fabs((double)all - pairs * p) < 6 * sqrt(pairs * p * (1 - p)));
        assert_true(fabs((double)first - n * p) < 6 * sqrt(n * p * (1 - p)));
        assert_true(fabs((double)last - n * p) < 6 * sqrt(n * p * (1 - p)));
    }
}

static void a_small_world_moves_the_given_share_of_edges(void **state)
{
    (void)state;
    struct topology *t = graph("small-world:500:6:0");
    for (size_t i = 0; i < 500; i++)
        for (size_t s = 1; s <= 3; s++)
            assert_true(has_edge(t, i, (i + s) % 500));
    topology_free(t);
    t = graph("small-world:500:6:0.25");
    size_t moved = 0;
    for (size_t i = 0; i < 500; i++)
        for (size_t s = 1; s <= 3; s++)
            moved += !has_edge(t, i, (i + s) % 500);
    assert_int_equal(t->n_edges, 1500);
    assert_true(fabs((double)moved - 375) < 6 * sqrt(1500 * 0.25 * 0.75) + 10);
    topology_free(t);
}

/* Against a plain table, through many puts and drops in a crowded set. */
static void a_set_of_edges_forgets_nothing(void **state)
{
    (void)state;
    enum { N = 40 };
    static bool there[N][N];
    struct edge_set set;
    struct rng random = rng_stream(3, 0, RNG_TEST, 0);
    must(edge_set_init(N * N / 2, &set));
    for (size_t step = 0; step < 20000; step++) {
        struct edge e = edge_between(rng_below(&random, N), rng_below(&random, N));
        assert_int_equal(edge_set_has(&set, e), there[e.a][e.b]);
        if (there[e.a][e.b])
            edge_set_drop(&set, e);
        else
            edge_set_put(&set, e);
        there[e.a][e.b] = !there[e.a][e.b];
    }
    for (uint32_t a = 0; a < N; a++)
        for (uint32_t b = a; b < N; b++)
            assert_int_equal(edge_set_has(&set, (struct edge){a, b}), there[a][b]);
    edge_set_release(&set);
}

static void refuses(const char *spec, const char *sentence)
{
    struct topology *t = NULL;
    fault f = topology_make(spec, 1, here, &t);
    if (!f)
        fail_msg("%s was accepted", spec);
    assert_int_equal(fault_kind_of(f), FAULT_EXPERIMENT);
    assert_string_equal(fault_text(f), sentence);
    assert_null(t);
    fault_drop(f);
}

static void a_malformed_spec_gets_one_sentence_with_its_place(void **state)
{
    (void)state;
    refuses("", "e.yaml:6:20: there is no graph ''; there are cycle:N, torus:RxC, complete:N and others");
    refuses("tours:6x6", "e.yaml:6:20: there is no graph 'tours:6x6'; did you mean 'torus'?");
    refuses("Cycle:4", "e.yaml:6:20: there is no graph 'Cycle:4'; did you mean 'cycle'?");
    refuses("cycle", "e.yaml:6:20: 'cycle' is not of the form cycle:N");
    refuses("cycle:", "e.yaml:6:20: 'cycle:' is not of the form cycle:N");
    refuses("torus:6", "e.yaml:6:20: 'torus:6' is not of the form torus:RxC");
    refuses("torus:x6", "e.yaml:6:20: 'torus:x6' is not of the form torus:RxC");
    refuses("torus:6x", "e.yaml:6:20: 'torus:6x' is not of the form torus:RxC");
    refuses("torus:6x6x6", "e.yaml:6:20: torus:6x6x6: C: '6x6' is not a whole number");
    refuses("cycle:0", "e.yaml:6:20: cycle:0: N: 0 is below the least allowed, 1");
    refuses("cycle:-4", "e.yaml:6:20: cycle:-4: N: -4 is below the least allowed, 1");
    refuses("cycle:4.5", "e.yaml:6:20: cycle:4.5: N: '4.5' is not a whole number");
    refuses("cycle:4:5", "e.yaml:6:20: cycle:4:5: N: '4:5' is not a whole number");
    refuses("cycle:4 ", "e.yaml:6:20: cycle:4 : N: '4 ' is not a whole number");
    refuses("path:1000001", "e.yaml:6:20: path:1000001: N: 1000001 is above the most allowed, 1000000");
    refuses("grid:5000x5000",
            "e.yaml:6:20: grid:5000x5000: has 25000000 vertices; the most allowed is 1000000");
    refuses("complete:10000",
            "e.yaml:6:20: complete:10000: has 49995000 edges; the most allowed is 16777216");
    refuses("chords:5:2", "e.yaml:6:20: chords:5:2: K: 2 is more than a cycle of 5 has room for, 1");
    refuses("chords:1:1", "e.yaml:6:20: chords:1:1: K: 1 is more than a cycle of 1 has room for, 0");
    refuses("expander:24",
            "e.yaml:6:20: expander:24: an expander has a square number of vertices, such as 16 or 25");
    refuses("hypercube:20", "e.yaml:6:20: hypercube:20: D: 20 is above the most allowed, 19");
    refuses("random:12:1.5", "e.yaml:6:20: random:12:1.5: P: 1.5 is above the most allowed, 1");
    refuses("random:12:nan", "e.yaml:6:20: random:12:nan: P: 'nan' is not a finite number");
    refuses("regular:5:3",
            "e.yaml:6:20: regular:5:3: 5 vertices cannot all have 3 neighbours: one of the two must be even");
    refuses("regular:4:4", "e.yaml:6:20: regular:4:4: among 4 vertices none has 4 neighbours");
    refuses("regular:6:1",
            "e.yaml:6:20: regular:6:1: with 1 neighbours each, 6 vertices are never connected");
    refuses("small-world:9:0:0.1",
            "e.yaml:6:20: small-world:9:0:0.1: with 0 neighbours each, 9 vertices are never connected");
    refuses("tree:5:0", "e.yaml:6:20: tree:5:0: FANOUT: 0 is below the least allowed, 1");
    refuses("file:a\nb", "e.yaml:6:20: the graph 'file:a?b' holds a control character");
}

static void a_graph_that_is_never_connected_is_given_up(void **state)
{
    (void)state;
    refuses("random:200:0.0001",
            "e.yaml:6:20: random:200:0.0001: none of 100 draws was connected (the last has no way "
            "from vertex 0 to vertex 1)");
}

static void every_row_of_the_list_can_be_made(void **state)
{
    (void)state;
    for (size_t i = 0; i < topology_kinds.n; i++) {
        const struct kind *k = &topology_kinds.rows[i];
        bool tried = strcmp(k->name, "file") == 0;
        assert_true(strncmp(k->pattern, k->name, strlen(k->name)) == 0 && k->pattern[strlen(k->name)] == ':');
        assert_non_null(k->help);
        for (size_t s = 0; s < N_EVERY; s++)
            tried |= kind_find(&topology_kinds, every_family[s]) == k;
        assert_true(tried);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_of_the_family),
        cmocka_unit_test(lists_of_edges_and_of_neighbours_agree),
        cmocka_unit_test(every_vertex_can_be_reached),
        cmocka_unit_test(chords_have_all_the_same_degree),
        cmocka_unit_test(a_torus_joins_the_four_around),
        cmocka_unit_test(neighbours_in_a_hypercube_differ_in_one_bit),
        cmocka_unit_test(an_expander_has_the_edges_of_its_eight_maps),
        cmocka_unit_test(each_child_of_a_tree_has_its_parent),
        cmocka_unit_test(the_seed_decides_what_is_drawn),
        cmocka_unit_test(all_degrees_of_a_regular_graph_are_equal),
        cmocka_unit_test(regular_graphs_are_drawn_evenly),
        cmocka_unit_test(each_pair_is_joined_with_the_given_chance),
        cmocka_unit_test(a_small_world_moves_the_given_share_of_edges),
        cmocka_unit_test(a_set_of_edges_forgets_nothing),
        cmocka_unit_test(a_malformed_spec_gets_one_sentence_with_its_place),
        cmocka_unit_test(a_graph_that_is_never_connected_is_given_up),
        cmocka_unit_test(every_row_of_the_list_can_be_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
