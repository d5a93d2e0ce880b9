/* What stands on the command line wins over the file, follows the same rules and is named in complaints. */
#include "experiment/experiment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/registry.h"

static const char text[] = "data: {set: dots, batch: 25}\n"
                           "model: [relu, conv: {out: 16}, residual: [conv: {out: 4}]]\n"
                           "optim: {kind: sgd, lr: 0.1}\n"
                           "engine: ref\n"
                           "train: {epochs: 2}\n";

/* Parses the text above with up to three overrides; NULL ends them. */
static fault parse(const char *a, const char *b, const char *c, struct experiment **out)
{
    const char *const all[] = {a, b, c};
    size_t n = 0;
    while (n < 3 && all[n])
        n++;
    return experiment_parse(text, strlen(text), "e.yaml", all, n, &toy_registry, out);
}

static struct experiment *with(const char *a, const char *b, const char *c)
{
    struct experiment *e = NULL;
    fault f = parse(a, b, c, &e);
    if (f)
        fail_msg("refused: %s", fault_text(f));
    return e;
}

static void refuses(const char *override, const char *sentence)
{
    struct experiment *e = NULL;
    fault f = parse(override, NULL, NULL, &e);
    if (!f)
        fail_msg("accepted: %s", override);
    assert_string_equal(fault_text(f), sentence);
    assert_null(e);
    fault_drop(f);
}

static void a_value_in_the_file_is_replaced(void **state)
{
    (void)state;
    struct experiment *e = with("optim.lr=0.5", "data.batch=7", "train.epochs=3.5");
    assert_true(((struct toy_sgd *)e->optim.kind.settings)->lr == 0.5);
    assert_int_equal(e->data.batch, 7);
    assert_true(e->train.epochs == 3.5);
    assert_string_equal(e->data.set.kind->name, "dots"); /* its neighbours stay */
    experiment_free(e);
}

static void a_value_the_file_does_not_have_is_added(void **state)
{
    (void)state;
    struct experiment *e = with("agents=8", "optim.momentum=0.9", "train.evaluate_every=10 rounds");
    assert_int_equal(e->agents, 8);
    assert_true(((struct toy_sgd *)e->optim.kind.settings)->momentum == 0.9);
    assert_int_equal(e->train.evaluate_every.unit, EVERY_ROUNDS);
    assert_true(e->train.evaluate_every.count == 10);
    experiment_free(e);
}

static void sections_the_file_does_not_have_are_made(void **state)
{
    (void)state;
    struct experiment *e = with("machines.rate=5", "optim.schedule.warmup_epochs=2", "name=other");
    assert_true(e->machines.rate == 5);
    assert_true(e->optim.warmup_epochs == 2);
    assert_string_equal(e->name, "other");
    experiment_free(e);
}

static void whole_sections_may_be_given(void **state)
{
    (void)state;
    struct experiment *e =
        with("optim={kind: adam, beta: 0.5}", "model=tower", "strategy={kind: consensus, every: 5}");
    assert_string_equal(e->optim.kind.kind->name, "adam");
    assert_true(((struct toy_adam *)e->optim.kind.settings)->beta == 0.5);
    assert_string_equal(e->model.named.kind->name, "tower");
    assert_int_equal(((struct toy_consensus *)e->strategy.settings)->every, 5);
    experiment_free(e);
    e = with("model=[relu, conv: {out: 3}]", "model.1.conv.out=5", NULL);
    assert_int_equal(((struct toy_conv *)e->model.layers->next->settings)->out, 5);
    assert_null(e->model.layers->next->next);
    experiment_free(e);
}

static void a_plain_value_opens_to_take_settings(void **state)
{
    (void)state;
    struct experiment *e = with("engine.threads=2", "data.set=files", "data.set.size=9");
    assert_string_equal(e->engine.kind.kind->name, "ref");
    assert_int_equal(e->engine.threads, 2);
    assert_string_equal(e->data.set.kind->name, "files");
    assert_int_equal(((struct toy_folder *)e->data.set.settings)->size, 9);
    experiment_free(e);
    e = with("engine.kind=null", NULL, NULL);
    assert_string_equal(e->engine.kind.kind->name, "null");
    experiment_free(e);
    e = with("strategy.kind=consensus", "strategy.every=3", NULL);
    assert_int_equal(((struct toy_consensus *)e->strategy.settings)->every, 3);
    experiment_free(e);
}

static void layers_are_reached_by_number(void **state)
{
    (void)state;
    struct experiment *e =
        with("model.1.conv.out=32", "model.2.residual.0.conv.kernel=1", "model.0.relu.name=first");
    const struct layer *l = e->model.layers;
    assert_string_equal(l->name, "first");
    assert_int_equal(((struct toy_conv *)l->next->settings)->out, 32);
    assert_int_equal(((struct toy_conv *)l->next->next->body->settings)->kernel, 1);
    assert_null(l->next->next->next);
    experiment_free(e);
    e = with("model.0=conv: {out: 2}", NULL, NULL);
    assert_int_equal(((struct toy_conv *)e->model.layers->settings)->out, 2);
    assert_string_equal(e->model.layers->next->kind->name, "conv");
    experiment_free(e);
    e = with("model=[relu, join: a, join: [a, b]]", "model.1.join.name=x", "model.2.join.1=c");
    l = e->model.layers->next;
    assert_string_equal(l->name, "x");
    assert_int_equal(l->from.n, 1);
    assert_string_equal(l->from.at[0], "a");
    assert_string_equal(l->next->from.at[1], "c");
    experiment_free(e);
}

static void the_last_override_wins(void **state)
{
    (void)state;
    struct experiment *e = with("agents=2", "agents=3", "agents=4");
    assert_int_equal(e->agents, 4);
    experiment_free(e);
}

static void nothing_said_is_undone_by_what_follows(void **state)
{
    (void)state;
    const char *const fine[] = {"engine=ref", "engine.threads=2", "engine.threads=3",
                                "engines=1",  "optim.lr=1",       "optim.kind=sgd"};
    fault f = overrides_agree(fine, 6);
    assert_null(f);
    const char *const undone[] = {"optim.lr=1", "engine.threads=2", "engine.kind=ref", "engine=ref"};
    f = overrides_agree(undone, 4);
    assert_non_null(f);
    assert_string_equal(fault_text(f),
                        "command line: engine=ref: would undo 'engine.threads=2' before it; the whole goes "
                        "first, then its parts");
    fault_drop(f);
    assert_null(override_undone(undone, 3, "engine.threads=4")); /* the last of the same wins */
    assert_null(override_undone(undone, 3, "eng=4"));
    assert_string_equal(override_undone(undone, 3, "optim"), "optim.lr=1");
}

static void values_may_hold_equals_signs_and_quotes(void **state)
{
    (void)state;
    struct experiment *e = with("data.set={kind: files, folder: 'a=b c'}", NULL, NULL);
    assert_string_equal(((struct toy_folder *)e->data.set.settings)->folder, "a=b c");
    experiment_free(e);
    e = with("data.set=files", "data.set.folder=/x=y", NULL);
    assert_string_equal(((struct toy_folder *)e->data.set.settings)->folder, "/x=y");
    experiment_free(e);
}

static void complaints_name_the_override(void **state)
{
    (void)state;
    refuses("optim.lr=nan", "command line: optim.lr=nan: 'nan' is not a finite number");
    refuses("agents=0", "command line: agents=0: 0 is below the least allowed, 1");
    refuses("agents=[1]", "command line: agents=[1]: a list was written where a whole number is expected");
    refuses("agnets=3", "command line: agnets=3: unknown key 'agnets'; did you mean 'agents'?");
    refuses("optim.lrr=3",
            "command line: optim.lrr=3: unknown key 'lrr' in optim of kind sgd; did you mean 'lr'?");
    refuses("model=towr", "command line: model=towr: 'towr' is not among the models; did you mean 'tower'?");
    refuses("engine=dnnl", "command line: engine=dnnl: 'dnnl' cannot be used: this build is without oneDNN");
    refuses("optim={kind: sgd, lr: nan}",
            "command line: optim={kind: sgd, lr: nan}: optim.lr: 'nan' is not a finite number");
    refuses("optim={kind: sgd}", "command line: optim={kind: sgd}: the key 'lr' is missing (the step)");
    refuses("optim={kind: sgd, kind: sgd}",
            "command line: optim={kind: sgd, kind: sgd}: kind: this key is written twice");
    refuses("model.1.conv.out=0", "command line: model.1.conv.out=0: 0 is below the least allowed, 1");
    refuses("agents.x=1",
            "command line: agents.x=1: agents: a map was written where a whole number is expected");
}

static void what_the_file_says_keeps_its_place_in_complaints(void **state)
{
    (void)state;
    /* The override changes the kind; the setting that no longer fits stands in the file. */
    refuses("optim.kind=adam", "e.yaml:3:20: optim.lr: unknown key 'lr' in optim of kind adam; known are: "
                               "learning_rate, beta, scale_lr, "
                               "kind, schedule");
}

static void malformed_overrides_are_refused(void **state)
{
    (void)state;
#define FORM "an override is written as key=value or key.key=value"
    refuses("agents", "command line: agents: " FORM);
    refuses("", "command line: : " FORM);
    refuses("=3", "command line: =3: " FORM);
    refuses("optim.=3", "command line: optim.=3: " FORM);
    refuses(".lr=3", "command line: .lr=3: " FORM);
    refuses("two words=1", "command line: two words=1: 'two words' cannot be a key: keys are words of "
                           "letters, digits, '-' and '_'");
    refuses("a\nb=1",
            "command line: a?b=1: 'a?b' cannot be a key: keys are words of letters, digits, '-' and '_'");
    refuses("agents=", "command line: agents=: nothing is written here");
    refuses("optim.lr=[1",
            "command line: optim.lr=[1: this is not YAML: did not find expected ',' or ']' while parsing "
            "a flow sequence");
    refuses("agents=&x 3",
            "command line: agents=&x 3: anchors (&) and aliases (*) are not used in experiments");
    refuses("agents=\xFF",
            "command line: agents=\xFF: this byte cannot stand in YAML text: invalid leading UTF-8 octet");
    refuses("model.9.conv.out=1",
            "command line: model.9.conv.out=1: model has 3 items, numbered from 0; there is no item 9");
    refuses(
        "model.99999999999999999999=1",
        "command line: model.99999999999999999999=1: model has 3 items, numbered from 0; there is no item "
        "99999999999999999999");
    refuses("model.conv.out=1",
            "command line: model.conv.out=1: model is a list: its items are named by number, from 0");
    refuses("model.-1=relu",
            "command line: model.-1=relu: model is a list: its items are named by number, from 0");
    refuses(
        "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a=1",
        "command line: a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a....: more than 32 keys "
        "in a row");
}

static void an_override_of_a_file_that_is_no_map_is_refused_all_the_same(void **state)
{
    (void)state;
    static const char *const overrides[] = {"agents=2"};
    struct experiment *e = NULL;
    fault f = experiment_parse("- a\n", 4, "e.yaml", overrides, 1, &toy_registry, &e);
    assert_non_null(f);
    fault_drop(f);
    f = experiment_parse("word\n", 5, "e.yaml", overrides, 1, &toy_registry, &e);
    assert_non_null(f);
    fault_drop(f);
    assert_null(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_in_the_file_is_replaced),
        cmocka_unit_test(a_value_the_file_does_not_have_is_added),
        cmocka_unit_test(sections_the_file_does_not_have_are_made),
        cmocka_unit_test(whole_sections_may_be_given),
        cmocka_unit_test(a_plain_value_opens_to_take_settings),
        cmocka_unit_test(layers_are_reached_by_number),
        cmocka_unit_test(the_last_override_wins),
        cmocka_unit_test(nothing_said_is_undone_by_what_follows),
        cmocka_unit_test(values_may_hold_equals_signs_and_quotes),
        cmocka_unit_test(complaints_name_the_override),
        cmocka_unit_test(what_the_file_says_keeps_its_place_in_complaints),
        cmocka_unit_test(malformed_overrides_are_refused),
        cmocka_unit_test(an_override_of_a_file_that_is_no_map_is_refused_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
