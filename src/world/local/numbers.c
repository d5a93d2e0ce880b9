/* numbers.c - numbers that decide: computed, told, and written down so that a replay can tell them again.
 *
 *   ask:     onto the tape -> park -> (nothing more happens at this moment) -> the tape is computed -> journal -> woken
 *   replay:                   park -> (nothing more happens at this moment) -> journal               -> woken
 *
 * Both ways an agent is woken at the same place in the order of turns, so a replay lives through the same run. The journal of a
 * member is what it was told, over all its lives: an agent that crashed and returned goes on in it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "world/local/inside.h"
#include "world/numbers.h"

fault local_number(struct link *l, const struct question *q, double *out)
{
    struct actor *a = actor_of(l);
    struct local *w = a->world;
    MUST_BE_UP(a);
    struct asker asker = {a->agent->lessons, a->is_learning, a->gradient_is_new};
    TRY(number_check(l, &w->engine->setup, asker, q, &a->question));
    q = &a->question;
    TRY(actor_move_floats(a, (struct span){1u << q->row, q->first, q->end}, number_rows(q)));
    if (q->about == NUMBER_DOT)
        TRY(tape_dot(w->tape, (struct dot){l->self, q->row, q->other, q->first, q->end, q->shift},
                     &a->number));
    a->asks = true;
    a->next_asker = NULL;
    *w->askers_end = a;
    w->askers_end = &a->next_asker;
    TRY(actor_park(a));
    *out = a->number;
    return OK;
}

/* Room for one more, made before it is needed seldom enough: it doubles. */
static fault make_room(struct journal *j)
{
    size_t room = j->room ? 2 * j->room : 64;
    if (j->n < j->room)
        return OK;
    double *longer = realloc(j->at, room * sizeof *longer);
    if (!longer)
        return OUT_OF_MEMORY;
    j->at = longer;
    j->room = room;
    return OK;
}

static fault write_down(struct actor *a)
{
    struct journal *j = &a->journal;
    if (a->question.about == NUMBER_LOSS)
        a->number = a->agent->loss;
    TRY(number_judge(&a->link, &a->world->engine->setup, &a->question, a->number));
    TRY(make_room(j));
    j->at[j->n++] = a->number;
    return OK;
}

static fault read_again(struct actor *a)
{
    struct journal *j = &a->journal;
    if (j->read == j->n)
        return FAIL(FAULT_CHECKPOINT,
                    "it has %zu of the numbers that agent %zu asked for, and there were more", j->n,
                    a->link.self);
    a->number = j->at[j->read++];
    return OK;
}

fault ask_answer_all(struct local *w)
{
    if (!w->replaying)
        TRY(tape_flush(w->tape));
    while (w->askers) {
        struct actor *a = w->askers;
        w->askers = a->next_asker;
        a->asks = false;
        TRY(w->replaying ? read_again(a) : write_down(a));
        actor_wake(a, OK);
    }
    w->askers_end = &w->askers;
    return OK;
}

void ask_no_more(struct actor *a)
{
    struct local *w = a->world;
    struct actor **at = &w->askers;
    if (!a->asks)
        return;
    while (*at != a)
        at = &(*at)->next_asker;
    *at = a->next_asker;
    if (w->askers_end == &a->next_asker)
        w->askers_end = at;
    a->asks = false;
    tape_forget(w->tape, &a->number);
}

fault ask_journals_are_read(const struct local *w)
{
    for (size_t i = 0; i < w->n; i++) {
        const struct journal *j = &w->actors[i].journal;
        if (j->read < j->n)
            return FAIL(FAULT_CHECKPOINT, "it has %zu numbers that agent %zu asked for, and there were %zu",
                        j->n, i, j->read);
    }
    return OK;
}

const double *local_numbers(const struct local *w, size_t member, size_t *n)
{
    *n = w->actors[member].journal.n;
    return w->actors[member].journal.at;
}

fault local_set_numbers(struct local *w, size_t member, const double *numbers, size_t n)
{
    struct journal *j = &w->actors[member].journal;
    for (size_t i = 0; i < n; i++)
        if (!isfinite(numbers[i]))
            return FAIL(FAULT_CHECKPOINT, "number %zu that agent %zu asked for is none", i, member);
    double *at = malloc((n + 1) * sizeof *at);
    if (!at)
        return OUT_OF_MEMORY;
    if (n)
        memcpy(at, numbers, n * sizeof *at);
    free(j->at);
    *j = (struct journal){.at = at, .n = n, .room = n + 1};
    return OK;
}
