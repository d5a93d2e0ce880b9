/* A fault carries its kind and its sentence upwards, unharmed. */
#include "base/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void a_fault_has_its_kind_and_its_sentence(void **state)
{
    (void)state;
    fault f = FAIL(FAULT_SHAPE, "linear: %d inputs meet %s", 3, "four rows");
    assert_int_equal(fault_kind_of(f), FAULT_SHAPE);
    assert_string_equal(fault_text(f), "linear: 3 inputs meet four rows");
    fault_drop(f);
    fault_drop(OK);
}

static void words_can_be_put_before_it(void **state)
{
    (void)state;
    fault f = FAIL(FAULT_DATA, "row %d", 5);
    f = fault_before(f, "%s:%d: ", "file", 7);
    f = fault_before(f, "100%%: ");
    assert_string_equal(fault_text(f), "100%: file:7: row 5");
    assert_int_equal(fault_kind_of(f), FAULT_DATA);
    fault_drop(f);
}

static void an_overlong_sentence_is_cut_not_spilt(void **state)
{
    (void)state;
    char words[4000];
    memset(words, 'w', sizeof words);
    words[3999] = '\0';
    fault f = FAIL(FAULT_USAGE, "%s", words);
    assert_in_range(strlen(fault_text(f)), 500, 3998);
    f = fault_before(f, "%s", words);
    assert_in_range(strlen(fault_text(f)), 1000, 7997);
    fault_drop(f);
}

static fault third(int step, int *calls)
{
    ++*calls;
    return step == 3 ? FAIL(FAULT_PEER, "gone") : OK;
}

static fault first_of_three(int *calls)
{
    TRY(third(1, calls));
    TRY(third(3, calls));
    TRY(third(3, calls));
    return OK;
}

static fault with_undoing(int *calls, int *undone)
{
    fault f;
    TRY_OR(undo, f, third(1, calls));
    TRY_OR(undo, f, third(3, calls));
    ++*calls;
undo:
    ++*undone;
    return f;
}

static void try_stops_at_the_first_fault(void **state)
{
    (void)state;
    int calls = 0, undone = 0;
    fault f = first_of_three(&calls);
    assert_non_null(f);
    assert_int_equal(calls, 2);
    assert_int_equal(fault_kind_of(f), FAULT_PEER);
    fault_drop(f);
    calls = 0;
    f = with_undoing(&calls, &undone);
    assert_string_equal(fault_text(f), "gone");
    assert_int_equal(calls, 2);
    assert_int_equal(undone, 1);
    fault_drop(f);
}

static void two_faults_do_not_share_their_words(void **state)
{
    (void)state;
    fault a = FAIL(FAULT_FILE, "first"), b = FAIL(FAULT_ENGINE, "second");
    assert_string_equal(fault_text(a), "first");
    assert_string_equal(fault_text(b), "second");
    fault_drop(a);
    assert_string_equal(fault_text(b), "second");
    fault_drop(b);
}

static void every_kind_has_help(void **state)
{
    (void)state;
    for (int k = 0; k < FAULT_KINDS; k++) {
        assert_non_null(fault_kind_help((enum fault_kind)k));
        assert_true(strlen(fault_kind_help((enum fault_kind)k)) > 5);
    }
    assert_string_equal(fault_kind_help(FAULT_MEMORY), "out of memory");
    assert_string_equal(fault_kind_help(FAULT_STOPPED), "stopped on request");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fault_has_its_kind_and_its_sentence),
        cmocka_unit_test(words_can_be_put_before_it),
        cmocka_unit_test(an_overlong_sentence_is_cut_not_spilt),
        cmocka_unit_test(try_stops_at_the_first_fault),
        cmocka_unit_test(two_faults_do_not_share_their_words),
        cmocka_unit_test(every_kind_has_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
