/* A tree holds what the text said and where; what experiments do not use is refused with line and column. */
#include "experiment/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct node *read_tree(const char *text, struct arena *arena)
{
    struct node *top = NULL;
    fault f = tree_read(text, strlen(text), "t.yaml", arena, &top);
    if (f)
        fail_msg("refused: %s", fault_text(f));
    return top;
}

static void refuses_bytes(const char *text, size_t n, const char *sentence)
{
    struct arena arena = {0};
    struct node *top = NULL;
    fault f = tree_read(text, n, "t.yaml", &arena, &top);
    if (!f)
        fail_msg("accepted: %s", text);
    assert_string_equal(fault_text(f), sentence);
    assert_int_equal(fault_kind_of(f), FAULT_EXPERIMENT);
    assert_null(top);
    fault_drop(f);
    arena_release(&arena);
}

static void refuses(const char *text, const char *sentence)
{
    refuses_bytes(text, strlen(text), sentence);
}

static void is_at(const struct place place, size_t line, size_t column)
{
    assert_string_equal(place.source, "t.yaml");
    assert_int_equal(place.line, line);
    assert_int_equal(place.column, column);
}

static void nodes_remember_kind_text_and_place(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct node *top = read_tree("# a remark\na: 1\nb:\n  - x\n  - 'y z'\nc: {d: [], e: }\n", &arena);
    assert_int_equal(top->kind, NODE_MAP);
    assert_int_equal(top->n, 3);
    is_at(top->place, 2, 1);

    const struct node *a = node_find(top, "a"), *b = node_find(top, "b"), *c = node_find(top, "c");
    assert_int_equal(a->kind, NODE_VALUE);
    assert_string_equal(a->text, "1");
    assert_false(a->quoted);
    is_at(a->key_place, 2, 1);
    is_at(a->place, 2, 4);
    assert_ptr_equal(a->parent, top);

    assert_int_equal(b->kind, NODE_LIST);
    assert_int_equal(b->n, 2);
    assert_string_equal(b->first->text, "x");
    assert_null(b->first->key);
    is_at(b->first->place, 4, 5);
    assert_string_equal(b->first->next->text, "y z");
    assert_true(b->first->next->quoted);

    assert_int_equal(c->kind, NODE_MAP);
    is_at(c->place, 6, 4);
    is_at(node_find(c, "d")->key_place, 6, 5);
    assert_int_equal(node_find(c, "d")->n, 0);
    assert_true(node_is_nothing(node_find(c, "e")));
    assert_null(node_find(c, "f"));
    assert_null(node_find(a, "f"));
    arena_release(&arena);
}

static void paths_name_keys_and_items(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct node *top = read_tree("model:\n- relu\n- conv: {out: 3}\n", &arena);
    char path[64];
    node_path(top, path, sizeof path);
    assert_string_equal(path, "");
    const struct node *item = node_find(top, "model")->first->next;
    node_path(item, path, sizeof path);
    assert_string_equal(path, "model.1");
    node_path(item->first->first, path, sizeof path);
    assert_string_equal(path, "model.1.conv.out");
    char little[8];
    node_path(item->first->first, little, sizeof little);
    assert_string_equal(little, "model.1");
    arena_release(&arena);
}

static void nothing_is_told_from_an_empty_text(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct node *top = read_tree("a:\nb: ~\nc: ''\nd: '~'\ne: null\n", &arena);
    assert_true(node_is_nothing(node_find(top, "a")));
    assert_true(node_is_nothing(node_find(top, "b")));
    assert_false(node_is_nothing(node_find(top, "c")));
    assert_false(node_is_nothing(node_find(top, "d")));
    assert_false(node_is_nothing(node_find(top, "e")));
    arena_release(&arena);
}

static void all_styles_of_text_are_read(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct node *top = read_tree("a: \"x\\ty\"\nb: |\n  two\n  lines\nc: 'it''s'\nd: данные\n", &arena);
    assert_string_equal(node_find(top, "a")->text, "x\ty");
    assert_string_equal(node_find(top, "b")->text, "two\nlines\n");
    assert_true(node_find(top, "b")->quoted);
    assert_string_equal(node_find(top, "c")->text, "it's");
    assert_string_equal(node_find(top, "d")->text, "данные");
    arena_release(&arena);
}

static void a_byte_order_mark_is_passed_over(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct node *top = read_tree("\xEF\xBB\xBF"
                                 "a: 1\n",
                                 &arena);
    assert_string_equal(node_find(top, "a")->text, "1");
    is_at(node_find(top, "a")->key_place, 1, 1);
    arena_release(&arena);
}

static void what_experiments_do_not_use_is_refused(void **state)
{
    (void)state;
    refuses("a: &x 1\n", "t.yaml:1:4: anchors (&) and aliases (*) are not used in experiments");
    refuses("a: &x [1]\n", "t.yaml:1:4: anchors (&) and aliases (*) are not used in experiments");
    refuses("b: 1\na: &x {c: 1}\n", "t.yaml:2:4: anchors (&) and aliases (*) are not used in experiments");
    refuses("a: *x\n", "t.yaml:1:4: anchors (&) and aliases (*) are not used in experiments");
    refuses("a: !!int 1\n", "t.yaml:1:4: tags (!) are not used in experiments");
    refuses("a: !mine {b: 1}\n", "t.yaml:1:4: tags (!) are not used in experiments");
    refuses("a: ! [1]\n", "t.yaml:1:4: tags (!) are not used in experiments");
    refuses("a: 1\n---\nb: 2\n", "t.yaml:2:1: a second document begins here; an experiment is one document");
    refuses("a: 1\n...\n---\n", "t.yaml:3:1: a second document begins here; an experiment is one document");
}

static void keys_are_words_and_stand_once(void **state)
{
    (void)state;
    refuses("a: 1\nb: 2\na: 3\n", "t.yaml:3:1: a: this key is written twice, first in line 1");
    refuses("a: {b: 1, b: 2}\n", "t.yaml:1:11: a.b: this key is written twice, first in line 1");
    refuses("two words: 1\n",
            "t.yaml:1:1: 'two words' cannot be a key: keys are words of letters, digits, '-' and '_'");
    refuses("a.b: 1\n", "t.yaml:1:1: 'a.b' cannot be a key: keys are words of letters, digits, '-' and '_'");
    refuses("1: 1\n", "t.yaml:1:1: '1' cannot be a key: keys are words of letters, digits, '-' and '_'");
    refuses("<<: {a: 1}\n",
            "t.yaml:1:1: '<<' cannot be a key: keys are words of letters, digits, '-' and '_'");
    refuses("'': 1\n", "t.yaml:1:1: '' cannot be a key: keys are words of letters, digits, '-' and '_'");
    refuses("? [a, b]\n: 1\n", "t.yaml:1:3: a list cannot be a key");
    refuses("{{a: 1}: 2}\n", "t.yaml:1:2: a map cannot be a key");
}

static void text_that_is_no_yaml_is_refused_where_it_breaks(void **state)
{
    (void)state;
    refuses("a: [1, 2\nb: 3\n",
            "t.yaml:2:2: this is not YAML: did not find expected ',' or ']' while parsing a flow sequence");
    refuses("a: 'open\n",
            "t.yaml:2:1: this is not YAML: found unexpected end of stream while scanning a quoted scalar");
    refuses("a: 1\n b: 2\n", "t.yaml:2:3: this is not YAML: mapping values are not allowed in this context");
    refuses("a:\n\t- 1\n",
            "t.yaml:2:1: this is not YAML: found character that cannot start any token while scanning "
            "for the next token");
    refuses("a: \"\\ud800\"\n",
            "t.yaml:1:7: this is not YAML: found invalid Unicode character escape code while "
            "parsing a quoted scalar");
}

static void bytes_that_are_no_text_are_refused_where_they_stand(void **state)
{
    (void)state;
    refuses_bytes("a: 1\nb: \0\n", 10,
                  "t.yaml:2:4: this byte cannot stand in YAML text: control characters are not allowed");
    refuses("a: \x01\n",
            "t.yaml:1:4: this byte cannot stand in YAML text: control characters are not allowed");
    refuses("a: 1\nжук: \xFF\n",
            "t.yaml:2:6: this byte cannot stand in YAML text: invalid leading UTF-8 octet");
    refuses("a: \xC3(\n", "t.yaml:1:5: this byte cannot stand in YAML text: invalid trailing UTF-8 octet");
    refuses("a: \xE2\x82",
            "t.yaml:1:4: this byte cannot stand in YAML text: incomplete UTF-8 octet sequence");
    refuses_bytes("\xFF\xFE"
                  "a\0:\0",
                  6, "t.yaml:1:1: this byte cannot stand in YAML text: invalid leading UTF-8 octet");
    refuses("a: \"x\\0y\"\n", "t.yaml:1:4: a text cannot hold a zero byte");
}

static void an_empty_text_is_refused(void **state)
{
    (void)state;
    refuses("", "t.yaml:1:1: nothing is written here");
    refuses("# only a remark\n", "t.yaml:2:1: nothing is written here");
}

static void nesting_has_an_end(void **state)
{
    (void)state;
    char text[200] = "a: ";
    memset(text + 3, '[', TREE_DEPTH - 1);
    memset(text + 3 + TREE_DEPTH - 1, ']', TREE_DEPTH - 1);
    struct arena arena = {0};
    read_tree(text, &arena);
    arena_release(&arena);
    memset(text, 0, sizeof text);
    memset(text, '[', 150);
    refuses(text, "t.yaml:1:33: lists and maps are nested more than 32 deep");
}

static void the_number_of_values_has_an_end(void **state)
{
    (void)state;
    enum { ITEMS = TREE_NODES + 1 };
    char *text = malloc(2 * ITEMS + 10), *t = text;
    *t++ = '[';
    for (size_t i = 0; i < ITEMS; i++) {
        *t++ = '1';
        *t++ = ',';
    }
    memcpy(t, "]", 2);
    refuses(text, "t.yaml:1:200000: more than 100000 values in one file");
    t[-4] = ' '; /* the top and 99999 items */
    t[-3] = ' ';
    t[-2] = ' ';
    t[-5] = ' ';
    struct arena arena = {0};
    assert_int_equal(read_tree(text, &arena)->n, TREE_NODES - 1);
    arena_release(&arena);
    free(text);
}

static void the_number_of_keys_has_an_end(void **state)
{
    (void)state;
    char text[8 * TREE_KEYS + 16], *t = text;
    for (int i = 0; i <= TREE_KEYS; i++)
        t += sprintf(t, "k%d:\n", i);
    refuses(text, "t.yaml:257:1: more than 256 keys in one map");
}

/* Every cut of a good text is a good text or a fault; nothing else, and nothing leaks (the sanitizers look).
 */
static void every_truncation_is_read_or_refused(void **state)
{
    (void)state;
    const char *text =
        "a: {b: [1, 'x', \"y\\n\"], c: {d: e}}\nf:\n  - g: |\n      h\n  - >\n      i\n# end\n";
    for (size_t n = 0; n <= strlen(text); n++) {
        struct arena arena = {0};
        struct node *top = NULL;
        char *exact = malloc(n + 1); /* its own block, so that a read past the end is seen */
        memcpy(exact, text, n);
        fault f = tree_read(exact, n, "t.yaml", &arena, &top);
        assert_true((f == OK) == (top != NULL));
        fault_drop(f);
        free(exact);
        arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_remember_kind_text_and_place),
        cmocka_unit_test(paths_name_keys_and_items),
        cmocka_unit_test(nothing_is_told_from_an_empty_text),
        cmocka_unit_test(all_styles_of_text_are_read),
        cmocka_unit_test(a_byte_order_mark_is_passed_over),
        cmocka_unit_test(what_experiments_do_not_use_is_refused),
        cmocka_unit_test(keys_are_words_and_stand_once),
        cmocka_unit_test(text_that_is_no_yaml_is_refused_where_it_breaks),
        cmocka_unit_test(bytes_that_are_no_text_are_refused_where_they_stand),
        cmocka_unit_test(an_empty_text_is_refused),
        cmocka_unit_test(nesting_has_an_end),
        cmocka_unit_test(the_number_of_values_has_an_end),
        cmocka_unit_test(the_number_of_keys_has_an_end),
        cmocka_unit_test(every_truncation_is_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
