/* The facts about a graph, and the three ways in which they are shown. */
#include "topology/graphs.h"

#include <jansson.h>
#include <math.h>

#include "topology/layout.h"

static struct survey survey(const struct topology *t, enum weights_kind kind)
{
    struct survey s;
    must(survey_make(t, kind, &s));
    return s;
}

static void has_facts(const char *spec, size_t diameter, double connectivity)
{
    struct topology *t = graph(spec);
    struct survey s = survey(t, WEIGHTS_METROPOLIS);
    if (s.facts.diameter != diameter || !(fabs(s.facts.connectivity - connectivity) < 1e-9))
        fail_msg("%s: diameter %zu, connectivity %.12g", spec, s.facts.diameter, s.facts.connectivity);
    survey_release(&s);
    topology_free(t);
}

static void diameter_and_connectivity_have_their_closed_forms(void **state)
{
    (void)state;
    const double pi = 3.14159265358979323846;
    has_facts("cycle:1", 0, 0);
    has_facts("cycle:2", 1, 2);
    has_facts("cycle:16", 8, 2 - 2 * cos(pi / 8));
    has_facts("cycle:17", 8, 2 - 2 * cos(2 * pi / 17));
    has_facts("path:10", 9, 2 - 2 * cos(pi / 10));
    has_facts("complete:12", 1, 12);
    has_facts("star:16", 2, 1);
    has_facts("hypercube:5", 5, 2);
    has_facts("torus:6x6", 6, 1);
    has_facts("torus:4x7", 5, 2 - 2 * cos(2 * pi / 7));
    has_facts("grid:5x5", 8, 2 - 2 * cos(pi / 5));
}

/* All shortest ways by Floyd and Warshall. */
static void the_diameter_is_the_longest_of_all_shortest_ways(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_EVERY; s++) {
        struct topology *t = graph(every_family[s]);
        struct survey v = survey(t, WEIGHTS_UNIFORM);
        size_t ways[64][64], longest = 0;
        for (size_t i = 0; i < t->n; i++)
            for (size_t j = 0; j < t->n; j++)
                ways[i][j] = i == j ? 0 : 1000;
        for (size_t e = 0; e < t->n_edges; e++)
            ways[t->edges[e].a][t->edges[e].b] = ways[t->edges[e].b][t->edges[e].a] = 1;
        for (size_t k = 0; k < t->n; k++)
            for (size_t i = 0; i < t->n; i++)
                for (size_t j = 0; j < t->n; j++)
                    if (ways[i][k] + ways[k][j] < ways[i][j])
                        ways[i][j] = ways[i][k] + ways[k][j];
        for (size_t i = 0; i < t->n; i++)
            for (size_t j = 0; j < t->n; j++)
                longest = ways[i][j] > longest ? ways[i][j] : longest;
        assert_int_equal(v.facts.diameter, longest);
        survey_release(&v);
        topology_free(t);
    }
}

static void gammas_are_those_of_the_weights(void **state)
{
    (void)state;
    for (size_t g = 0; g < N_EVERY; g++) {
        struct topology *t = graph(every_family[g]);
        struct survey s = survey(t, WEIGHTS_FASTEST);
        for (int k = 0; k < N_WEIGHTS; k++) {
            struct weights w;
            double gamma;
            must(weights_make(t, (enum weights_kind)k, &w));
            must(weights_gamma(t, &w, &gamma));
            assert_true(fabs(s.facts.gamma[k] - gamma) < 1e-12);
            weights_release(&w);
        }
        survey_release(&s);
        topology_free(t);
    }
}

static void halving_takes_as_many_rounds_as_gamma_says(void **state)
{
    (void)state;
    assert_true(survey_rounds_to_halve(0.5) == 1);
    assert_true(fabs(survey_rounds_to_halve(sqrt(0.5)) - 2) < 1e-12);
    assert_true(survey_rounds_to_halve(0) == 0);
}

static void what_is_too_large_is_left_out_and_said(void **state)
{
    (void)state;
    struct topology *t = graph("regular:2002:3");
    struct survey s = survey(t, WEIGHTS_METROPOLIS);
    char *text, *json;
    must(survey_text(t, &s, &text));
    must(survey_json(t, &s, &json));
    assert_true(isnan(s.facts.connectivity));
    for (int k = 0; k < N_WEIGHTS; k++)
        assert_true(isnan(s.facts.gamma[k]));
    assert_non_null(strstr(text, "the graph is too large"));
    assert_non_null(strstr(json, "\"gamma\":{\"uniform\":null,"));
    free(text);
    free(json);
    survey_release(&s);
    topology_free(t);
}

/* W, put together again from the list, has rows that sum to 1 and each edge once. */
static void json_holds_every_weight(void **state)
{
    (void)state;
    for (size_t g = 0; g < N_EVERY; g++) {
        struct topology *t = graph(every_family[g]);
        struct survey s = survey(t, WEIGHTS_FASTEST);
        char *text;
        must(survey_json(t, &s, &text));
        json_t *o = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(o);
        assert_int_equal(json_object_size(o), 7);
        assert_string_equal(json_string_value(json_object_get(o, "spec")), every_family[g]);
        assert_int_equal(json_integer_value(json_object_get(o, "vertices")), t->n);
        assert_int_equal(json_integer_value(json_object_get(o, "edges")), t->n_edges);
        assert_int_equal(json_integer_value(json_object_get(o, "diameter")), s.facts.diameter);
        assert_true(json_real_value(json_object_get(o, "connectivity")) == s.facts.connectivity);
        json_t *gamma = json_object_get(o, "gamma"), *list = json_object_get(o, "weights");
        assert_int_equal(json_object_size(gamma), 4);
        assert_true(json_real_value(json_object_get(gamma, "best_constant")) ==
                    s.facts.gamma[WEIGHTS_BEST_CONSTANT]);
        assert_true(json_real_value(json_object_get(gamma, "fastest")) == s.facts.gamma[WEIGHTS_FASTEST]);
        assert_int_equal(json_array_size(list), t->n + t->n_edges);
        double rows[64] = {0};
        for (size_t k = 0; k < json_array_size(list); k++) {
            json_t *entry = json_array_get(list, k);
            size_t i = (size_t)json_integer_value(json_array_get(entry, 0));
            size_t j = (size_t)json_integer_value(json_array_get(entry, 1));
            double w = json_real_value(json_array_get(entry, 2));
            assert_true(i <= j && j < t->n);
            rows[i] += w;
            rows[j] += i == j ? 0 : w;
        }
        for (size_t i = 0; i < t->n; i++)
            assert_true(fabs(rows[i] - 1) < 1e-12);
        json_decref(o);
        free(text);
        survey_release(&s);
        topology_free(t);
    }
}

static void text_tells_people_the_figures(void **state)
{
    (void)state;
    struct topology *t = graph("torus:6x6");
    struct survey s = survey(t, WEIGHTS_BEST_CONSTANT);
    char *text;
    must(survey_text(t, &s, &text));
    assert_string_equal(text, "torus:6x6\n"
                              "  vertices      36\n"
                              "  edges         72\n"
                              "  diameter      6\n"
                              "  connectivity  1\n"
                              "\n"
                              "  weights           gamma   rounds to halve the disagreement\n"
                              "  uniform        0.800000        3.11\n"
                              "  metropolis     0.800000        3.11\n"
                              "> best-constant  0.777778        2.76\n"
                              "  fastest        0.777778        2.76\n"
                              "\n"
                              "> best-constant weights: 0.2222 on edges; 0.1111 on oneself\n");
    free(text);
    survey_release(&s);
    topology_free(t);
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
        n++;
    return n;
}

static void every_vertex_and_edge_is_drawn(void **state)
{
    (void)state;
    for (size_t g = 0; g < N_EVERY; g++) {
        struct topology *t = graph(every_family[g]);
        struct survey s = survey(t, WEIGHTS_FASTEST);
        char *svg;
        must(survey_svg(t, &s, &svg));
        assert_true(strncmp(svg, "<svg xmlns=", 11) == 0);
        assert_string_equal(svg + strlen(svg) - 7, "</svg>\n");
        assert_int_equal(count(svg, "<circle "), t->n);
        assert_int_equal(count(svg, " on itself</title>"), t->n);
        assert_int_equal(count(svg, " to "), t->n_edges);
        assert_int_equal(count(svg, "nan"), 0);
        assert_int_equal(count(svg, "inf"), 0);
        if (t->n <= 50) /* each with its number */
            assert_true(count(svg, "<text ") >= t->n + 3);
        free(svg);
        survey_release(&s);
        topology_free(t);
    }
}

static void negative_weights_have_another_colour(void **state)
{
    (void)state;
    struct topology *t = graph("path:3");
    struct survey s = survey(t, WEIGHTS_UNIFORM);
    char *before, *after;
    must(survey_svg(t, &s, &before));
    s.weights.edge[1] = -0.2;
    must(survey_svg(t, &s, &after));
    assert_int_equal(count(before, "#d1493f"), 1); /* the empty group */
    assert_int_equal(count(before, "(negative)"), 0);
    assert_int_equal(count(after, "#d1493f"), 2);
    assert_int_equal(count(after, "-0.2 (negative)"), 1);
    free(before);
    free(after);
    survey_release(&s);
    topology_free(t);
}

static void a_torus_is_drawn_with_stubs_where_it_goes_round(void **state)
{
    (void)state;
    const struct {
        const char *spec;
        size_t lines;
    } cases[] = {
        {"torus:6x6", 72 + 12}, {"torus:2x5", 15 + 2}, {"grid:4x4", 24}, {"torus:2x2", 4}, {"torus:1x6", 6}};
    for (size_t c = 0; c < 5; c++) {
        struct topology *t = graph(cases[c].spec);
        struct survey s = survey(t, WEIGHTS_UNIFORM);
        char *svg;
        must(survey_svg(t, &s, &svg));
        assert_int_equal(count(svg, "<path "), cases[c].lines);
        assert_int_equal(count(svg, "stubs go on"), cases[c].lines > t->n_edges);
        free(svg);
        survey_release(&s);
        topology_free(t);
    }
}

static void no_two_vertices_are_drawn_on_each_other(void **state)
{
    (void)state;
    for (size_t g = 0; g < N_EVERY; g++) {
        struct topology *t = graph(every_family[g]);
        struct position positions[64];
        double reach = 0, closest = INFINITY;
        must(layout_positions(t, positions));
        for (size_t i = 0; i < t->n; i++)
            for (size_t j = i + 1; j < t->n; j++) {
                double apart = hypot(positions[i].x - positions[j].x, positions[i].y - positions[j].y);
                reach = fmax(reach, apart);
                closest = fmin(closest, apart);
            }
        if (t->n > 1 && !(closest > 0.02 * reach))
            fail_msg("%s: vertices %g apart in a drawing of %g", t->spec, closest, reach);
        topology_free(t);
    }
}

static void a_crowd_is_not_drawn(void **state)
{
    (void)state;
    struct topology *t = graph("complete:250");
    struct survey s = survey(t, WEIGHTS_UNIFORM);
    char *svg = NULL;
    fault f = survey_svg(t, &s, &svg);
    assert_int_equal(fault_kind_of(f), FAULT_USAGE);
    assert_string_equal(fault_text(f),
                        "complete:250 has 250 vertices and 31125 edges, and up to 5000 and 20000 are drawn");
    fault_drop(f);
    survey_release(&s);
    topology_free(t);
}

static void the_name_of_a_file_is_escaped_in_a_drawing(void **state)
{
    (void)state;
    const char *path = "/tmp/veche-a&b<c>.txt";
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("0 1\n", file);
    fclose(file);
    struct topology *t = graph("file:/tmp/veche-a&b<c>.txt");
    struct survey s = survey(t, WEIGHTS_FASTEST);
    char *svg;
    must(survey_svg(t, &s, &svg));
    assert_int_equal(count(svg, "file:/tmp/veche-a&amp;b&lt;c&gt;.txt</"), 2);
    free(svg);
    survey_release(&s);
    topology_free(t);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(diameter_and_connectivity_have_their_closed_forms),
        cmocka_unit_test(the_diameter_is_the_longest_of_all_shortest_ways),
        cmocka_unit_test(gammas_are_those_of_the_weights),
        cmocka_unit_test(halving_takes_as_many_rounds_as_gamma_says),
        cmocka_unit_test(what_is_too_large_is_left_out_and_said),
        cmocka_unit_test(json_holds_every_weight),
        cmocka_unit_test(text_tells_people_the_figures),
        cmocka_unit_test(every_vertex_and_edge_is_drawn),
        cmocka_unit_test(negative_weights_have_another_colour),
        cmocka_unit_test(a_torus_is_drawn_with_stubs_where_it_goes_round),
        cmocka_unit_test(no_two_vertices_are_drawn_on_each_other),
        cmocka_unit_test(a_crowd_is_not_drawn),
        cmocka_unit_test(the_name_of_a_file_is_escaped_in_a_drawing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
