/* ranks.c - a comparison on ranks: the leader tells the others what to do, and they do it with it.
 *
 *   an order:  's' and the method's experiment   start its run
 *              'r' and the run's folder          resume it
 *              'w'                               wait: the leader trains alone
 *              'e'                               that was all
 *
 * Every rank opens the run, trains and closes it. Where it fails or is stopped, the leader knows why and the
 * others that it has ended; all meet again at the next order. A rank that is gone is not waited for twice.
 */
#include <stdlib.h>
#include <string.h>

#include "api/compare/compare.h"
#include "base/clock.h"

fault compare_order_others(veche_comparison *c, enum order order, const char *text)
{
    size_t n = strlen(text);
    if (!c->ranks.n)
        return OK;
    char *whole = malloc(n + 2);
    if (!whole)
        return OUT_OF_MEMORY;
    whole[0] = (char)order;
    memcpy(whole + 1, text, n + 1);
    c->told_s = clock_now_s();
    fault f = world_spread_text(&c->ranks, &whole, c->patience_s);
    free(whole);
    return f;
}

void compare_keep_others_waiting(veche_comparison *c)
{
    if (c->alone && clock_now_s() - c->told_s > c->patience_s / 4)
        fault_drop(compare_order_others(c, ORDER_WAIT, "")); /* who is gone is missed at the next order */
}

static fault open_as_told(enum order order, const char *text, veche_run **out)
{
    veche_experiment *e;
    if (order == ORDER_RESUME)
        return veche_resume(text, NULL, out);
    TRY(veche_parse(text, COMPARE_FILE, &e));
    fault f = veche_start(e, NULL, out);
    veche_experiment_free(e);
    return f;
}

static fault do_as_told(veche_comparison *c, enum order order, const char *text)
{
    veche_run *r;
    TRY(open_as_told(order, text, &r));
    comparison_hold(c, r);
    fault f = veche_go(r);
    comparison_let_go(c);
    return f;
}

fault compare_follow_orders(veche_comparison *c)
{
    for (;;) {
        char *order = NULL;
        TRY(world_spread_text(&c->ranks, &order, c->patience_s));
        enum order what = (enum order)order[0];
        fault f = what == ORDER_END || what == ORDER_WAIT ? OK : do_as_told(c, what, order + 1);
        free(order);
        if (what == ORDER_END || (f && fault_kind_of(f) != FAULT_ELSEWHERE))
            return f;
        fault_drop(f); /* the leader says what it was */
    }
}
