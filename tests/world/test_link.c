/* The local world is held to what link.h promises; and the suite to be about all of it. */
#include "link/suite.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

/* A file as one line of words: comments' stars and line ends are spaces. The caller frees. */
static char *words_of(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 20), *to = text;
    assert_non_null(file);
    assert_non_null(text);
    for (int c, before = ' '; (c = fgetc(file)) != EOF; before = *to++) {
        *to = (char)(isspace(c) || c == '*' ? ' ' : c);
        to -= *to == ' ' && before == ' ';
    }
    fclose(file);
    return text;
}

static void every_case_cites_words_that_stand_in_link_h(void **state)
{
    static const struct link_case *const all[] = {cases_of_messages, cases_of_rows, cases_of_peers};
    char *header = words_of("src/link/link.h");
    (void)state;
    for (size_t i = 0; i < 3; i++)
        for (const struct link_case *c = all[i]; c->name; c++) {
            assert_non_null(c->says[0]);
            for (size_t j = 0; j < 3 && c->says[j]; j++)
                if (!strstr(header, c->says[j]))
                    fail_msg("%s: link.h does not say '%s'", c->name, c->says[j]);
        }
    free(header);
}

static void every_verb_of_link_h_is_in_a_case(void **state)
{
    static const char *const files[] = {"tests/link/messages.c", "tests/link/rows.c", "tests/link/peers.c"};
    char *header = words_of("src/link/link.h"), *cases[3];
    size_t n_verbs = 0;
    (void)state;
    for (size_t i = 0; i < 3; i++)
        cases[i] = words_of(files[i]);
    for (char *at = header; (at = strstr(at, " link_")); at++) {
        char verb[64] = "";
        bool is_used = false;
        if (sscanf(at, " %60[a-z_](", verb) != 1 || at[strlen(verb) + 1] != '(' ||
            !strstr(at - 40, "static inline"))
            continue;
        strcat(verb, "(");
        for (size_t i = 0; i < 3; i++)
            is_used = is_used || strstr(cases[i], verb);
        if (!is_used)
            fail_msg("no case has %s", verb);
        n_verbs++;
    }
    assert_true(n_verbs > 25);
    for (size_t i = 0; i < 3; i++)
        free(cases[i]);
    free(header);
}

int main(void)
{
    static const size_t sizes[] = {1, 2, 3, 4, 7};
    static const struct suite_world local = {.name = "local"};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_cites_words_that_stand_in_link_h),
        cmocka_unit_test(every_verb_of_link_h_is_in_a_case),
    };
    struct ranks ranks;
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        must(world_named(local.name)->join(false, &ranks));
        n_failed += suite_run(&local, &ranks, sizes[i]);
    }
    return n_failed;
}
