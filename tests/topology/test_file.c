/* A list of edges is read as it stands; whatever is wrong with it is named with its line. */
#include "topology/graphs.h"

static void reads(const char *text, size_t vertices, size_t edges)
{
    struct topology *t = NULL;
    must(graph_of_text(text, strlen(text), &t));
    assert_int_equal(t->n, vertices);
    assert_int_equal(t->n_edges, edges);
    topology_free(t);
}

/* The sentence must be "e.yaml:6:20: /tmp/...:LINE: " and what is given here; line 0 for none. */
static void refuses_bytes(const char *text, size_t n_bytes, size_t line, const char *sentence)
{
    struct topology *t = NULL;
    fault f = graph_of_text(text, n_bytes, &t);
    if (!f)
        fail_msg("accepted, where this was expected: %s", sentence);
    assert_int_equal(fault_kind_of(f), FAULT_EXPERIMENT);
    char wanted[256];
    const char *told = fault_text(f), *file = strstr(told, "/tmp/veche-edges-");
    snprintf(wanted, sizeof wanted, line ? ":%zu: %s" : ":%.0zu %s", line, sentence);
    assert_true(strncmp(told, "e.yaml:6:20: ", 13) == 0 && file == told + 13);
    assert_string_equal(file + strlen("/tmp/veche-edges-XXXXXX"), wanted);
    assert_null(t);
    fault_drop(f);
}

static void refuses(const char *text, size_t line, const char *sentence)
{
    refuses_bytes(text, strlen(text), line, sentence);
}

static void comments_and_blank_lines_are_passed_over(void **state)
{
    (void)state;
    reads("0 1", 2, 1);
    reads("0 1\n", 2, 1);
    reads("# three in a row\n\n0 1\n  \t\n2\t1 # back\n#\n", 3, 2);
    reads("1 0\r\n2 1\r\n", 3, 2);
    reads("3 0\n0 1\n2 0\n", 4, 3);
}

static void edges_are_those_of_the_file(void **state)
{
    (void)state;
    struct topology *t = NULL;
    const char *text = "4 2\n0 1\n0 2\n0 3\n1 4\n";
    const struct edge expected[] = {{0, 1}, {0, 2}, {0, 3}, {1, 4}, {2, 4}};
    must(graph_of_text(text, strlen(text), &t));
    assert_int_equal(t->n_edges, 5);
    assert_memory_equal(t->edges, expected, sizeof expected);
    topology_free(t);
}

static void junk_is_named_with_its_line(void **state)
{
    (void)state;
    refuses("0 1\n1 two\n", 2, "'two' is not the number of a vertex: 0, 1, 2, ...");
    refuses("0 1\n1 -2\n", 2, "'-2' is not the number of a vertex: 0, 1, 2, ...");
    refuses("0 1\n1 2.5\n", 2, "'2.5' is not the number of a vertex: 0, 1, 2, ...");
    refuses("0,1\n", 1, "'0,1' is not the number of a vertex: 0, 1, 2, ...");
    refuses("\n# one\n0\n", 3, "one number stands here; an edge is two");
    refuses("0 1\n1 2 0.5\n", 2, "'0.5' stands after the edge; a line holds two numbers");
    refuses("0 1000000\n", 1, "vertex 1000000 is beyond the most allowed, 999999");
    refuses("0 99999999999999999999999\n", 1,
            "vertex 99999999999999999999999 is beyond the most allowed, 999999");
    refuses("0 1\x1b\n", 1, "'1?' is not the number of a vertex: 0, 1, 2, ...");
}

static void a_loop_is_named(void **state)
{
    (void)state;
    refuses("0 1\n1 1\n", 2, "vertex 1 is joined to itself");
}

static void an_edge_written_twice_is_named_with_both_lines(void **state)
{
    (void)state;
    refuses("0 1\n# and again\n1 2\n2 0\n1 0\n", 5, "the edge 1 0 stands at line 1 already");
    char many[4096] = "";
    for (int i = 0; i < 200; i++)
        sprintf(many + strlen(many), "%d %d\n", i, i + 1);
    strcat(many, "151 150\n");
    refuses(many, 201, "the edge 151 150 stands at line 151 already");
}

static void a_gap_in_the_numbers_is_named(void **state)
{
    (void)state;
    refuses("0 1\n1 4\n1 2\n", 2, "vertex 4 is named, but no line names vertex 3; numbers have no gaps");
    refuses("1 2\n", 1, "vertex 2 is named, but no line names vertex 0; numbers have no gaps");
}

static void a_graph_in_two_parts_is_named_with_a_line_of_the_second(void **state)
{
    (void)state;
    refuses("0 1\n1 2\n\n4 3\n", 4, "the graph is not connected: there is no way from vertex 0 to vertex 3");
}

static void a_file_without_edges_is_refused(void **state)
{
    (void)state;
    refuses("", 0, "holds no edges");
    refuses("# nobody\n\n", 0, "holds no edges");
}

static void what_is_no_text_is_refused(void **state)
{
    (void)state;
    static char text[5000];
    memset(text, ' ', sizeof text);
    memcpy(text, "0 1\n", 4);
    refuses_bytes(text, sizeof text, 2, "the line is longer than 4096 bytes");
    refuses_bytes("0 1\n1\0 2\n", 9, 2, "holds a zero byte; a list of edges is plain text");
    refuses_bytes("0 1\n\0", 5, 2, "holds a zero byte; a list of edges is plain text");
}

static void a_file_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct topology *t = NULL;
    fault f = topology_make("file:/tmp/veche-there-is-no-such-file", 1, here, &t);
    assert_non_null(f);
    assert_string_equal(
        fault_text(f),
        "e.yaml:6:20: /tmp/veche-there-is-no-such-file: cannot be read: No such file or directory");
    fault_drop(f);
    f = topology_make("file:/tmp", 1, here, &t);
    assert_non_null(f);
    assert_string_equal(fault_text(f), "e.yaml:6:20: /tmp: cannot be read: Is a directory");
    fault_drop(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comments_and_blank_lines_are_passed_over),
        cmocka_unit_test(edges_are_those_of_the_file),
        cmocka_unit_test(junk_is_named_with_its_line),
        cmocka_unit_test(a_loop_is_named),
        cmocka_unit_test(an_edge_written_twice_is_named_with_both_lines),
        cmocka_unit_test(a_gap_in_the_numbers_is_named),
        cmocka_unit_test(a_graph_in_two_parts_is_named_with_a_line_of_the_second),
        cmocka_unit_test(a_file_without_edges_is_refused),
        cmocka_unit_test(what_is_no_text_is_refused),
        cmocka_unit_test(a_file_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
