/* waiting.c - who is slow: who waited, for whom, and who held the others up. */
#include <stdio.h>

#include "base/page.h"
#include "record/inside.h"

static double mean_waiting_s(const struct waiting *w)
{
    double sum = 0;
    for (size_t i = 0; i < w->n_agents; i++)
        sum += w->waiting_s[i];
    return w->n_agents ? sum / (double)w->n_agents : 0;
}

double waiting_share(const struct waiting *w)
{
    return w->virtual_s > 0 ? mean_waiting_s(w) / w->virtual_s : 0;
}

void waiting_judge(struct waiting *w, const double *by_helpers, const double *helpers_waiting_s)
{
    double little = mean_waiting_s(w) / 2, most = 0, slowest = 0;
    w->most = w->slowest = NO_MEMBER;
    for (size_t i = 0; i < w->n_members; i++) {
        double own = i < w->n_agents ? w->waiting_s[i] : helpers_waiting_s[i - w->n_agents];
        double of_all = w->waited_for_s[i] + by_helpers[i];
        if (w->waited_for_s[i] > most) {
            most = w->waited_for_s[i];
            w->most = (int64_t)i;
        }
        if (own < little && of_all > slowest) {
            slowest = of_all;
            w->slowest = (int64_t)i;
        }
    }
    /* of several that were waited for alike, the one that is slow is meant */
    if (w->slowest != NO_MEMBER && w->waited_for_s[w->slowest] > 0.9 * most)
        w->most = w->slowest;
}

const char *waiting_name(const struct waiting *w, int64_t member, char name[MEMBER_NAME])
{
    if (member < (int64_t)w->n_agents)
        snprintf(name, MEMBER_NAME, "agent %lld", (long long)member);
    else
        snprintf(name, MEMBER_NAME, "%.10s %lld", w->helper, (long long)(member - (int64_t)w->n_agents));
    return name;
}

fault waiting_sentence(const struct waiting *w, char **out)
{
    char name[MEMBER_NAME], other[MEMBER_NAME];
    struct page page;
    TRY(page_open(&page));
    FILE *to = page.out;
    if (w->n_members && w->most != NO_MEMBER) {
        fprintf(to, "others waited %.4g s for %s", w->waited_for_s[w->most], waiting_name(w, w->most, name));
        if (w->longest != NO_MEMBER)
            fprintf(to, ", most of all %s (%.4g s)", waiting_name(w, w->longest, name), w->longest_s);
        if (w->slowest != NO_MEMBER && w->slowest != w->most)
            fprintf(to, "; %s hardly waited itself", waiting_name(w, w->slowest, name));
        else if (w->slowest == NO_MEMBER && w->link[0] != NO_MEMBER)
            fprintf(to, "; the slowest link is that of %s and %s (%.4g s)", waiting_name(w, w->link[0], name),
                    waiting_name(w, w->link[1], other), w->link_s);
    }
    return page_close(&page, OK, out);
}

/* ---- for programs ---- */

static json_t *numbers(const double *values, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++)
        if (json_array_append_new(list, json_number(values[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *named(const struct waiting *w, int64_t member)
{
    char name[MEMBER_NAME];
    return member == NO_MEMBER ? json_null() : json_string(waiting_name(w, member, name));
}

static json_t *link_object(const struct waiting *w)
{
    if (w->link[0] == NO_MEMBER)
        return json_null();
    return json_pack("{s:[o, o], s:o}", "between", named(w, w->link[0]), named(w, w->link[1]), "waiting_s",
                     json_number(w->link_s));
}

json_t *json_waiting(const struct waiting *w, bool thorough)
{
    if (!w->n_members)
        return json_null();
    json_t *object = json_pack("{s:o, s:o, s:o, s:o}", "waited_for_s", numbers(w->waited_for_s, w->n_members),
                               "most_waited_for", named(w, w->most), "slowest", named(w, w->slowest),
                               "slowest_link", link_object(w));
    if (object && thorough &&
        json_object_set_new(object, "waiting_s", numbers(w->waiting_s, w->n_agents)) != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}
